"""Decides whose turn it is among given pools, and which of the pool's frontends has it. Which pools is the caller's.

RoundRobin: the pool whose last turn is longest ago; while the pools stay the same that is plain round-robin.
LeastInFlight: the one with the fewest requests in flight, of several the one whose last turn is longest ago.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MIN, int64_t
from libc.stdlib cimport qsort

from types import GenericAlias

from gdsvc._in_flight cimport Cell, Frontend

cdef int64_t FORGOTTEN = INT64_MIN
cdef bint NEVER = False  # what is no Frontend cannot be set aside


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
        self.slots = <Slot*> PyMem_Calloc(len(self.pairs) + 1, sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError
        for slot in range(len(self.pairs)):
            frontend = (<tuple> self.pairs[slot])[1]
            self.slots[slot].pair = <PyObject*> self.pairs[slot]
            self.slots[slot].aside = &(<Frontend> frontend).aside if isinstance(frontend, Frontend) else &NEVER
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
        cdef Slot* slot = self.slots
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
        cdef Slot* slot = old.next
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

    cdef Seat* usable(self) noexcept:
        """The seat from `turn` on with a frontend that is not set aside, moved there; `turn` where none has one.

        The seats passed over have had their turns: who comes back has nothing to catch up on.
        """
        cdef Seat* seat = self.turn
        for _ in range(self.count):
            if move_on(seat):
                self.rounds += seat < self.turn
                return seat
            seat += 1
            if seat is self.end:
                seat = self.seats
        return self.turn


cdef bint move_on(Seat* seat) noexcept:
    """Move the cursor to the next frontend that is not set aside; False, and no move, where there is none."""
    cdef Slot* slot = seat.next
    for _ in range(seat.end - seat.first):
        if not slot.aside[0]:
            seat.next = slot
            return True
        slot += 1
        if slot is seat.end:
            slot = seat.first
    return False


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
    without frontends is left out. A Frontend that is set aside is passed over, unless all of all pools are.
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
        if seat.next.aside[0]:
            seat = self.rota.usable()
        pair = seat.next.pair
        seat.next += 1
        if seat.next is seat.end:
            seat.next = seat.first
        seat += 1
        if seat is self.rota.end:
            seat = self.rota.seats
            self.rota.rounds += 1
        self.rota.turn = seat
        return <object> pair

    def pick_besides(self, Frontend avoid not None):
        """As `pick`, but not `avoid`; None where nothing else is selectable."""
        cdef bint aside = avoid.aside
        avoid.aside = True
        pair = self.pick()
        avoid.aside = aside
        return None if pair is None or (<tuple> pair)[1] is avoid else pair

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


cdef int64_t HELD_BACK = <int64_t> 1 << 40  # more than anybody has in flight
cdef int64_t SET_ASIDE = <int64_t> 1 << 50
cdef Py_ssize_t WINDOW = 512  # pools compared in one pick: what 1 us allows; of more, each is compared every few picks


@cython.final
@cython.no_gc_clear  # `places` borrows from `given`
cdef class _Field:
    """One snapshot: built aside, then put in place whole. From there on only picks change it."""

    def __cinit__(self):
        self.given = ()

    def __dealloc__(self):
        PyMem_Free(self.places)

    cdef int fill(self, list given) except -1:
        """Take in the pools, given as (Cell, tuple of Frontends, last turn)."""
        cdef Py_ssize_t index
        self.given = tuple(given)
        self.places = <Place*> PyMem_Calloc(len(given) + 1, sizeof(Place))
        if self.places is NULL:
            raise MemoryError
        for index, (cell, frontends, last) in enumerate(given):
            self.places[index] = Place(<PyObject*> cell, <PyObject*> frontends, last)
        self.count = len(given)
        return 0

    cdef Place* least(self, int64_t picks) noexcept:
        """The place with the least load. A pool that is failing counts as loaded until a round has passed: what says
        at once that it cannot has its turn, however few it has in flight, and with that can show that it can again.
        """
        cdef Place* end = self.places + self.count
        cdef Place* place = self.places + self.begin
        cdef Place* best = NULL
        cdef int64_t load, least = 0
        for _ in range(min(self.count, WINDOW)):
            load = (<Cell> place.cell).in_flight
            if (<Cell> place.cell).strikes and picks - place.last < self.count:
                load += HELD_BACK
            if (<Cell> place.cell).aside:
                load += SET_ASIDE
            if best is NULL or load < least or (load == least and place.last < best.last):
                best, least = place, load
            place += 1
            if place is end:
                place = self.places
        self.begin = place - self.places
        return best


@cython.final
@cython.no_gc_clear  # pick() does not look whether the collector has taken the field away
cdef class LeastInFlight:
    """The pool with the fewest requests in flight, of several the one whose last turn is longest ago.

    `pools` is an iterable of (Cell, Frontends of it); without Frontends it is left out. A pool that fails is due once
    a round at most until it is trusted again; one that is set aside only where all are.
    """

    def __cinit__(self):
        self.field = _Field()

    def __init__(self, pools=()):
        self.swap(pools)

    def __len__(self) -> int:
        return self.field.count

    @cython.always_allow_keywords(False)
    def pick(self):
        """The Frontend to send a request to; None where nothing is selectable."""
        cdef Place* place
        if not self.field.count:
            return None
        self.picks += 1
        place = self.field.least(self.picks)
        place.last = self.picks
        return (<Cell> place.cell).next_of(<tuple> place.frontends)

    def pick_besides(self, Frontend avoid not None):
        """As `pick`, but not `avoid`, and of another pool if there is one; None where nothing else is selectable."""
        cdef Cell cell = avoid.cell
        cdef bint aside = avoid.aside, cell_aside = cell.aside
        avoid.aside = cell.aside = True
        frontend = self.pick()
        avoid.aside, cell.aside = aside, cell_aside
        return None if frontend is avoid else frontend

    def swap(self, pools):
        """Put other pools in place; those that stay keep their last turn, a new one has not had any.

        ValueError where a pool is given twice, TypeError where it is no Cell with its Frontends: nothing has changed.
        """
        cdef Py_ssize_t index
        cdef _Field fresh = _Field()
        cdef list given = [(cell, checked(cell, tuple(frontends))) for cell, frontends in pools]
        cdef dict last = {}
        if len({cell for cell, _ in given}) != len(given):
            raise ValueError("pools must name each pool once")
        for index in range(self.field.count):  # from here on nothing runs that could pick
            last[<object> self.field.places[index].cell] = self.field.places[index].last
        fresh.fill([(cell, frontends, last.get(cell, FORGOTTEN // 2)) for cell, frontends in given if frontends])
        self.field = fresh


cdef tuple checked(Cell cell, tuple frontends):
    """`frontends`. Raises TypeError unless all are Frontends of that cell."""
    if cell is None:
        raise TypeError("expected a Cell")
    for frontend in frontends:
        if (<Frontend?> frontend).cell is not cell:
            raise TypeError("expected frontends of the pool that they are given with")
    return frontends
