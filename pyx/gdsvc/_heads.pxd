cdef class Meanings:
    cdef dict kinds


cdef class CallerHead:
    cdef readonly bytes host
    cdef readonly bytes coding
    cdef readonly bytes upgrade
    cdef readonly bytes session
    cdef readonly list kept
    cdef readonly Py_ssize_t length
    cdef readonly bint looped
    cdef readonly bint trusted


cdef class Sieve:
    cdef frozenset dropped
    cdef tuple mark

    cdef list passed(self, headers)
