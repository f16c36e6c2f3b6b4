"""Catalogs and selectors for tests of selection."""

from collections.abc import Callable

from gdsvc._in_flight import Frontend
from gdsvc.frontend.catalog import NOTHING_YET, Catalog, after
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.policies.least_in_flight import LeastInFlightPolicy
from gdsvc.frontend.policies.policy import Environment, Policy
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy
from gdsvc.frontend.selection import Refused, Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.model import PoolKey, PoolListing
from gdsvc.pool_discovery.watch import Completeness, Resync, Snapshot

ENVIRONMENT = Environment(load=lambda _: None, round_trip=lambda _: None)
POLICIES: dict[str, Callable[[], Policy]] = {
    "round-robin": lambda: RoundRobinPolicy(ENVIRONMENT),
    "least-in-flight": lambda: LeastInFlightPolicy(ENVIRONMENT),
    "selection core": SelectionCore,
}


def listing(name: str, model: str | None = "m", frontends: int = 1) -> PoolListing:
    """A pool whose id is its name, with so many frontends."""
    urls = tuple(f"http://{name}{number}" for number in range(1, frontends + 1))
    return PoolListing(PoolKey("s", "n", name), name, model=model, frontends=urls)


def catalog(*items: PoolListing, complete: bool = True) -> Catalog:
    """What a directory that shows these gives."""
    completeness = Completeness.EXACT if complete else Completeness.ESTIMATED
    return after(NOTHING_YET, [Resync(Snapshot(items, completeness, 1))])


def fleet(names: str, model: str = "m") -> list[PoolListing]:
    """One pool with one frontend for each letter."""
    return [listing(name, model) for name in names]


def selector(policy: Policy, *items: PoolListing) -> Selector:
    """A Selector that has published a catalog of these."""
    made = Selector(policy, Ejection())
    made.publish(catalog(*items), 0.0)
    return made


def selected(selector_: Selector, model: str = "m", now: float = 0.0) -> Frontend:
    """Where a request goes; it goes somewhere."""
    frontend = selector_.select(model, now)
    assert not isinstance(frontend, Refused), frontend
    return frontend


def names(selector_: Selector, count: int, model: str = "m", now: float = 0.0) -> str:
    """The pools of the next requests."""
    return "".join(selected(selector_, model, now).cell.pool_id for _ in range(count))
