"""Decides whose turn it is: pools in rounds, and each pool's frontends in rounds of their own.

One rule covers picks and swaps: next is the selectable pool whose last turn is longest ago. While the pools
stay the same that is plain round-robin. Which pools are candidates at all is the caller's to say.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MIN, int64_t
from libc.stdlib cimport qsort

from types import GenericAlias

cdef int64_t FORGOTTEN = INT64_MIN


@cython.final
@cython.no_gc_clear  # `slots` borrows from `pairs`: the collector must not empty that under a pick
cdef class _Rota:
    """One snapshot: built aside, then put in place whole. From there on only picks change it."""

    def __cinit__(self):
        self.known = self.frontends = self.pairs = ()

    def __dealloc__(self):
        PyMem_Free(self.seats)
        PyMem_Free(self.slots)

    cdef int fill(self, list given) except -1:
        """Take in the selectable pools, given as (pool, tuple of frontends)."""
        cdef Py_ssize_t slot
        self.count = len(given)
        self.known = tuple([pool for pool, _ in given])
        self.frontends = tuple([frontends for _, frontends in given])
        self.pairs = tuple([(pool, frontend) for pool, frontends in given for frontend in frontends])
        self.slots = <PyObject**> PyMem_Calloc(len(self.pairs) + 1, sizeof(PyObject*))
        if self.slots is NULL:
            raise MemoryError
        for slot in range(len(self.pairs)):
            self.slots[slot] = <PyObject*> self.pairs[slot]
        return 0

    cdef list match_pools(self, _Rota base):
        """Per pool that `base` knows, its index in `known` here, -1 for none. Runs the pools' own comparisons.

        The turn of a pool that left is remembered for one round of the rota it left, so that leaving and coming
        back moves nobody's turn. After that the pool is as good as new.
        """
        cdef int64_t now = base.picks_so_far()
        cdef Py_ssize_t at, index
        cdef list known = list(self.known[:self.count])
        cdef list moved = []
        cdef dict index_of = {pool: index for index, pool in enumerate(known)}
        if len(index_of) != self.count:
            raise ValueError("pools must name each pool once")
        self.reach = max(self.count, base.count, base.reach - (now - base.picks))
        for at, pool in enumerate(base.known):
            index = -1
            if at < base.count or base.seats[at].last > now - self.reach:
                index = index_of.get(pool, -1)
                if index < 0:
                    index = len(known)
                    known.append(pool)
            moved.append(index)
        self.known = tuple(known)
        return moved

    cdef list match_pairs(self, _Rota base, list moved):
        """Per pair of `base`, its index in `pairs` here, -1 for none. Runs the frontends' own comparisons."""
        cdef Py_ssize_t at, index, start = 0
        cdef list starts = []
        cdef list arrivals = []
        for frontends in self.frontends:
            starts.append(start)
            start += len(frontends)
        for at, old in enumerate(base.frontends):
            index = moved[at]
            if index >= self.count:
                arrivals.extend([-1] * len(old))
                continue
            start = starts[index]
            new = self.frontends[index]
            if old == new:
                arrivals.extend(range(start, start + len(new)))
            else:
                arrivals.extend([start + new.index(frontend) if frontend in new else -1 for frontend in old])
        return arrivals

    cdef int take_seats(self) except -1:
        """Seat every known pool, in the order of `known`, each at its first frontend."""
        cdef Py_ssize_t index
        cdef PyObject** slot = self.slots
        cdef size_t size = len(self.known) * sizeof(Seat)
        cdef Seat* seats = <Seat*> PyMem_Realloc(self.seats, size)
        if seats is NULL:
            raise MemoryError
        self.seats = seats
        self.turn = seats if self.count else NULL
        self.end = seats + self.count
        for index in range(len(self.known)):
            seats[index] = Seat(slot, slot, slot, FORGOTTEN, False, 0, index)
            if index < self.count:
                slot += len(<tuple> self.frontends[index])
                seats[index].end = slot
        return 0

    cdef int follow(self, _Rota base, list moved, list arrivals) except -1:
        """Take turns and cursors over from `base` as they are now. Runs no Python code, so `now` is one moment.

        A new pool is taken to have had its turn one round ago, behind those that really had: it comes up soon,
        but new pools that keep arriving cannot hold back one that is due.
        """
        cdef Py_ssize_t index
        cdef Seat* old
        cdef Seat* new
        self.picks = base.picks_so_far()
        for index in range(self.count):
            self.seats[index].last = self.picks - self.reach + 1
            self.seats[index].rank = len(moved) + index
        for index in range(len(moved)):
            old = &base.seats[index]
            if <Py_ssize_t> moved[old.pool] < 0:
                continue
            new = &self.seats[<Py_ssize_t> moved[old.pool]]
            self.carry_turn(base, old, new)
            if index < base.count and new.pool < self.count:
                self.carry_cursor(base, old, new, arrivals)
        qsort(self.seats, self.count, sizeof(Seat), by_turn)
        return 0

    cdef void carry_turn(self, _Rota base, Seat* old, Seat* new) noexcept:
        """A pool that left before its first turn has none to remember."""
        cdef int64_t last = base.last_turn(old)
        new.served = old.served or last != old.last
        if new.served or new.pool < self.count:
            new.last = last
            new.rank = old - base.seats

    cdef int carry_cursor(self, _Rota base, Seat* old, Seat* new, list arrivals) except -1:
        """Go on at the first frontend, in the old order from the old cursor, that is still there."""
        cdef PyObject** slot = old.next
        cdef Py_ssize_t arrival
        for _ in range(old.end - old.first):
            arrival = arrivals[slot - base.slots]
            if arrival >= 0:
                new.next = self.slots + arrival
                break
            slot += 1
            if slot is old.end:
                slot = old.first
        return 0

    cdef int64_t last_turn(self, Seat* seat) noexcept:
        """The number of the pick that was this seat's last turn."""
        cdef Py_ssize_t place = seat - self.seats
        cdef int64_t rounds = self.rounds if seat < self.turn else self.rounds - 1
        if place >= self.count or rounds < 0:
            return seat.last
        return self.picks + rounds * self.count + place + 1

    cdef int64_t picks_so_far(self) noexcept:
        return self.picks + self.rounds * self.count + (self.turn - self.seats if self.count else 0)


