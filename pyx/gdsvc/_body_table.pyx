"""Finds the listing that a body of bytes says again, by the body's digest."""

cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from gdsvc._lease_heap cimport LeaseEntry

cdef enum:
    FEWEST_SLOTS = 64


@cython.final
@cython.no_gc  # holds bytes and str only: no cycle can pass through it
cdef class Listed(LeaseEntry):
    """A listing; its `item` is its key. Field by field 128 bytes: there is one for each pool."""


@cython.final
cdef class BodyTable:
    """Finds listings by the digest of a body: open addressing over tagged pointers, 8 bytes a slot, no copies.

    A slot is the address of a Listed, which the index owns, and in its lowest bit which of the two digests is meant.
    A dict over digests takes five times the memory, which at 100,000 pools is a tenth of the process.
    """

    def __cinit__(self):
        self.slots = <uintptr_t *> calloc(FEWEST_SLOTS, sizeof(uintptr_t))
        if self.slots == NULL:
            raise MemoryError()
        self.mask = FEWEST_SLOTS - 1

    def __dealloc__(self):
        free(self.slots)

    cdef PyObject *find(self, const unsigned char *digest) noexcept:
        """The Listed that has a body of this digest; NULL where none has."""
        cdef size_t slot = _home(digest) & self.mask
        while self.slots[slot]:
            if memcmp(_digest_in(self.slots[slot]), digest, DIGEST) == 0:
                return <PyObject *> (self.slots[slot] & ~<uintptr_t> 1)
            slot = (slot + 1) & self.mask
        return NULL

    cdef int add(self, Listed listed, int which) except -1:
        if 4 * (self.used + 1) > 3 * (self.mask + 1):
            self.grow()
        self.place((<uintptr_t> <PyObject *> listed) | which)
        self.used += 1
        return 0

    cdef void discard(self, Listed listed, int which) noexcept:
        """Takes a digest out that is in, and moves those behind it up, so that no search ends early."""
        cdef uintptr_t tagged = (<uintptr_t> <PyObject *> listed) | which
        cdef size_t slot = _home(listed.digests[which]) & self.mask, behind, home
        while self.slots[slot] != tagged:
            slot = (slot + 1) & self.mask
        behind = slot
        while True:
            behind = (behind + 1) & self.mask
            if self.slots[behind] == 0:
                break
            home = _home(_digest_in(self.slots[behind])) & self.mask
            if ((behind - home) & self.mask) >= ((behind - slot) & self.mask):
                self.slots[slot] = self.slots[behind]
                slot = behind
        self.slots[slot] = 0
        self.used -= 1

    cdef void place(self, uintptr_t tagged) noexcept:
        cdef size_t slot = _home(_digest_in(tagged)) & self.mask
        while self.slots[slot]:
            slot = (slot + 1) & self.mask
        self.slots[slot] = tagged

    cdef int grow(self) except -1:
        cdef uintptr_t *before = self.slots
        cdef size_t count = self.mask + 1, slot
        cdef uintptr_t *doubled = <uintptr_t *> calloc(2 * count, sizeof(uintptr_t))
        if doubled == NULL:
            raise MemoryError()
        self.slots = doubled
        self.mask = 2 * count - 1
        for slot in range(count):
            if before[slot]:
                self.place(before[slot])
        free(before)
        return 0


cdef inline uint64_t _home(const unsigned char *digest) noexcept:
    cdef uint64_t home
    memcpy(&home, digest, sizeof(home))  # uniform already
    return home


cdef inline unsigned char *_digest_in(uintptr_t tagged) noexcept:
    return (<Listed> <PyObject *> (tagged & ~<uintptr_t> 1)).digests[tagged & 1]
