"""The index of what a directory shows: encoded listings by key, their leases, their order, one revision.

It keeps bytes, not Structs: a listing is encoded once, when it changes, and a list is made by copying those bytes.
It decides neither what a payload means nor when time passes: keys, encodings and `now` (seconds) are passed in.
"""

from sys import intern

from xxhash import xxh3_128_digest

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.math cimport isinf
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy

from gdsvc._lease_heap cimport LeaseEntry, LeaseHeap

UNCHANGED = 0
CHANGED = 1
NEW = 2


@cython.final
@cython.no_gc  # holds bytes and interned str only: no cycle can pass through it
cdef class _Listed(LeaseEntry):
    cdef readonly bytes key
    cdef bytes encoded
    cdef bytes digest  # of the last body that said this, and of another body that says the same
    cdef bytes other_digest
    cdef str model
    cdef str region
    cdef bint gone


cdef object _key_of(_Listed listed):
    return listed.key


@cython.final
cdef class ListParts:
    """The encodings of one list in order, at one revision; joining them needs no lock and may run in any thread."""

    cdef list _parts
    cdef readonly Py_ssize_t size  # bytes of the parts with a comma between two
    cdef readonly object revision

    def __init__(self):
        raise TypeError("made by PoolIndex.parts")

    def __len__(self):
        return PyList_GET_SIZE(self._parts)

    @property
    def encodings(self) -> list[bytes]:
        return self._parts

    def join(self, bytes head not None, bytes tail not None) -> bytes:
        """`head`, the parts with commas between them, `tail`: one copy, made without the interpreter lock."""
        cdef Py_ssize_t count = PyList_GET_SIZE(self._parts), position
        cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head), tail_size = PyBytes_GET_SIZE(tail)
        cdef bytes joined = PyBytes_FromStringAndSize(NULL, head_size + self.size + tail_size)
        cdef char *out = PyBytes_AS_STRING(joined)
        cdef char **starts = <char **> malloc(max(count, 1) * sizeof(char *))
        cdef Py_ssize_t *sizes = <Py_ssize_t *> malloc(max(count, 1) * sizeof(Py_ssize_t))
        cdef bytes part
        if starts == NULL or sizes == NULL:
            free(starts)
            free(sizes)
            raise MemoryError()
        for position in range(count):
            part = <bytes> self._parts[position]
            starts[position] = PyBytes_AS_STRING(part)
            sizes[position] = PyBytes_GET_SIZE(part)
        memcpy(out, PyBytes_AS_STRING(head), head_size)
        out += head_size
        with nogil:  # a list of 100,000 pools is 50 MB: the loop runs on meanwhile
            for position in range(count):
                if position:
                    out[0] = c','
                    out += 1
                memcpy(out, starts[position], sizes[position])
                out += sizes[position]
        memcpy(out, PyBytes_AS_STRING(tail), tail_size)
        free(starts)
        free(sizes)
        return joined


cdef ListParts _new_parts(list parts, object revision):
    cdef ListParts made = ListParts.__new__(ListParts)
    cdef Py_ssize_t size = max(PyList_GET_SIZE(parts) - 1, 0)
    cdef object part
    for part in parts:
        size += PyBytes_GET_SIZE(part)
    made._parts = parts
    made.size = size
    made.revision = revision
    return made