cdef int by_turn(const void* left, const void* right) noexcept nogil:
    cdef const Seat* one = <const Seat*> left
    cdef const Seat* other = <const Seat*> right
    if one.last != other.last:
        return 1 if one.last > other.last else -1
    return 1 if one.rank > other.rank else -1


@cython.final
@cython.no_gc_clear  # pick() does not look whether the collector has taken the rota away
cdef class RoundRobin:
    """Round-robin over pools, and over the frontends of each.

    `pools` is an iterable of (pool, frontends): a hashable identity and a sequence of any objects. A pool
    without frontends is not selectable and is left out.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self):
        self.rota = _Rota()

    def __init__(self, pools=()):
        self.swap(pools)

    def __len__(self) -> int:
        return self.rota.count

    @property
    def pools(self) -> tuple:
        """The selectable pools in the order in which they were given."""
        return self.rota.known[:self.rota.count]

    @cython.binding(False)
    @cython.always_allow_keywords(False)  # with the line above METH_NOARGS, which the interpreter calls directly
    def pick(self):
        """The (pool, frontend) whose turn it is; None where nothing is selectable. Allocates nothing."""
        cdef Seat* seat = self.rota.turn
        cdef PyObject* pair
        if seat is NULL:
            return None
        pair = seat.next[0]
        seat.next += 1
        if seat.next is seat.end:
            seat.next = seat.first
        seat += 1
        if seat is self.rota.end:
            seat = self.rota.seats
            self.rota.rounds += 1
        self.rota.turn = seat
        return <object> pair

    def swap(self, pools):
        """Put other pools in place. Turns go on, however often this is called between two picks.

        A pool that stays keeps its turn and its frontend cursor; where its frontends changed it goes on at the
        first one, in the old order from the old cursor, that is still there. ValueError where a pool is given
        twice; whatever is raised, nothing has changed.
        """
        cdef list given = [(pool, tuple(frontends)) for pool, frontends in pools]
        cdef list moved
        cdef list arrivals
        cdef _Rota base
        cdef _Rota fresh = _Rota()
        fresh.fill([pair for pair in given if pair[1]])
        while True:
            base = self.rota
            moved = fresh.match_pools(base)
            arrivals = fresh.match_pairs(base, moved)
            fresh.take_seats()
            if base is self.rota:  # else a comparison, or another thread meanwhile, swapped: match with that
                break
        fresh.follow(base, moved, arrivals)
        self.rota = fresh  # `base` is still held here, so nothing is freed before the pointer has moved
