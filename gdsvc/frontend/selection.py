"""Which frontend a request goes to: candidates of the catalog, a policy that chooses, ejection that sets aside.

One place holds what must agree: a catalog is published here only when the choosers have it, and a request reads and
picks from what is published. Knows no HTTP; `now` (seconds, monotonic) is passed in.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from gdsvc._in_flight import Cell, Frontend
from gdsvc.frontend.catalog import EVERY_MODEL, NOTHING_YET, Catalog, Pool
from gdsvc.frontend.ejection import Ejection, Standing
from gdsvc.frontend.policies.policy import Asked, Candidate, Chooser, Policy

MOST_RESTING: Final = 64  # choosers of sets that are gone, kept for their turns: a model may flap


class Refused(Enum):
    """Why a request goes nowhere."""

    UNKNOWN_MODEL = "no pool serves the model, and all pools are known"
    NOT_KNOWN_YET = "no pool that is known serves the model, but not all may be known"
    NOT_SELECTABLE = "no pool that serves the model has a frontend"
    NO_OTHER = "there is no frontend but the one to avoid"


class _Published(Struct, frozen=True):
    """What a request reads, in one piece."""

    catalog: Catalog
    choosers: Mapping[str, Chooser]
    of_every_model: Chooser | None = None


class Selector:
    """Selects from the catalog that was published last. Made for one event loop.

    What other threads select while this one publishes is still whole; outcomes are reported by one thread.
    """

    def __init__(self, policy: Policy, ejection: Ejection) -> None:
        self._policy = policy
        self._ejection = ejection
        self._published = _Published(NOTHING_YET, {})
        self._candidates: dict[str, tuple[Candidate, ...]] = {}
        self._resting: OrderedDict[str, Chooser] = OrderedDict()
        self._cells: WeakValueDictionary[str, Cell] = WeakValueDictionary()
        self._frontends: WeakValueDictionary[tuple[str, str], Frontend] = WeakValueDictionary()

    @property
    def catalog(self) -> Catalog:
        """The one that was published last."""
        return self._published.catalog

    # -- the catalog

    def publish(self, catalog: Catalog, now: float) -> None:
        """Puts a catalog in place. Cells, turns and what is set aside go on for every pool that is there again.

        Each set goes over to its new candidates at once. A request that has read of a set finds its chooser: a new
        set is published with it, one that is gone loses it afterwards.
        """
        before = self._published
        changed = [name for name, pools in catalog.sets.items() if pools is not before.catalog.sets.get(name)]
        gone = sorted(before.choosers.keys() - catalog.sets.keys())
        choosers = {
            name: before.choosers[name] if name in before.choosers else self._woken(name) for name in catalog.sets
        }
        for name in changed:
            self._fill(name, choosers[name], self._candidates_of(name, catalog.sets[name]))
        self._published = _Published(catalog, choosers, choosers.get(EVERY_MODEL))
        for name in gone:
            self._fill(name, before.choosers[name], ())
            self._rest(name, before.choosers[name])
        self._ejection.forget(now)

    def _fill(self, name: str, chooser: Chooser, candidates: tuple[Candidate, ...]) -> None:
        self._candidates[name] = candidates  # which keeps their cells alive
        self._ejection.regroup(name, [(each.cell, each.frontends) for each in candidates])
        chooser.swap(candidates)

    def _rest(self, name: str, chooser: Chooser) -> None:
        del self._candidates[name]
        self._resting[name] = chooser
        if len(self._resting) > MOST_RESTING:
            self._resting.popitem(last=False)

    def _woken(self, name: str) -> Chooser:
        return self._resting.pop(name) if name in self._resting else self._policy.chooser()

    def _candidates_of(self, name: str, pools: Iterable[Pool]) -> tuple[Candidate, ...]:
        """The selectable pools of a set; for those that have not changed, the candidates that there are."""
        held = {candidate.pool.id: candidate for candidate in self._candidates.get(name, ())}
        made: list[Candidate] = []
        for pool in pools:
            candidate = held.get(pool.id)
            if candidate is None or candidate.pool is not pool:
                candidate = self._candidate(pool) if pool.frontends else None
            if candidate is not None:
                made.append(candidate)
        return tuple(made)

    def _candidate(self, pool: Pool) -> Candidate:
        cell = self._cells.get(pool.id)
        if cell is None:
            cell = self._cells[pool.id] = Cell(pool.id)
        return Candidate(pool, cell, tuple(self._frontend(cell, url) for url in pool.frontends))

    def _frontend(self, cell: Cell, url: str) -> Frontend:
        frontend = self._frontends.get((cell.pool_id, url))
        if frontend is None:
            frontend = self._frontends[cell.pool_id, url] = Frontend(cell, url)
        return frontend

    # -- requests

    def select(
        self, model: str, now: float, session: str | None = None, avoid: Frontend | None = None
    ) -> Frontend | Refused:
        """Where the request goes; `avoid` is where its first attempt failed. Nothing is booked: `Frontend.hold` is."""
        if now >= self._ejection.next_at:
            self._ejection.advance(now)
        published = self._published
        chooser = published.of_every_model or published.choosers.get(model)
        if chooser is None:
            return Refused.UNKNOWN_MODEL if published.catalog.complete else Refused.NOT_KNOWN_YET
        frontend = chooser.choose(Asked(model, now, session, avoid))
        if frontend is None:
            return Refused.NOT_SELECTABLE if avoid is None else Refused.NO_OTHER
        return frontend

    def succeeded(self, frontend: Frontend) -> bool:
        """The frontend answered a request. Whether that lets it back."""
        frontend.cell.succeeded()
        return self._ejection.succeeded(frontend)

    def failed(self, frontend: Frontend, now: float) -> bool:
        """The frontend did not answer, or answered that it cannot. Whether that sets it aside."""
        frontend.cell.failed()
        return self._ejection.failed(frontend, now)

    # -- what is shown

    def cells(self) -> Iterator[Cell]:
        """The cells of all pools, those included that left but still have requests in flight."""
        yield from list(self._cells.values())

    def standings(self) -> tuple[Standing, ...]:
        """The frontends that failed too often, as of the last request."""
        return tuple(self._ejection.standings())
