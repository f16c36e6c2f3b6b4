"""A listing as the index keeps it, and the two tables that find it: by its key, and by a body that says it again.

The table of keys owns the listings; that of bodies borrows them.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport UINT32_MAX, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy, memset

from gdsvc._lease_heap cimport LeaseEntry

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8(object text) except NULL
    Py_ssize_t PyObject_Hash(PyObject *key) noexcept  # of bytes: kept in the object, never fails

cdef extern from "<arpa/inet.h>":
    int AF_INET
    int AF_INET6
    int inet_pton(int family, const char *text, void *address) noexcept

cdef const unsigned char *MAPPED = b"\0\0\0\0\0\0\0\0\0\0\xff\xff"  # what an IPv4 address begins with as IPv6

cdef enum:
    FEWEST_SLOTS = 64


@cython.final
@cython.no_gc  # holds bytes and str only: no cycle can pass through it
cdef class Listed(LeaseEntry):
    """A listing; its `item` is its key. Field by field 144 bytes: there is one for each pool."""

    @property
    def source(self) -> bytes | None:
        """The IPv6 address (16 bytes) of the last registration or renewal; None where it is not known."""
        cdef bytes address = self.heard_from[:ADDRESS]
        return address if any(address) else None


cdef int note_beat(Listed listed, str source) except -1:
    """Notes that a registration came, and from where."""
    cdef const char *text
    if listed.beats < UINT32_MAX:
        listed.beats += 1
    if source is not None:
        text = PyUnicode_AsUTF8(source)
        if inet_pton(AF_INET, text, &listed.heard_from[12]) == 1:
            memcpy(listed.heard_from, MAPPED, 12)
            return 0
        if inet_pton(AF_INET6, text, listed.heard_from) == 1:
            return 0
    memset(listed.heard_from, 0, ADDRESS)
    return 0


cdef bint matches(Listed listed, frozenset sites, frozenset models, frozenset regions) except -1:
    cdef char *key
    cdef void *end
    if models is not None and listed.model not in models:
        return False
    if regions is not None and listed.region not in regions:
        return False
    if sites is not None:
        key = PyBytes_AS_STRING(<bytes> listed.item)
        end = memchr(key, 0, PyBytes_GET_SIZE(<bytes> listed.item))
        if end == NULL:
            return <bytes> listed.item in sites
        return key[:<char *> end - key] in sites
    return True


@cython.final
cdef class BodyTable:
    """Finds listings by the digest of a body: open addressing over tagged pointers, 8 bytes a slot, no copies.

    A slot is the address of a Listed, and in its lowest bit which of the two digests is meant.
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

    cdef int remember(self, Listed listed, const unsigned char *digest) except -1:
        """Keeps the digest of a body that says what `listed` shows, and the one that came before it."""
        cdef int which
        for which in range(2):
            if listed.known[which] and memcmp(listed.digests[which], digest, DIGEST) == 0:
                return 0
        which = 1 - listed.newest
        if listed.known[which]:
            self.discard(listed, which)
            listed.known[which] = False
        memcpy(listed.digests[which], digest, DIGEST)
        self.add(listed, which)
        listed.known[which] = True
        listed.newest = which
        return 0

    cdef void forget(self, Listed listed) noexcept:
        """From now on no body finds `listed`."""
        cdef int which
        for which in range(2):
            if listed.known[which]:
                self.discard(listed, which)
                listed.known[which] = False

    cdef int add(self, Listed listed, int which) except -1:
        if 5 * (self.used + 1) > 4 * (self.mask + 1):
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


@cython.final
cdef class KeyTable:
    """Finds listings by key: open addressing, with half a hash in each slot, so that a miss looks at no listing."""

    def __cinit__(self):
        self.slots = <KeySlot *> calloc(FEWEST_SLOTS, sizeof(KeySlot))
        if self.slots == NULL:
            raise MemoryError()
        self.mask = FEWEST_SLOTS - 1

    def __dealloc__(self):
        cdef size_t slot
        for slot in range(self.mask + 1 if self.slots != NULL else 0):
            if self.slots[slot].listed != NULL:
                Py_DECREF(<Listed> self.slots[slot].listed)
        free(self.slots)

    cdef PyObject *find(self, bytes key) noexcept:
        """The Listed of `key`; NULL where there is none."""
        cdef uint32_t hash = _half_hash(key)
        cdef size_t slot = hash & self.mask
        while self.slots[slot].listed != NULL:
            if self.slots[slot].hash == hash and _same(<bytes> (<Listed> self.slots[slot].listed).item, key):
                return self.slots[slot].listed
            slot = (slot + 1) & self.mask
        return NULL

    cdef int add(self, Listed listed) except -1:
        """Takes in a listing whose key is not in yet."""
        cdef KeySlot taken
        if 4 * (self.used + 1) > 3 * (self.mask + 1):
            self.grow()
        taken.listed = <PyObject *> listed
        taken.hash = _half_hash(<bytes> listed.item)
        self.place(&taken)
        Py_INCREF(listed)
        self.used += 1
        return 0

    cdef void discard(self, Listed listed) noexcept:
        """Takes a listing out that is in, and moves those behind it up, so that no search ends early."""
        cdef size_t slot = _half_hash(<bytes> listed.item) & self.mask, behind, home
        while self.slots[slot].listed != <PyObject *> listed:
            slot = (slot + 1) & self.mask
        behind = slot
        while True:
            behind = (behind + 1) & self.mask
            if self.slots[behind].listed == NULL:
                break
            home = self.slots[behind].hash & self.mask
            if ((behind - home) & self.mask) >= ((behind - slot) & self.mask):
                self.slots[slot] = self.slots[behind]
                slot = behind
        self.slots[slot].listed = NULL
        self.used -= 1
        Py_DECREF(listed)

    cdef void place(self, KeySlot *taken) noexcept:
        cdef size_t slot = taken.hash & self.mask
        while self.slots[slot].listed != NULL:
            slot = (slot + 1) & self.mask
        self.slots[slot] = taken[0]

    cdef int grow(self) except -1:
        cdef KeySlot *before = self.slots
        cdef size_t count = self.mask + 1, slot
        cdef KeySlot *doubled = <KeySlot *> calloc(2 * count, sizeof(KeySlot))
        if doubled == NULL:
            raise MemoryError()
        self.slots = doubled
        self.mask = 2 * count - 1
        for slot in range(count):
            if before[slot].listed != NULL:
                self.place(&before[slot])
        free(before)
        return 0


cdef inline uint32_t _half_hash(bytes key) noexcept:
    return <uint32_t> PyObject_Hash(<PyObject *> key)


cdef inline bint _same(bytes one, bytes other) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(one)
    return size == PyBytes_GET_SIZE(other) and memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), size) == 0


cdef inline uint64_t _home(const unsigned char *digest) noexcept:
    cdef uint64_t home
    memcpy(&home, digest, sizeof(home))  # uniform already
    return home


cdef inline unsigned char *_digest_in(uintptr_t tagged) noexcept:
    return (<Listed> <PyObject *> (tagged & ~<uintptr_t> 1)).digests[tagged & 1]
