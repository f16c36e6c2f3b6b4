"""What a watcher is told where reading the list itself brings the store up to now."""

import asyncio
from collections.abc import AsyncIterator

from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, listing_of
from gdsvc.pool_discovery.fanout import CAPACITY
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, Event, Resync, Upserted


class Stand:
    """A store with a lease of 15 s whose pulse does not beat: only who reads it moves it."""

    def __init__(self) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.store = MemoryPoolStore(Lease(5, 15), self.clock, "2026-01-01T00:00:00.000Z")

    def pass_until(self, at: float) -> None:
        while self.time < at:
            self.time = min(at, self.time + 0.5)
            self.clock.tick()

    async def register(self, name: str) -> PoolListing:
        registration = PoolRegistration(PoolKey("s", "n", name))
        await self.store.register(registration)
        return listing_of(registration)


async def events(watch: AsyncIterator[Event[PoolListing, PoolKey]]) -> list[Event[PoolListing, PoolKey]]:
    """All that is there to be read."""
    found: list[Event[PoolListing, PoolKey]] = []
    while True:
        task = asyncio.ensure_future(read(watch))
        for _ in range(3):
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return found
        found.append(task.result())


async def read(watch: AsyncIterator[Event[PoolListing, PoolKey]]) -> Event[PoolListing, PoolKey]:
    return await anext(watch)


def summary(event: Event[PoolListing, PoolKey]) -> object:
    """An event without its revision; a resync as its names and completeness."""
    if isinstance(event, Resync):
        return [listing.key.dgd_name for listing in event.snapshot.items], event.snapshot.completeness
    return event


async def test_a_watch_that_is_opened_when_leases_have_ended_does_not_hear_of_them_after_its_resync() -> None:
    stand = Stand()
    stand.pass_until(20.0)
    stand.store.advance()
    await stand.register("p")
    stand.pass_until(35.0)
    told = await events(stand.store.list_and_watch())
    assert [summary(event) for event in told] == [([], Completeness.EXACT)]


async def test_a_watch_that_is_opened_when_the_list_becomes_complete_gets_one_resync() -> None:
    stand = Stand()
    stand.pass_until(15.0)
    told = await events(stand.store.list_and_watch())
    assert [summary(event) for event in told] == [([], Completeness.EXACT)]


async def test_a_watcher_that_fell_behind_is_told_nothing_twice_either() -> None:
    stand = Stand()
    stand.pass_until(20.0)
    stand.store.advance()
    await stand.register("p")
    watch = stand.store.list_and_watch()
    assert isinstance(await anext(watch), Resync)
    stand.pass_until(30.0)
    for _ in range(CAPACITY):
        await stand.register("q")
        await stand.store.deregister(PoolKey("s", "n", "q"))
    stand.pass_until(35.0)
    told = await events(watch)
    assert [summary(event) for event in told] == [([], Completeness.EXACT)]


async def test_revisions_of_resyncs_are_those_of_the_list() -> None:
    stand = Stand()
    await stand.register("p")
    watch = stand.store.list_and_watch()
    first = await anext(watch)
    assert isinstance(first, Resync)
    assert first.snapshot.revision == stand.store.view()[0]
    listing = await stand.register("q")
    assert await anext(watch) == Upserted(listing)
