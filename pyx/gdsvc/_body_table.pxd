from cpython.ref cimport PyObject
from libc.stdint cimport uintptr_t

from gdsvc._lease_heap cimport LeaseEntry

cdef enum:
    DIGEST = 16  # bytes


cdef class Listed(LeaseEntry):
    cdef bytes encoded
    cdef str model
    cdef str region
    cdef PyObject *chunk  # the chunk of the index that holds it; NULL while it is in none
    cdef unsigned char digests[2][DIGEST]  # of the last body that said this, and of another that says the same
    cdef unsigned char known[2]  # whether there is such a body
    cdef unsigned char newest  # which of them came last
    cdef unsigned char gone


cdef class BodyTable:
    cdef uintptr_t *slots
    cdef size_t mask
    cdef size_t used

    cdef PyObject *find(self, const unsigned char *digest) noexcept
    cdef int add(self, Listed listed, int which) except -1
    cdef void discard(self, Listed listed, int which) noexcept
    cdef void place(self, uintptr_t tagged) noexcept
    cdef int grow(self) except -1
