"""The index of what a directory shows: encoded listings by key, their leases, their order, one revision.

It keeps bytes, not Structs: a listing is encoded once, when it changes, and a list is made by copying those bytes.
It decides neither what a payload means nor when time passes: keys, encodings and `now` (seconds) are passed in.
"""

from xxhash import xxh3_128_digest

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE, PyList_Insert
from cpython.ref cimport PyObject

from gdsvc._lease_heap cimport LeaseHeap
from gdsvc._list_parts cimport ListParts
from gdsvc._listed cimport BodyTable, KeyTable, Listed, matches, note_beat

UNCHANGED = 0
CHANGED = 1
NEW = 2

cdef enum:
    CHUNK = 128  # listings in a chunk when it is made: 64 KiB, copied in a few microseconds
    LARGEST_CHUNK = 256  # beyond which it is split
    SPARE_GONE = 1024
    SPARE_VALUES = 1024


cdef object _key_of(Listed listed):
    return listed.item


@cython.final
cdef class _Chunk:
    """Neighbours in the order, and where their bytes stand in the list that was made last."""

    cdef list members  # Listed, sorted by key
    cdef Py_ssize_t size  # bytes of their encodings, with a comma behind each
    cdef Py_ssize_t at  # where they begin in that list, behind its head
    cdef bint changed  # since then

    cdef Py_ssize_t position_of(self, bytes key) except -1:
        """Where a member of `key` is, or would be."""
        cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(self.members), middle
        while low < high:
            middle = (low + high) // 2
            if <bytes> (<Listed> self.members[middle]).item < key:
                low = middle + 1
            else:
                high = middle
        return low


cdef _Chunk _new_chunk(list members):
    cdef _Chunk chunk = _Chunk.__new__(_Chunk)
    cdef object listed
    chunk.members = members
    chunk.changed = True
    for listed in members:
        (<Listed> listed).chunk = <PyObject *> chunk
        chunk.size += PyBytes_GET_SIZE((<Listed> listed).encoded) + 1
    return chunk


