"""Views that are being written: which one a newcomer gets, how much memory all of them take, who waits."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest

from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.http import snapshots as module
from gdsvc.http.lists import Lists
from gdsvc.http.snapshots import Snapshots
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock

POOL_BYTES = 100_000
BUDGET = 250_000  # two views of one pool, not three
FILTERS = [Filter(models=frozenset({"m", str(number)})) for number in range(5)]


class Stand:
    """A store with one large pool, of model "m", which is changed by `change`."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.store = MemoryPoolStore(Lease(5, 15), LeaseClock(15, lambda: 0.0), "2026-01-01T00:00:00.000Z")
        self.store._fanout = Fanout(journal=3)
        self.snapshots = Snapshots(Lists(self.store, "pools", "epoch", executor), self.store.changes)
        self.changes = 0

    async def change(self) -> int:
        """The revision it leads to."""
        self.changes += 1
        text = f"{self.changes}".rjust(POOL_BYTES)
        await self.store.register(PoolRegistration(PoolKey("s", "n", "p"), None, "m", capabilities=(text,)))
        return self.store.index.revision


@pytest.fixture(autouse=True)
def budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", BUDGET)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def is_waiting(task: "asyncio.Task[int]") -> bool:
    """Whether it still has nothing once all that can go on has gone on, lists made in the executor too."""
    for _ in range(20):
        await asyncio.sleep(0.005)
    return not task.done()


async def take_and_hold(stack: AsyncExitStack, stand: Stand, where: Filter) -> int:
    revision, body = await stack.enter_async_context(stand.snapshots.take(where))
    assert len(body) > POOL_BYTES
    return revision


async def test_those_who_start_at_one_revision_write_one_body(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    await stand.change()
    async with stand.snapshots.take(EVERYTHING) as (_, one), stand.snapshots.take(EVERYTHING) as (_, other):
        assert one is other
        assert stand.snapshots.held == 1
    assert stand.snapshots.held == 0
    assert stand.snapshots._held_bytes == 0


async def test_the_newest_view_is_taken_while_there_is_room(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            assert await stand.change() == await take_and_hold(stack, stand, EVERYTHING)


async def test_beyond_the_budget_a_view_that_is_being_written_is_shared(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stand.change()
            newest = await take_and_hold(stack, stand, EVERYTHING)
        await stand.change()
        assert await take_and_hold(stack, stand, EVERYTHING) == newest
        assert stand.snapshots.held == 2


async def test_beyond_the_budget_who_finds_nothing_to_share_waits_for_room(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    await stand.change()
    async with AsyncExitStack() as stack, AsyncExitStack() as first:
        await take_and_hold(first, stand, FILTERS[0])
        await take_and_hold(stack, stand, FILTERS[1])
        waiting = asyncio.ensure_future(take_and_hold(stack, stand, FILTERS[2]))
        assert await is_waiting(waiting)
        await first.aclose()
        assert await waiting == 1


async def test_a_view_that_the_journal_has_left_behind_is_not_shared(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    async with AsyncExitStack() as stack, AsyncExitStack() as first:
        await stand.change()
        await take_and_hold(first, stand, EVERYTHING)
        await take_and_hold(stack, stand, FILTERS[1])
        for _ in range(4):
            last = await stand.change()
        waiting = asyncio.ensure_future(take_and_hold(stack, stand, EVERYTHING))
        assert await is_waiting(waiting)
        await first.aclose()
        assert await waiting == last


async def test_many_who_come_at_the_same_time_hold_no_more_than_the_budget(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    await stand.change()
    most = 0

    async def take_briefly(where: Filter) -> None:
        nonlocal most
        async with stand.snapshots.take(where) as (_, body):
            most = max(most, stand.snapshots._held_bytes)
            assert len(body) <= stand.snapshots._held_bytes
            await asyncio.sleep(0.001)

    await asyncio.gather(*(take_briefly(where) for where in FILTERS * 10))
    assert POOL_BYTES < most <= BUDGET
    assert stand.snapshots._held_bytes == 0


async def test_one_view_larger_than_the_budget_is_written_all_the_same(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 1)
    stand = Stand(executor)
    await stand.change()
    async with stand.snapshots.take(FILTERS[0]) as (revision, _), stand.snapshots.take(FILTERS[0]) as (again, _):
        assert revision == again == 1


async def test_who_gives_up_waiting_holds_nothing(executor: ThreadPoolExecutor) -> None:
    stand = Stand(executor)
    await stand.change()
    async with AsyncExitStack() as stack:
        for where in FILTERS[:2]:
            await take_and_hold(stack, stand, where)
        waiting = asyncio.ensure_future(take_and_hold(stack, stand, FILTERS[2]))
        assert await is_waiting(waiting)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert stand.snapshots.held == 2
    assert (stand.snapshots.held, stand.snapshots._held_bytes) == (0, 0)
