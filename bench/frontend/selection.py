"""Selection alone, in a process of its own: the catalog, ejection and the policy, without the HTTP around them.

`python -m bench.frontend.selection SUBJECT [CALLS]`; models take turns.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle, islice
from time import thread_time
from typing import Final

from gdsvc.frontend.catalog import NOTHING_YET, after
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.policies.least_in_flight import LeastInFlightPolicy
from gdsvc.frontend.policies.policy import Environment, Policy
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy
from gdsvc.frontend.selection import Refused, Selector
from gdsvc.model import PoolKey, PoolListing
from gdsvc.pool_discovery.watch import Completeness, Resync, Snapshot

MODELS: Final = 10
FEW_MODELS: Final = 2  # where instructions are counted: callgrind takes its time to make them, and no call is dearer
REQUESTS: Final = 5_000  # of a round
ROUNDS: Final = 40

_ENVIRONMENT: Final = Environment(load=lambda _: None, round_trip=lambda _: None)
_MADE: Final[Mapping[str, Callable[[], Policy]]] = {
    "round-robin": lambda: RoundRobinPolicy(_ENVIRONMENT),
    "least-in-flight": lambda: LeastInFlightPolicy(_ENVIRONMENT),
}


def listing(model: int, number: int, port: int = 8000) -> PoolListing:
    """A pool of two frontends."""
    key = PoolKey("site", f"model-{model}", f"pool-{number}")
    urls = tuple(f"http://10.{model}.{number // 250}.{number % 250}:{port + at}" for at in range(2))
    return PoolListing(key, f"{model}-{number}", model=f"model-{model}", frontends=urls)


def selector(policy: Policy, pools: int, models: int = MODELS) -> Selector:
    """So many models with so many pools each, two frontends a pool, published."""
    items = [listing(model, number) for model in range(models) for number in range(pools)]
    made = Selector(policy, Ejection())
    made.publish(after(NOTHING_YET, [Resync(Snapshot(items, Completeness.EXACT, 1))]), 0.0)
    return made


def chosen(made: Selector, models: Iterable[str]) -> None:
    """Where requests for these models go; nothing is held."""
    select = made.select
    for model in models:
        select(model, 1.0)


def held(made: Selector, models: Iterable[str]) -> None:
    """The same with what a request adds that is answered: the guard in flight, and the outcome."""
    select, succeeded = made.select, made.succeeded
    for model in models:
        frontend = select(model, 1.0)
        if isinstance(frontend, Refused):
            raise TypeError(frontend)
        with frontend.hold():
            succeeded(frontend)


_WORK: Final[Mapping[str, Callable[[Selector, Iterable[str]], None]]] = {"select": chosen, "held": held}


def requested(requests: int, models: int) -> Iterator[str]:
    """The models of so many requests; a turn of the loop makes nothing, so that callgrind counts the calls."""
    return islice(cycle([f"model-{number}" for number in range(models)]), requests)


def microseconds(work: Callable[[Selector, Iterable[str]], None], made: Selector) -> float:
    """CPU of this thread for one request, in the least of ROUNDS."""
    models = list(requested(REQUESTS, MODELS))
    least = float("inf")
    for _ in range(ROUNDS):
        began = thread_time()
        work(made, models)
        least = min(least, thread_time() - began)
    return least / REQUESTS * 1e6


def main(argv: list[str]) -> None:
    """The child: `WORK/POLICY-POOLS` prints microseconds; with a number behind it, it makes so many calls instead."""
    work, _, subject = argv[0].partition("/")
    policy, _, pools = subject.rpartition("-")
    if argv[1:]:
        _WORK[work](selector(_MADE[policy](), int(pools), FEW_MODELS), requested(int(argv[1]), FEW_MODELS))
    else:
        print(microseconds(_WORK[work], selector(_MADE[policy](), int(pools))))


if __name__ == "__main__":
    main(sys.argv[1:])
