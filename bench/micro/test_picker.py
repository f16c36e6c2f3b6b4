"""RoundRobin.pick beside itertools.cycle, and a swap at 1,000 pools. One round is 100,000 picks or one swap.

Instructions per pick are steadier than its time: run a loop of N picks and one of 2 N under
`valgrind --tool=callgrind` and divide the difference by N.
"""

from itertools import cycle

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gdsvc._picker import RoundRobin

PICKS = 100_000
POOLS = [(f"pool-{number}", [f"http://10.0.0.{number}:{port}" for port in (8000, 8001)]) for number in range(100)]


@pytest.mark.benchmark(group="100,000 picks of 100 pools")
def test_pick(benchmark: BenchmarkFixture) -> None:
    picker = RoundRobin(POOLS)

    def picks() -> None:
        for _ in range(PICKS):
            picker.pick()

    benchmark(picks)


@pytest.mark.benchmark(group="100,000 picks of 100 pools")
def test_next_of_cycle(benchmark: BenchmarkFixture) -> None:
    pools = cycle(POOLS)

    def picks() -> None:
        for _ in range(PICKS):
            next(pools)

    benchmark(picks)


@pytest.mark.benchmark(group="swap 1,000 pools")
def test_swap(benchmark: BenchmarkFixture) -> None:
    pools = [(f"pool-{number}", [f"http://10.0.0.1:{number}"]) for number in range(1_000)]
    picker = RoundRobin(pools)
    benchmark(picker.swap, pools[1:])
