from gdsvc._line cimport Line
from gdsvc._request cimport RequestWriter
from gdsvc._stock cimport Stock


cdef class Response:
    cdef Line line
    cdef readonly int status
    cdef readonly list headers
    cdef readonly list trailers
    cdef readonly bint reused

    cdef bint is_over(self) noexcept
    cdef bint is_whole(self) noexcept
    cpdef taken(self)


cdef class Sender:
    cdef RequestWriter writer
    cdef object kind
    cdef readonly dict stocks

    cdef Stock stock(self, origin)


cdef class Exchange:
    cdef Sender sender
    cdef object origin
    cdef readonly object head
    cdef readonly object body
    cdef readonly bint fresh
    cdef readonly Stock stock
    cdef Line line
    cdef Response response
    cdef bytes message
    cdef bint is_joined
    cdef bint head_only
    cdef public object upload

    cdef bint prepare(self) except *
    cdef ask(self)
    cdef bint is_answered(self) except *
    cdef leave(self)
