from gdsvc._reply cimport ReplyReader


cdef class Line:
    cdef object __weakref__
    cdef readonly ReplyReader reply
    cdef readonly Py_ssize_t served
    cdef long long written  # bytes on the wire
    cdef readonly long long written_before
    cdef readonly bint is_busy
    cdef readonly bint is_paused
    cdef public bint is_lost
    cdef public double born_at
    cdef public object failure
    cdef public object transport
    cdef public object cipher
    cdef public object permission
    cdef object future
    cdef object new_future
    cdef object silence
    cdef Py_ssize_t held_bytes

    cdef bint can_go_on(self) except *
    cdef begin(self, bytes message, bint head_only)
    cdef bint finish(self) except *
    cpdef changed(self)
    cdef resume(self)
    cdef put(self, bytes data)
