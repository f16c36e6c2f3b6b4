"""Outlier ejection: which frontends are set aside, for how long, and where too many would be.

A machine without clock or I/O: outcomes and `now` (seconds, monotonic) go in, the `aside` of cells and frontends is
what comes out. It alone writes those. Nothing is decided here about what counts as a failure.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from gdsvc._in_flight import Cell, Frontend

FAILURES_IN_A_ROW: Final = 5
FIRST_SECS: Final = 10.0
LONGEST_SECS: Final = 300.0

Members = Sequence[tuple[Cell, tuple[Frontend, ...]]]


class _Record(Struct, gc=False):
    """A frontend whose last outcome was a failure."""

    failures: int = 0  # in a row
    ejections: int = 0  # since the last success
    barred_until: float = 0.0
    last_at: float = 0.0  # of the last failure


class _Group:
    """The selectable pools that serve one model; of those whose frontends are all barred, who is set aside.

    Every step costs the same however many pools there are: in an outage of all there are as many steps as pools.
    """

    def __init__(self, members: dict[Cell, tuple[Frontend, ...]]) -> None:
        self.members = members
        self.first: dict[Cell, None] = {}  # in the order in which they came; at most half of the members
        self.others: dict[Cell, None] = {}  # those above half

    @property
    def fails_open(self) -> bool:
        """All pools would be set aside, so none is."""
        return len(self.first) + len(self.others) == len(self.members)

    def sets_aside(self, cell: Cell) -> bool:
        return cell in self.first and not self.fails_open

    def enter(self, cell: Cell) -> None:
        """All frontends of the pool are barred."""
        if cell not in self.first and cell not in self.others:
            (self.first if len(self.first) < len(self.members) // 2 else self.others)[cell] = None

    def leave(self, cell: Cell) -> tuple[Cell, ...]:
        """Not all of them are. Who is among the first instead."""
        if cell not in self.first:
            self.others.pop(cell, None)
            return ()
        del self.first[cell]
        if not self.others:
            return ()
        following = next(iter(self.others))
        del self.others[following]
        self.first[following] = None
        return (following,)


class Standing(Struct, frozen=True):
    """What is told of a frontend that is barred; `aside` is False where setting it aside would leave too few."""

    frontend: Frontend
    until: float
    aside: bool


class Ejection:
    """Bars a frontend after five failures in a row, for 10 s, doubling to 300 s; any success lets it back at once.

    The row is not broken by the time aside: one failure after it bars again, for twice as long, so that a frontend
    that is still broken costs one request and not five. A pool is set aside when all its frontends are barred. Of the
    pools of a model at most half are, those first that were barred first; where all would be, none is.
    """

    def __init__(self) -> None:
        self.next_at = inf  # when `advance` has something to do; it may be early, never late
        self._records: dict[Frontend, _Record] = {}
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[Cell, str] = {}

    def regroup(self, name: str, members: Members) -> None:
        """The pools that serve one model are these; none: the model is gone. A pool is in one group."""
        before = self._groups.pop(name, _Group({}))
        for cell, frontends in before.members.items():
            if self._group_of.get(cell) == name:  # else it has moved to another group already
                del self._group_of[cell]
                _clear(cell, frontends)
        selectable = {cell: frontends for cell, frontends in members if frontends}
        if selectable:
            self._groups[name] = group = _Group(selectable)
            self._group_of |= dict.fromkeys(selectable, name)
            barred = [cell for cell, own in selectable.items() if any(map(self._is_barred, own))]
            for cell in dict.fromkeys((*before.first, *before.others, *barred)):
                if cell in selectable and all(map(self._is_barred, selectable[cell])):
                    group.enter(cell)
            for cell in barred:
                self._write(group, cell)

    def failed(self, frontend: Frontend, now: float) -> bool:
        """A request was not answered as it should. Whether that bars the frontend."""
        record = self._records.setdefault(frontend, _Record())
        record.failures += 1
        frontend.has_failed = True
        record.last_at = now
        if record.failures < FAILURES_IN_A_ROW or now < record.barred_until:
            return False
        record.barred_until = now + min(FIRST_SECS * 2.0 ** min(record.ejections, 16), LONGEST_SECS)
        record.ejections += 1
        self.next_at = min(self.next_at, record.barred_until)
        self._judge(frontend.cell)
        return True

    def succeeded(self, frontend: Frontend) -> bool:
        """A request was answered. Whether that lets the frontend back."""
        if not self._records:
            return False
        record = self._records.pop(frontend, None)
        frontend.has_failed = False
        if record is None or not record.barred_until:
            return False
        self._judge(frontend.cell)
        return True

    def advance(self, now: float) -> None:
        """Lets back those whose time is up."""
        back = [frontend for frontend, record in self._records.items() if 0.0 < record.barred_until <= now]
        for frontend in back:
            self._records[frontend].barred_until = 0.0
        self.next_at = min((r.barred_until for r in self._records.values() if r.barred_until), default=inf)
        for frontend in back:
            self._judge(frontend.cell)

    def standings(self) -> Iterator[Standing]:
        """The barred frontends of pools that are in a group."""
        for frontend, record in self._records.items():
            if record.barred_until and self._is_listed(frontend):
                yield Standing(frontend, record.barred_until, frontend.aside)

    def forget(self, now: float) -> None:
        """Drops what is known of frontends that are in no group, once it would no longer matter."""
        gone = [
            frontend
            for frontend, record in self._records.items()
            if not self._is_listed(frontend) and now >= max(record.barred_until, record.last_at) + LONGEST_SECS
        ]
        for frontend in gone:
            del self._records[frontend]
            frontend.has_failed = False

    def _is_listed(self, frontend: Frontend) -> bool:
        name = self._group_of.get(frontend.cell)
        return name is not None and frontend in self._groups[name].members[frontend.cell]

    def _is_barred(self, frontend: Frontend) -> bool:
        record = self._records.get(frontend)
        return record is not None and record.barred_until > 0.0

    def _judge(self, cell: Cell) -> None:
        """Frontends of the pool were barred or let back: who is set aside now?"""
        if cell not in self._group_of:
            return
        group = self._groups[self._group_of[cell]]
        failed_open = group.fails_open
        changed = [cell]
        if all(map(self._is_barred, group.members[cell])):
            group.enter(cell)
        else:
            changed += group.leave(cell)
        if group.fails_open is not failed_open:
            changed += group.first
        for each in changed:
            self._write(group, each)

    def _write(self, group: _Group, cell: Cell) -> None:
        """Writes `aside` of the pool and its frontends; a pool that must not be set aside keeps all of them."""
        own = group.members[cell]
        wholly = all(map(self._is_barred, own))
        cell.aside = wholly and group.sets_aside(cell)
        for frontend in own:
            frontend.aside = cell.aside if wholly else self._is_barred(frontend)


def _clear(cell: Cell, frontends: tuple[Frontend, ...]) -> None:
    cell.aside = False
    for frontend in frontends:
        frontend.aside = False