@cython.final
cdef class PoolIndex:
    """Listings by key, in key order, with their leases.

    A key is bytes that sort as the list is sorted and hold NUL only between its names (site, namespace, name).
    `digest_seed`: a secret 64-bit integer; bodies are remembered by their keyed 128-bit XXH3, not kept.

    The order is a list of chunks. A list is made from the one before it: the bytes of a chunk in which nothing has
    changed are copied from there in one piece.
    """

    cdef KeyTable _by_key
    cdef dict _values  # models and regions, each by itself
    cdef BodyTable _bodies
    cdef list _chunks  # in order, none of them empty
    cdef list _fresh  # listings that came since the order was last asked for, and perhaps went again
    cdef Py_ssize_t _fresh_gone
    cdef ListParts _last  # the list made last
    cdef LeaseHeap _leases
    cdef object _seed
    cdef bytes _digested  # the body digested last, and its digest
    cdef bytes _digest
    cdef readonly unsigned long long revision
    cdef readonly unsigned long long renewed  # by renew(), and by beat() of what was not fresh
    cdef readonly unsigned long long expired
    cdef readonly unsigned long long encodings  # listings that were given anew: each was encoded once

    def __cinit__(self, unsigned long long digest_seed):
        self._by_key = KeyTable()
        self._values = {}
        self._bodies = BodyTable()
        self._chunks = []
        self._fresh = []
        self._leases = LeaseHeap()
        self._seed = digest_seed

    def __len__(self):
        return self._by_key.used

    def __contains__(self, bytes key not None):
        return self._by_key.find(key) != NULL

    @property
    def next_deadline(self) -> float:
        """When the next lease ends, in the seconds of `now`; inf where none is held."""
        return self._leases.earliest()

    def bump(self) -> None:
        """One more revision, for a change that is not in the listings themselves."""
        self.revision += 1

    def renew(self, bytes body not None, double now, double ttl, str source=None) -> bool:
        """The fast path: moves the lease of the key whose last registration had these bytes; False where none had.

        `source`: the IP address that they came from.
        """
        cdef PyObject *found = self._bodies.find(self._digest_of(body))
        if found == NULL:
            return False
        self._leases.renew(<Listed> found, now, ttl)
        note_beat(<Listed> found, source)
        self.renewed += 1
        return True

    def key_of(self, bytes body not None) -> bytes | None:
        """The key that `renew` would find; for who must do something first before its lease may move."""
        cdef PyObject *found = self._bodies.find(self._digest_of(body))
        return None if found == NULL else <bytes> (<Listed> found).item

    def extend(self, bytes key not None, double now, double ttl) -> None:
        """Makes the lease of `key` end at `now + ttl`, for a heartbeat that another heard: none is counted here.

        Raises KeyError.
        """
        self._leases.renew(self._listed(key), now, ttl)

    def forget_bodies(self, bytes key not None) -> None:
        """From now on no body renews `key`: those remembered say something else than what is shown. Raises KeyError."""
        self._bodies.forget(self._listed(key))

    def beat(self, bytes key not None, bytes body, double now, double ttl, bint fresh, str source=None) -> None:
        """Makes the lease of `key` end at `now + ttl` and remembers `body`, if any, for the fast path.

        `fresh`: the bodies remembered before say something else. Otherwise two are kept, so that two relays that
        write one payload differently both stay on the fast path. Raises KeyError.
        """
        cdef Listed listed = self._listed(key)
        if fresh:
            self._bodies.forget(listed)
        else:
            self.renewed += 1
        if body is not None:
            self._bodies.remember(listed, self._digest_of(body))
        self._leases.renew(listed, now, ttl)
        note_beat(listed, source)

    def put(self, bytes key not None, bytes encoded not None, str model=None, str region=None) -> int:
        """Shows `encoded` under `key`; a new key has no lease until `beat`. Returns NEW, CHANGED or UNCHANGED."""
        cdef PyObject *found = self._by_key.find(key)
        cdef bint new = found == NULL
        cdef Listed listed
        cdef _Chunk chunk
        if new:
            listed = Listed.__new__(Listed)
            listed.item = key
            self._fresh.append(listed)
            self._by_key.add(listed)
        else:
            listed = <Listed> found
            if listed.encoded == encoded:
                return UNCHANGED
            if listed.chunk != NULL:
                chunk = <_Chunk> listed.chunk
                chunk.size += PyBytes_GET_SIZE(encoded) - PyBytes_GET_SIZE(listed.encoded)
                chunk.changed = True
        listed.encoded = encoded
        listed.model = self._shared(model)
        listed.region = self._shared(region)
        self.revision += 1
        self.encodings += 1
        return NEW if new else CHANGED

    def remove(self, bytes key not None) -> Listed | None:
        """Takes the listing out, and gives it; None where there was none."""
        cdef PyObject *found = self._by_key.find(key)
        cdef Listed listed
        if found == NULL:
            return None
        listed = <Listed> found
        self._leases.remove(listed)
        self._drop(listed)
        return listed

    def expire(self, double now, Py_ssize_t limit) -> list[Listed]:
        """Takes out at most `limit` listings whose lease has ended at `now`, and gives them, earliest first."""
        cdef list due = self._leases.expire(now, limit)
        cdef object listed
        for listed in due:
            self._drop(<Listed> listed)
        self.expired += len(due)
        return due

    def find(self, bytes key not None) -> Listed | None:
        """The listing of `key`, as it is at any time while it is listed; None where there is none."""
        cdef PyObject *found = self._by_key.find(key)
        return None if found == NULL else <Listed> found

    def encoding(self, bytes key not None) -> bytes | None:
        """The listing of `key` as it was put; None where there is none."""
        cdef PyObject *found = self._by_key.find(key)
        return None if found == NULL else (<Listed> found).encoded

    def deadline(self, bytes key not None) -> float:
        """When the lease of `key` ends; inf where it has none. Raises KeyError."""
        return self._listed(key).deadline

    def listings(self) -> list[bytes]:
        """Every encoding, in key order."""
        cdef list encodings = []
        cdef object chunk, listed
        self._sort_in()
        for chunk in self._chunks:
            for listed in (<_Chunk> chunk).members:
                encodings.append((<Listed> listed).encoded)
        return encodings

    def parts(self, frozenset sites=None, frozenset models=None, frozenset regions=None) -> ListParts:
        """The list in key order; each filter that is not None keeps the listings whose value is in it.

        `sites` holds UTF-8 bytes, the others str.
        """
        cdef ListParts made = ListParts.__new__(ListParts)
        cdef object chunk, listed
        self._sort_in()
        made.revision = self.revision
        if sites is None and models is None and regions is None:
            self._add_all(made)
            self._last = made
            return made
        made.reserve(self._by_key.used)
        for chunk in self._chunks:
            for listed in (<_Chunk> chunk).members:
                if matches(<Listed> listed, sites, models, regions):
                    made.add((<Listed> listed).encoded, 0, PyBytes_GET_SIZE((<Listed> listed).encoded))
        return made

    cdef int _add_all(self, ListParts made) except -1:
        cdef bytes before = None if self._last is None else self._last.joined
        cdef Py_ssize_t before_at = 0 if before is None else self._last.head_size
        cdef Py_ssize_t at = 0, pieces = 0
        cdef object item, listed
        cdef _Chunk chunk
        for item in self._chunks:
            chunk = <_Chunk> item
            pieces += 1 if before is not None and not chunk.changed else PyList_GET_SIZE(chunk.members)
        made.reserve(pieces)
        for item in self._chunks:
            chunk = <_Chunk> item
            if before is not None and not chunk.changed:
                made.add(before, before_at + chunk.at, chunk.size - 1)
            else:
                for listed in chunk.members:
                    made.add((<Listed> listed).encoded, 0, PyBytes_GET_SIZE((<Listed> listed).encoded))
            chunk.at = at
            chunk.changed = False
            at += chunk.size
        return 0

    cdef int _sort_in(self) except -1:
        """Brings what came since the last time into the order."""
        cdef list fresh
        cdef object item
        if not self._fresh:
            return 0
        fresh = [item for item in self._fresh if not (<Listed> item).gone]
        fresh.sort(key=_key_of)
        self._fresh = []
        self._fresh_gone = 0
        if 8 * PyList_GET_SIZE(fresh) > <Py_ssize_t> self._by_key.used:
            self._make_chunks(fresh)
        else:
            for item in fresh:
                self._insert(<Listed> item)
        return 0

    cdef int _make_chunks(self, list fresh) except -1:
        """The order anew: two sorted runs, which sort() merges in linear time, and cuts into chunks."""
        cdef list ordered = []
        cdef object chunk
        cdef Py_ssize_t start
        for chunk in self._chunks:
            ordered += (<_Chunk> chunk).members
        ordered += fresh
        ordered.sort(key=_key_of)
        self._chunks = [
            _new_chunk(ordered[start:start + CHUNK]) for start in range(0, PyList_GET_SIZE(ordered), CHUNK)
        ]
        return 0

    cdef int _insert(self, Listed listed) except -1:
        cdef Py_ssize_t at
        cdef _Chunk chunk
        if not self._chunks:
            self._chunks.append(_new_chunk([listed]))
            return 0
        at = self._chunk_before(<bytes> listed.item)
        chunk = <_Chunk> self._chunks[at]
        PyList_Insert(chunk.members, chunk.position_of(<bytes> listed.item), listed)
        listed.chunk = <PyObject *> chunk
        chunk.size += PyBytes_GET_SIZE(listed.encoded) + 1
        chunk.changed = True
        if PyList_GET_SIZE(chunk.members) > LARGEST_CHUNK:
            self._chunks[at:at + 1] = [_new_chunk(chunk.members[:CHUNK]), _new_chunk(chunk.members[CHUNK:])]
        return 0

    cdef Py_ssize_t _chunk_before(self, bytes key) except -1:
        """The last chunk that does not begin behind `key`; the first where all do."""
        cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(self._chunks), middle
        while high - low > 1:
            middle = (low + high) // 2
            if key < <bytes> (<Listed> (<_Chunk> self._chunks[middle]).members[0]).item:
                high = middle
            else:
                low = middle
        return low

    cdef str _shared(self, str value):
        """`value`, the same object for all that have it: a fleet has few models and regions.

        Not by sys.intern(), whose strings some versions of Python never let go.
        """
        cdef size_t slot
        cdef PyObject *listed
        if value is None:
            return None
        if <size_t> len(self._values) > SPARE_VALUES + 2 * self._by_key.used:
            self._values = {}
            for slot in range(self._by_key.mask + 1):
                listed = self._by_key.slots[slot].listed
                if listed != NULL:
                    self._values[(<Listed> listed).model] = (<Listed> listed).model
                    self._values[(<Listed> listed).region] = (<Listed> listed).region
        return self._values.setdefault(value, value)

    cdef Listed _listed(self, bytes key):
        cdef PyObject *found = self._by_key.find(key)
        if found == NULL:
            raise KeyError(key)
        return <Listed> found

    cdef bytes _digest_bytes(self, bytes body):
        """The digest of `body`; a body that renew() did not know is asked for again when it is remembered."""
        if self._digested is not body:
            self._digest = xxh3_128_digest(body, self._seed)
            self._digested = body
        return self._digest

    cdef const unsigned char *_digest_of(self, bytes body) except NULL:
        return <const unsigned char *> PyBytes_AS_STRING(self._digest_bytes(body))  # owned by self._digest

    cdef int _drop(self, Listed listed) except -1:
        """The part of leaving that is no lease."""
        cdef _Chunk chunk
        self._by_key.discard(listed)
        self._bodies.forget(listed)
        self.revision += 1
        if listed.chunk != NULL:
            chunk = <_Chunk> listed.chunk
            del chunk.members[chunk.position_of(<bytes> listed.item)]
            chunk.size -= PyBytes_GET_SIZE(listed.encoded) + 1
            chunk.changed = True
            if not chunk.members:
                self._chunks.remove(chunk)
            listed.chunk = NULL
            return 0
        listed.gone = True
        listed.encoded = None
        self._fresh_gone += 1
        # Pools may come and go for days without one list.
        if self._fresh_gone > SPARE_GONE + <Py_ssize_t> self._by_key.used:
            self._fresh = [item for item in self._fresh if not (<Listed> item).gone]
            self._fresh_gone = 0
        return 0
