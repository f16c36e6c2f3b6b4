# cython: nonecheck=True
"""The connections of one origin: how many at once, and which of those that wait the next request gets.

How they come to be, and how who comes too late waits for a place, is decided by the subclasses.
"""

cimport cython

from types import GenericAlias

from gdsvc._line cimport Line


cdef class Places:
    """So many at once, and no more. `waiting` are the futures of those who came later, a deque, first come first."""

    def __init__(self, Py_ssize_t most, waiting):
        self.most = most
        self.waiting = waiting

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in, or waits."""
        return self.used == 0 and not self.waiting

    def try_enter(self) -> bool:
        """Takes a place where one is free and nobody waits for it."""
        return self.take_place()

    def leave(self) -> None:
        """Gives a place back: to who has waited longest, or to nobody."""
        self.give_place()

    cdef bint take_place(self) except *:
        if self.used >= self.most or self.waiting:
            return False
        self.used += 1
        return True

    cdef give_place(self):
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.used -= 1


@cython.final
cdef class IdleStack:
    """At most `most` items, each for less than `ttl` seconds: the last one first, so that the rest can grow old.

    What a call takes out is the caller's to close. Holds no clock.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, Py_ssize_t most, double ttl):
        self.most = most
        self.ttl = ttl
        self.items = []

    def __len__(self) -> int:
        return len(self.items)

    def put(self, item, double now) -> list:
        """Adds `item`; returns those that are beyond the bound, the oldest."""
        return self.put_at(item, now) or []

    def take(self):
        """The one that was put last, or None; call `expire` before."""
        return (<tuple> self.items.pop())[0] if self.items else None

    def expire(self, double now) -> list:
        """Takes out those that have waited for `ttl`."""
        return self.expire_at(now) or []

    def remove(self, item) -> None:
        """Takes `item` out where it is in."""
        self.items = [entry for entry in self.items if (<tuple> entry)[0] != item]

    cdef list put_at(self, item, double now):
        """None where nothing is beyond the bound."""
        self.items.append((item, now))
        return self.cut(len(self.items) - self.most) if len(self.items) > self.most else None

    cdef list expire_at(self, double now):
        """None where nothing has waited for so long."""
        cdef Py_ssize_t expired = 0
        while expired < len(self.items) and now - <double> (<tuple> self.items[expired])[1] >= self.ttl:
            expired += 1
        return self.cut(expired) if expired else None

    cdef list cut(self, Py_ssize_t count):
        cdef list taken = [(<tuple> entry)[0] for entry in self.items[:count]]
        del self.items[:count]
        return taken


@cython.final
cdef class Tally:
    """What has happened so far, as integers that only grow; `open` holds the connections of now.

    `is_closed` is said of the client: no connection is used again, or begun. `failed` counts by `causes`.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, causes):
        self.open = set()
        self.failed = dict.fromkeys(causes, 0)


cdef class Stock:
    """The places and idle connections of one origin; `host` is how requests name it, see RequestWriter.

    A subclass has `leave()`, which gives a place back. `clock` tells the seconds, `age` is that up to which a
    connection may be used again.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, bytes host not None, Places room not None, IdleStack idle not None, Tally tally not None,
                 clock, double age):
        self.host = host
        self.room = room
        self.idle = idle
        self.tally = tally
        self.clock = clock
        self.age = age

    def take(self):
        """The idle connection that was given back last; None where there is none."""
        return self.take_idle()

    cdef Line take_idle(self):
        cdef Line line
        cdef list expired = self.idle.expire_at(self.clock())
        if expired is not None:
            for line in expired:
                line.abort()
        while self.idle.items:
            line = <Line?> (<tuple> self.idle.items.pop())[0]
            if line.can_go_on():
                self.tally.reused += 1
                return line
        return None

    cdef Line reuse(self):
        """An idle connection and a place, where both are there at once; else None."""
        cdef Line line
        if self.tally.is_closed or not self.idle.items or not self.room.take_place():
            return None
        line = self.take_idle()
        if line is None:
            self.room.give_place()
        return line

    cdef give_back(self, Line line):
        """Keeps `line`, which can carry another exchange, unless it is too old; and gives its place back."""
        cdef double now = self.clock()
        cdef list superfluous
        if now - line.born_at >= self.age or self.tally.is_closed:
            line.abort()
            self.leave()
            return
        superfluous = self.idle.put_at(line, now)
        if superfluous is not None:
            for other in superfluous:
                other.abort()
        self.room.give_place()
