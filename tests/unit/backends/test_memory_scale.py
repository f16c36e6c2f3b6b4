"""MemoryPoolStore with as many pools and relays as a large fleet has; lease time is set by hand."""

import asyncio
import json
import tracemalloc

import pytest

from gdsvc import model
from gdsvc.backends.leased import EXPIRY_SLICE
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.fanout import CAPACITY, LAGGED
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import EncodedRemoval

POOLS = 100_000


class Stand:
    """A store with a lease of 15 s and the clock it reads."""

    def __init__(self) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.store = MemoryPoolStore(Lease(5, 15), self.clock, "2026-01-01T00:00:00.000Z")

    def pass_until(self, at: float) -> None:
        while self.time < at:
            self.time = min(at, self.time + 0.9)
            self.clock.tick()


def registration(name: str) -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), model="m", frontends=("http://10.0.0.1:8000",))


@pytest.mark.loops("uvloop")
async def test_sixteen_thousand_registrations_of_one_pool_at_once_leave_one_listing_and_one_event() -> None:
    stand = Stand()
    bodies = [
        b'{"key":{"site_id":"s","namespace":"n","dgd_name":"p"},"model":"m"}',
        b'{"model":"m", "key":{"dgd_name":"p","namespace":"n","site_id":"s"}}',
    ]

    async def relay(number: int) -> None:
        body = bodies[number % 2]
        await asyncio.sleep(0)
        if not await stand.store.renew(body):
            await asyncio.sleep(0)
            await stand.store.register(model.decode_registration(body), body)

    await asyncio.gather(*map(relay, range(16_000)))
    assert len((await stand.store.list()).items) == 1
    assert stand.store._fanout.published == 1
    index = stand.store.index
    assert (index.revision, index.encodings, stand.store.new, stand.store.conflicts) == (1, 1, 1, 0)
    assert index.renewed == 15_999


@pytest.mark.parametrize("pools", [POOLS // 5, pytest.param(POOLS, marks=pytest.mark.load)])
def test_pools_of_a_large_fleet_that_lapse_together_go_in_slices(pools: int) -> None:
    stand = Stand()

    async def fill() -> None:
        for number in range(pools):
            await stand.store.register(registration(f"{number:06}"))

    asyncio.run(fill())
    listed = json.loads(stand.store.encoded().join(b"[", b"]"))
    assert [item["key"]["dgd_name"] for item in listed] == [f"{number:06}" for number in range(pools)]
    stand.pass_until(14.999)
    stand.store.advance()
    assert len(stand.store.index) == pools
    stand.pass_until(15.0)
    steps, due_in = 0, 0.0
    while due_in == 0.0:
        before, published = len(stand.store.index), stand.store._fanout.published
        due_in = stand.store.advance()
        gone = before - len(stand.store.index)
        assert gone <= EXPIRY_SLICE
        assert stand.store._fanout.published - published <= gone + 1, "the Resync of completeness is the one more"
        steps += 1
    assert (steps, len(stand.store.index), stand.store.index.expired) == (pools // EXPIRY_SLICE, 0, pools)
    assert stand.store.encoded().join(b"[", b"]") == b"[]"


async def test_a_watcher_that_reads_between_two_slices_sees_every_pool_leave() -> None:
    stand = Stand()
    stand.pass_until(20.0)
    stand.store.advance()
    for number in range(5000):
        await stand.store.register(registration(str(number)))
    assert EXPIRY_SLICE < CAPACITY, "a slice leaves room for what else happens"
    subscription = stand.store._fanout.subscribe()
    stand.pass_until(35.0)
    gone: list[bytes] = []
    for _ in range(5000 // EXPIRY_SLICE):
        published = stand.store._fanout.published
        stand.store.advance()
        for _ in range(stand.store._fanout.published - published):
            event = await subscription.next()
            assert event is not LAGGED
            assert isinstance(event, EncodedRemoval)
            gone.append(event.key)
    assert len(set(gone)) == 5000


async def test_a_heartbeat_that_arrives_during_a_mass_expiry_still_counts() -> None:
    stand = Stand()
    for number in range(3 * EXPIRY_SLICE):
        await stand.store.register(registration(f"{number:06}"), b"body %d" % number)
    stand.pass_until(15.0)
    assert stand.store.advance() == 0.0
    last = b"body %d" % (3 * EXPIRY_SLICE - 1)
    assert await stand.store.renew(last)
    while stand.store.advance() == 0.0:
        pass
    assert [listing.key.dgd_name for listing in (await stand.store.list()).items] == [f"{3 * EXPIRY_SLICE - 1:06}"]


@pytest.mark.load
def test_pools_that_come_and_go_while_nobody_lists_cost_no_memory() -> None:
    stand = Stand()

    async def come_and_go(number: int) -> None:
        name = f"{number:08}"
        for version in range(2):  # a change, so that conflicts are remembered too
            await stand.store.register(
                PoolRegistration(PoolKey("s", "n", name), model=f"m{number}-{version}", capabilities=("x" * 500,)),
                b"body %d %d" % (number, version),
            )
        if number % 2:
            await stand.store.deregister(PoolKey("s", "n", name))
        stand.time += 0.125  # exact, so that the sum is too
        stand.clock.tick()
        stand.store.advance()

    async def scenario() -> list[int]:
        used: list[int] = []
        for number in range(9_400):
            await come_and_go(number)
            if number % 200 == 0:
                used.append(tracemalloc.get_traced_memory()[0])
        return used

    tracemalloc.start()
    used = asyncio.run(scenario())
    tracemalloc.stop()
    assert len(stand.store.index) == 59
    assert max(used[31:]) - max(used[:31]) < 2_000_000, "3,200 pools of well over 1,000 bytes have come and gone"
