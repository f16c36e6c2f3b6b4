from cpython.ref cimport PyObject
from libc.stdint cimport uint32_t, uintptr_t

from gdsvc._lease_heap cimport LeaseEntry

cdef enum:
    DIGEST = 16  # bytes
    ADDRESS = 16  # bytes: IPv6, or IPv4 mapped into it


cdef class Listed(LeaseEntry):
    cdef bytes encoded
    cdef readonly str model
    cdef readonly str region
    cdef PyObject *chunk  # the chunk of the index that holds it; NULL while it is in none
    cdef unsigned char digests[2][DIGEST]  # of the last body that said this, and of another that says the same
    cdef unsigned char known[2]  # whether there is such a body
    cdef unsigned char newest  # which of them came last
    cdef unsigned char gone
    cdef readonly uint32_t beats  # registrations and renewals since it is listed; stays at its largest value
    cdef unsigned char heard_from[ADDRESS]  # who sent the last of them; zeros where that is not known


cdef int note_beat(Listed listed, str source) except -1
cdef bint matches(Listed listed, frozenset sites, frozenset models, frozenset regions) except -1


cdef class BodyTable:
    cdef uintptr_t *slots
    cdef size_t mask
    cdef size_t used

    cdef PyObject *find(self, const unsigned char *digest) noexcept
    cdef int remember(self, Listed listed, const unsigned char *digest) except -1
    cdef void forget(self, Listed listed) noexcept
    cdef int add(self, Listed listed, int which) except -1
    cdef void discard(self, Listed listed, int which) noexcept
    cdef void place(self, uintptr_t tagged) noexcept
    cdef int grow(self) except -1


cdef struct KeySlot:
    PyObject *listed  # a Listed; NULL where the slot is free
    uint32_t hash  # the low half of its key's hash


cdef class KeyTable:
    cdef KeySlot *slots
    cdef size_t mask
    cdef size_t used

    cdef PyObject *find(self, bytes key) noexcept
    cdef int add(self, Listed listed) except -1
    cdef void discard(self, Listed listed) noexcept
    cdef void place(self, KeySlot *taken) noexcept
    cdef int grow(self) except -1
