"""The registry as the service holds it (MemoryPoolStore over PoolIndex) beside the slow reference, at 10,000 pools.

One round is all pools, or one list; divide by 10,000 for one call. The same bodies on both sides.
"""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import payloads
from bench.in_process import TTL, Registry
from bench.reference import SlowRegistry, slow_registry
from gdsvc._pool_index import PoolIndex

POOLS = 10_000
SLICE = 1_000
BODIES = tuple(payloads.fleet(POOLS))


@pytest.fixture
def heartbeats() -> Iterator[float]:
    return count(5.0, 5.0)


def indexed() -> PoolIndex:
    index = PoolIndex(1)
    for number, body in enumerate(BODIES):
        key = b"%06d" % number
        index.put(key, body)
        index.beat(key, body, 0.0, TTL, fresh=True)
    return index


def referenced() -> SlowRegistry:
    registry = slow_registry(TTL)
    for body in BODIES:
        registry.register(body, 0.0)
    return registry


@pytest.mark.benchmark(group="renew 10,000 pools")
def test_renew(benchmark: BenchmarkFixture, heartbeats: Iterator[float]) -> None:
    index = indexed()

    def beat() -> None:
        now, renew = next(heartbeats), index.renew
        for body in BODIES:
            renew(body, now, TTL)

    benchmark(beat)
    assert index.renewed % POOLS == 0


@pytest.mark.benchmark(group="renew 10,000 pools")
def test_renew_in_the_reference(benchmark: BenchmarkFixture, heartbeats: Iterator[float]) -> None:
    registry = referenced()

    def beat() -> None:
        now = next(heartbeats)
        for body in BODIES:
            registry.register(body, now)

    benchmark.pedantic(beat, rounds=3)  # type: ignore[no-untyped-call]
    assert not registry.expire(TTL)  # the first leases were renewed


@pytest.mark.benchmark(group="register 10,000 pools")
def test_register(benchmark: BenchmarkFixture) -> None:
    def register() -> Registry:
        registry = Registry()
        asyncio.run(registry.post_all(BODIES))
        return registry

    registry = benchmark(register)
    assert len(registry.store.index) == POOLS


@pytest.mark.benchmark(group="register 10,000 pools")
def test_register_in_the_reference(benchmark: BenchmarkFixture) -> None:
    registry = benchmark.pedantic(referenced, rounds=3)  # type: ignore[no-untyped-call]
    assert len(registry.heap) == POOLS


@pytest.mark.benchmark(group="expire 10,000 pools")
def test_expire(benchmark: BenchmarkFixture) -> None:
    def sweep(index: PoolIndex) -> None:
        while index.expire(TTL, SLICE):
            pass
        assert len(index) == 0

    benchmark.pedantic(sweep, setup=lambda: ((indexed(),), {}), rounds=20)  # type: ignore[no-untyped-call]


@pytest.mark.benchmark(group="expire 10,000 pools")
def test_expire_in_the_reference(benchmark: BenchmarkFixture) -> None:
    def sweep(registry: SlowRegistry) -> None:
        assert len(registry.expire(TTL)) == POOLS

    benchmark.pedantic(sweep, setup=lambda: ((referenced(),), {}), rounds=3)  # type: ignore[no-untyped-call]


@pytest.mark.benchmark(group="list of 10,000 pools after one change")
def test_list(benchmark: BenchmarkFixture) -> None:
    index = indexed()
    index.parts()

    changes = count()

    def change_and_list() -> bytes:
        index.put(b"000000", b'{"changed":%d}' % next(changes))
        return index.parts().join(b"[", b"]")

    listed = benchmark(change_and_list)
    assert listed.startswith(b'[{"changed":')


@pytest.mark.benchmark(group="list of 10,000 pools after one change")
def test_list_in_the_reference(benchmark: BenchmarkFixture) -> None:
    registry = referenced()
    listed = benchmark.pedantic(registry.encode, args=(True,), rounds=3)  # type: ignore[no-untyped-call]
    assert listed.startswith(b'{"complete":true,')
