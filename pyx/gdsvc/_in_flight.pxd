from libc.stdint cimport int64_t


cdef class Cell:
    cdef object __weakref__
    cdef readonly str pool_id
    cdef readonly int64_t in_flight
    cdef readonly int64_t strikes  # successes that are missing until the pool is trusted again
    cdef public bint aside  # written by the ejection alone, as those of its frontends
    cdef Py_ssize_t turns  # that its frontends have had

    cdef Frontend next_of(self, tuple frontends)


cdef class Frontend:
    cdef object __weakref__
    cdef readonly Cell cell
    cdef readonly str url
    cdef public bint aside
    cdef public bint has_failed  # since its last success; written by the ejection

    cdef bint suspect(self) noexcept


cdef class Guard:
    cdef readonly Frontend frontend
    cdef bint held
