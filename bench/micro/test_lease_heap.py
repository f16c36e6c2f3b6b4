"""LeaseHeap beside heapq with stale entries, at 100,000 leases of one ttl, called from Python.

One round is one heartbeat of every lease, or the end of all of them; divide by 100,000 for one call.
"""

import heapq
from collections.abc import Iterator
from itertools import count

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gdsvc._lease_heap import LeaseEntry, LeaseHeap

LEASES = 100_000
TTL = 15.0
SLICE = 1_000  # what one call of a sweeper takes out, so that no loop is held up


class StaleHeap:
    """A dict of deadlines and a heap in which every renewal leaves its predecessor behind."""

    def __init__(self) -> None:
        self.deadlines: dict[int, float] = {}
        self.heap: list[tuple[float, int]] = []

    def renew(self, key: int, now: float) -> None:
        self.deadlines[key] = now + TTL
        heapq.heappush(self.heap, (now + TTL, key))

    def expire(self, now: float) -> list[int]:
        gone: list[int] = []
        while self.heap and self.heap[0][0] <= now:
            _, key = heapq.heappop(self.heap)
            if key in self.deadlines and self.deadlines[key] <= now:
                del self.deadlines[key]
                gone.append(key)
        return gone


@pytest.fixture
def heartbeats() -> Iterator[float]:
    return count(0.0, 5.0)


def leased(entries: list[LeaseEntry]) -> LeaseHeap:
    heap = LeaseHeap()
    for entry in entries:
        heap.renew(entry, 0.0, TTL)
    return heap


def stale_heap(renewals: int) -> StaleHeap:
    heap = StaleHeap()
    for beat in range(renewals):
        for key in range(LEASES):
            heap.renew(key, beat * 5.0)
    return heap


@pytest.mark.benchmark(group="renew 100,000 leases")
def test_renew(benchmark: BenchmarkFixture, heartbeats: Iterator[float]) -> None:
    entries = [LeaseEntry(number) for number in range(LEASES)]
    heap = leased(entries)

    def beat() -> None:
        now, renew = next(heartbeats), heap.renew
        for entry in entries:
            renew(entry, now, TTL)

    benchmark.pedantic(beat, rounds=20, warmup_rounds=2)  # type: ignore[no-untyped-call]
    assert len(heap) == LEASES


@pytest.mark.benchmark(group="renew 100,000 leases")
def test_renew_with_stale_entries(benchmark: BenchmarkFixture, heartbeats: Iterator[float]) -> None:
    heap = StaleHeap()

    def beat() -> None:
        now, renew = next(heartbeats), heap.renew
        for key in range(LEASES):
            renew(key, now)

    benchmark.pedantic(beat, rounds=3)  # type: ignore[no-untyped-call]
    assert len(heap.deadlines) == LEASES


@pytest.mark.benchmark(group="expire 100,000 leases")
def test_expire(benchmark: BenchmarkFixture) -> None:
    entries = [LeaseEntry(number) for number in range(LEASES)]

    def sweep(heap: LeaseHeap) -> None:
        while heap.expire(TTL, SLICE):
            pass
        assert len(heap) == 0

    benchmark.pedantic(sweep, setup=lambda: ((leased(entries),), {}), rounds=20, warmup_rounds=2)  # type: ignore[no-untyped-call]


@pytest.mark.benchmark(group="expire 100,000 leases")
def test_expire_with_stale_entries(benchmark: BenchmarkFixture) -> None:
    """Three heartbeats to a lease, so each lease has left two entries behind."""

    def sweep(heap: StaleHeap) -> None:
        assert len(heap.expire(10.0 + TTL)) == LEASES

    benchmark.pedantic(sweep, setup=lambda: ((stale_heap(3),), {}), rounds=3)  # type: ignore[no-untyped-call]
