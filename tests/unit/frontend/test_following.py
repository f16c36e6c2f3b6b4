"""A catalog that follows a directory: whole catalogs, in order, a burst in few of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gdsvc.frontend.catalog import Catalog
from gdsvc.frontend.following import Following
from gdsvc.model import PoolKey, PoolListing
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted

PoolEvent = Event[PoolListing, PoolKey]


def listing(number: int) -> PoolListing:
    return PoolListing(PoolKey("s", "n", f"d{number}"), f"id-{number}", model="m", frontends=("http://10.0.0.1",))


def whole(*items: PoolListing) -> Resync[PoolListing]:
    return Resync(Snapshot(items, Completeness.EXACT, 1))


class Script:
    """A directory that says what the test puts into it, until None."""

    def __init__(self) -> None:
        self.says: asyncio.Queue[PoolEvent | Exception | None] = asyncio.Queue()

    async def list(self) -> Snapshot[PoolListing]:
        raise NotImplementedError

    async def list_and_watch(self) -> AsyncIterator[PoolEvent]:
        while (event := await self.says.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event


class Published:
    """The catalogs so far; `until` waits for one that fits."""

    def __init__(self) -> None:
        self.catalogs: list[Catalog] = []
        self._news = asyncio.Event()

    def take(self, catalog: Catalog) -> None:
        self.catalogs.append(catalog)
        self._news.set()

    async def until(self, count: int) -> Catalog:
        async with asyncio.timeout(10):
            while len(self.catalogs[-1].pools if self.catalogs else {}) != count:
                self._news.clear()
                await self._news.wait()
        return self.catalogs[-1]


async def test_each_change_is_published_and_the_end_of_the_watch_ends_it() -> None:
    script, published = Script(), Published()
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(Following(script, published.take).run())
        script.says.put_nowait(whole(listing(1)))
        assert (await published.until(1)).complete
        script.says.put_nowait(Upserted(listing(2)))
        await published.until(2)
        script.says.put_nowait(Removed(listing(1).key))
        script.says.put_nowait(None)
        await following
    assert list(published.catalogs[-1].pools) == ["id-2"]


async def test_a_burst_of_changes_becomes_a_few_catalogs() -> None:
    script, published = Script(), Published()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Following(script, published.take).run())
        script.says.put_nowait(whole())
        for number in range(500):
            script.says.put_nowait(Upserted(listing(number)))
        await published.until(500)
        script.says.put_nowait(None)
    assert len(published.catalogs) < 20


async def test_what_changes_nothing_is_not_published() -> None:
    script, published = Script(), Published()
    for event in (whole(listing(1)), Upserted(listing(1)), whole(listing(1)), None):
        script.says.put_nowait(event)
    await Following(script, published.take).run()
    assert len(published.catalogs) == 1


async def test_a_fault_of_the_directory_is_not_swallowed() -> None:
    script = Script()
    script.says.put_nowait(RuntimeError("a fault"))
    with pytest.raises(ExceptionGroup) as caught:
        await Following(script, Published().take).run()
    assert caught.group_contains(RuntimeError, match="a fault")


async def test_a_cancelled_following_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    running = asyncio.ensure_future(Following(Script(), Published().take).run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asyncio.all_tasks() == before