@cython.final
cdef class PoolIndex:
    """Listings by key, in key order, with their leases.

    A key is bytes that sort as the list is sorted and hold NUL only between its names (site, namespace, name).
    `digest_seed`: a secret 64-bit integer; bodies are remembered by their keyed 128-bit XXH3, not kept.
    """

    cdef dict _by_key
    cdef dict _by_digest
    cdef list _order  # sorted by key; what came or went since the last list is in _fresh or marked gone
    cdef list _fresh
    cdef Py_ssize_t _gone  # listings marked gone that are still in _order or _fresh
    cdef LeaseHeap _leases
    cdef object _seed
    cdef bytes _digested  # the body digested last, and its digest
    cdef bytes _digest
    cdef readonly unsigned long long revision
    cdef readonly unsigned long long renewed  # by renew(), and by beat() of what was not fresh
    cdef readonly unsigned long long expired
    cdef readonly unsigned long long encodings  # listings that were given anew: each was encoded once

    def __init__(self, unsigned long long digest_seed):
        self._by_key = {}
        self._by_digest = {}
        self._order = []
        self._fresh = []
        self._leases = LeaseHeap()
        self._seed = digest_seed

    def __len__(self):
        return len(self._by_key)

    def __contains__(self, bytes key not None):
        return key in self._by_key

    @property
    def next_deadline(self) -> float:
        """When the next lease ends, in the seconds of `now`; inf where none is held."""
        return self._leases.next_deadline

    def bump(self) -> None:
        """One more revision, for a change that is not in the listings themselves."""
        self.revision += 1

    def renew(self, bytes body not None, double now, double ttl) -> bool:
        """The fast path: moves the lease of the key whose last registration had these bytes; False where none had."""
        cdef object found = self._by_digest.get(self._digest_of(body))
        if found is None:
            return False
        self._leases.renew(<_Listed> found, now, ttl)
        self.renewed += 1
        return True

    def beat(self, bytes key not None, bytes body, double now, double ttl, bint fresh) -> None:
        """Makes the lease of `key` end at `now + ttl` and remembers `body`, if any, for the fast path.

        `fresh`: the bodies remembered before say something else. Otherwise two are kept, so that two relays that
        write one payload differently both stay on the fast path. Raises KeyError.
        """
        cdef _Listed listed = <_Listed> self._by_key[key]
        if fresh:
            self._forget_bodies(listed)
        else:
            self.renewed += 1
        if body is not None:
            self._remember(listed, body)
        self._leases.renew(listed, now, ttl)

    def put(self, bytes key not None, bytes encoded not None, str model=None, str region=None) -> int:
        """Shows `encoded` under `key`; a new key has no lease until `beat`. Returns NEW, CHANGED or UNCHANGED."""
        cdef object found = self._by_key.get(key)
        cdef _Listed listed
        if found is None:
            listed = _Listed.__new__(_Listed)
            listed.key = key
            self._by_key[key] = listed
            self._fresh.append(listed)
        else:
            listed = <_Listed> found
            if listed.encoded == encoded:
                return UNCHANGED
        listed.encoded = encoded
        listed.model = None if model is None else intern(model)  # a fleet has few models and regions
        listed.region = None if region is None else intern(region)
        self.revision += 1
        self.encodings += 1
        return NEW if found is None else CHANGED

    def remove(self, bytes key not None) -> bool:
        """Takes the listing out; False where there was none."""
        cdef object found = self._by_key.get(key)
        if found is None:
            return False
        self._leases.remove(<_Listed> found)
        self._drop(<_Listed> found)
        return True

    def expire(self, double now, Py_ssize_t limit) -> list[bytes]:
        """Takes out at most `limit` listings whose lease has ended at `now`; their keys, earliest first."""
        cdef list due = self._leases.expire(now, limit)
        cdef list keys = []
        cdef object listed
        for listed in due:
            self._drop(<_Listed> listed)
            keys.append((<_Listed> listed).key)
        self.expired += len(keys)
        return keys

    def encoding(self, bytes key not None) -> bytes | None:
        """The listing of `key` as it was put; None where there is none."""
        cdef object found = self._by_key.get(key)
        return None if found is None else (<_Listed> found).encoded

    def deadline(self, bytes key not None) -> float:
        """When the lease of `key` ends; inf where it has none. Raises KeyError."""
        return (<_Listed> self._by_key[key]).deadline

    def parts(self, frozenset sites=None, frozenset models=None, frozenset regions=None) -> ListParts:
        """The list in key order; each filter that is not None keeps the listings whose value is in it.

        `sites` holds UTF-8 bytes, the others str.
        """
        cdef list parts = []
        cdef object listed
        cdef bint all_of_them = sites is None and models is None and regions is None
        for listed in self._in_order():
            if all_of_them or _matches(<_Listed> listed, sites, models, regions):
                parts.append((<_Listed> listed).encoded)
        return _new_parts(parts, self.revision)

    cdef list _in_order(self):
        if self._gone:
            self._sweep_gone()
        if self._fresh:
            self._order += self._fresh
            self._order.sort(key=_key_of)  # two runs, the first sorted: Timsort merges them in linear time
            self._fresh = []
        return self._order

    cdef int _sweep_gone(self) except -1:
        self._order = [listed for listed in self._order if not (<_Listed> listed).gone]
        self._fresh = [listed for listed in self._fresh if not (<_Listed> listed).gone]
        self._gone = 0
        return 0

    cdef int _remember(self, _Listed listed, bytes body) except -1:
        cdef bytes digest = self._digest_of(body)
        if digest == listed.digest or digest == listed.other_digest:
            return 0
        if listed.other_digest is not None:
            del self._by_digest[listed.other_digest]
        listed.other_digest = listed.digest
        listed.digest = digest
        self._by_digest[digest] = listed
        return 0

    cdef bytes _digest_of(self, bytes body):
        """The digest of `body`; a body that renew() did not know is asked for again when it is remembered."""
        if self._digested is not body:
            self._digest = xxh3_128_digest(body, self._seed)
            self._digested = body
        return self._digest

    cdef int _forget_bodies(self, _Listed listed) except -1:
        if listed.digest is not None:
            del self._by_digest[listed.digest]
        if listed.other_digest is not None:
            del self._by_digest[listed.other_digest]
        listed.digest = listed.other_digest = None
        return 0

    cdef int _drop(self, _Listed listed) except -1:
        """The part of leaving that is no lease."""
        del self._by_key[listed.key]
        self._forget_bodies(listed)
        listed.gone = True
        listed.encoded = None
        self.revision += 1
        self._gone += 1
        if self._gone > 1024 + len(self._by_key):  # pools may come and go for days without one list
            self._sweep_gone()
        return 0


cdef bint _matches(_Listed listed, frozenset sites, frozenset models, frozenset regions) except -1:
    cdef char *key
    cdef void *end
    if models is not None and listed.model not in models:
        return False
    if regions is not None and listed.region not in regions:
        return False
    if sites is not None:
        key = PyBytes_AS_STRING(listed.key)
        end = memchr(key, 0, PyBytes_GET_SIZE(listed.key))
        if end == NULL:
            return listed.key in sites
        return key[:<char *> end - key] in sites
    return True
