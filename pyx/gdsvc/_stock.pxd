from gdsvc._line cimport Line


cdef class Places:
    cdef object __weakref__
    cdef Py_ssize_t most
    cdef Py_ssize_t used
    cdef readonly object waiting

    cdef bint take_place(self) except *
    cdef give_place(self)


cdef class IdleStack:
    cdef Py_ssize_t most
    cdef double ttl
    cdef list items  # (what, when it was put in), by the instant, which never falls

    cdef list put_at(self, item, double now)
    cdef list expire_at(self, double now)
    cdef list cut(self, Py_ssize_t count)


cdef class Tally:
    cdef readonly set open
    cdef readonly dict failed
    cdef public bint is_closed
    cdef public Py_ssize_t established
    cdef public Py_ssize_t reused


cdef class Stock:
    cdef object __weakref__
    cdef readonly bytes host
    cdef Places room
    cdef readonly IdleStack idle
    cdef readonly Tally tally
    cdef object clock
    cdef double age

    cdef Line take_idle(self)
    cdef Line reuse(self)
    cdef give_back(self, Line line)
