"""Selection as a proxy does it: catalog, policy, ejection, the guard in flight. At most 5 us of CPU a request, aim 2.

One round is 10,000 requests. Time is of the thread, so that a busy machine counts less. Upstream's is about 10 us.
"""

import time
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.frontend.selection import MODELS, listing, selector
from gdsvc.frontend.catalog import after
from gdsvc.frontend.policies.least_in_flight import LeastInFlightPolicy
from gdsvc.frontend.policies.policy import Environment, Policy
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy
from gdsvc.frontend.selection import Refused, Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.pool_discovery.watch import Upserted

REQUESTS = 10_000
ENVIRONMENT = Environment(load=lambda _: None, round_trip=lambda _: None)
POLICIES: dict[str, Callable[[], Policy]] = {
    "round-robin": lambda: RoundRobinPolicy(ENVIRONMENT),
    "least-in-flight": lambda: LeastInFlightPolicy(ENVIRONMENT),
    "selection-core": SelectionCore,
}


def requests(made: Selector) -> None:
    select, succeeded = made.select, made.succeeded
    models = [f"model-{number % MODELS}" for number in range(REQUESTS)]
    for model in models:
        frontend = select(model, 1.0)
        if isinstance(frontend, Refused):
            raise TypeError(frontend)
        with frontend.hold():
            succeeded(frontend)


@pytest.mark.parametrize("pools", [10, 100, 1_000])
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.benchmark(group="10,000 requests over ten models", timer=time.thread_time)
def test_requests(benchmark: BenchmarkFixture, name: str, pools: int) -> None:
    benchmark(requests, selector(POLICIES[name](), pools))


@pytest.mark.parametrize("pools", [10, 100, 1_000])
@pytest.mark.benchmark(group="one pool of a model changes, of so many", timer=time.thread_time)
def test_a_change(benchmark: BenchmarkFixture, pools: int) -> None:
    made = selector(POLICIES["round-robin"](), pools)
    ports = iter(range(8_002, 65_000, 2))

    def change() -> None:
        made.publish(after(made.catalog, [Upserted(listing(0, 0, next(ports)))]), 1.0)

    benchmark.pedantic(change, rounds=200)  # type: ignore[no-untyped-call]
