from gdsvc._arriving cimport Arriving
from gdsvc._exchange cimport Response
from gdsvc._heads cimport CallerHead, Sieve
from gdsvc._histogram cimport Histogram
from gdsvc._in_flight cimport Frontend


cdef class Desk:
    cdef readonly Py_ssize_t in_flight
    cdef public bint tells  # each request when it is over
    cdef object departures
    cdef dict requests
    cdef dict outcomes
    cdef Sieve sieve
    cdef frozenset notable
    cdef Histogram selection


cdef class Passage:
    cdef object __weakref__
    cdef readonly object scope
    cdef readonly object receive
    cdef readonly object send
    cdef readonly Desk desk
    cdef readonly CallerHead head
    cdef readonly str route
    cdef readonly str pool  # that was asked last
    cdef readonly Arriving body
    cdef readonly long long sent  # bytes of the answer's body
    cdef bytes last  # part of it
    cdef readonly int status  # of the answer that has begun, or 0
    cdef readonly bint is_second
    cdef public int told  # the status of an answer of our own, or 0
    cdef public str end  # how it came to its end
    cdef public Frontend frontend
    cdef double began_at
    cdef Histogram first_byte
    cdef object asked

    cdef list begun(self, Response response)
    cdef find(self)
    cdef over(self)
