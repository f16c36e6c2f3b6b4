"""What a policy is: the protocols that a plugin implements, and what it is given to choose by.

A plugin is an object of the entry points group `gdsvc.policies` that is called with an Environment and gives a Policy.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from gdsvc._in_flight import Cell, Frontend
from gdsvc.frontend.catalog import Pool


class Load(Struct, frozen=True):
    """What a pool's relays report. `occupancy` is the share of what it can take that is in use: 1.0 is full."""

    occupancy: float


class Environment(Struct, frozen=True, kw_only=True):
    """What every policy may read, from the command line and from those who measure.

    `load` gives the fresh report of a pool by its id, None where there is none: then `Cell.in_flight` and
    `Pool.max_concurrency` are what is known. `round_trip` gives the median round trip to a region in seconds, None
    where it is not known.
    """

    load: Callable[[str], Load | None]
    round_trip: Callable[[str], float | None]
    region: str | None = None  # our own
    load_headroom: float = 0.8  # occupancy below which a pool takes more
    session_pin_ttl_secs: float = 300.0


class Candidate(Struct, frozen=True):
    """A pool that a request may go to: its facts, its cell, and its frontends, at least one."""

    pool: Pool
    cell: Cell
    frontends: tuple[Frontend, ...]

    @property
    def aside(self) -> bool:
        """Whether the pool is set aside: to be chosen only where all are."""
        return self.cell.aside

    def rotate(self) -> Frontend:
        """The frontend whose turn it is; one that is set aside only where all are."""
        return self.cell.rotate(self.frontends)


class Asked(Struct, frozen=True, gc=False):
    """What is known of a request. `avoid` is where its first attempt went; `now` is seconds, monotonic."""

    model: str
    now: float
    session: str | None = None
    avoid: Frontend | None = None


class Chooser(Protocol):
    """Chooses among one set of candidates, those that serve one model, for as long as there are any."""

    def swap(self, candidates: Sequence[Candidate]) -> None:
        """Other candidates from now on, all at once. What stays keeps its turn; raises nothing."""
        ...

    def choose(self, asked: Asked) -> Frontend | None:
        """The frontend that the request goes to, never `asked.avoid`; None where there is none. Books nothing.

        Runs for every request and between no two others: it neither waits nor reads a clock.
        """
        ...


class Policy(Protocol):
    """Makes the Chooser of each set. What sets share, such as sessions that are pinned, is its own."""

    def chooser(self) -> Chooser:
        """A new Chooser, without candidates."""
        ...


PolicyFactory = Callable[[Environment], Policy]
