"""What every pool backend promises to those who list, register and watch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest

from gdsvc.model import PoolKey, PoolListing, PoolLocation, PoolRegistration, listing_of
from gdsvc.pool_discovery.directory import PoolDirectory
from gdsvc.pool_discovery.fanout import CAPACITY
from gdsvc.pool_discovery.registrar import PoolRegistrar
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted

LEASE_SECS = 15
PATIENCE_SECS = 10.0  # for what is to come at once


class Stand(Protocol):
    """A backend, as the suite sees it."""

    @property
    def directory(self) -> PoolDirectory: ...
    @property
    def registrar(self) -> PoolRegistrar: ...
    async def pass_time(self, secs: float) -> None: ...
    async def settle(self) -> None: ...


Open = Callable[[], AbstractAsyncContextManager[Stand]]
Watch = AsyncIterator[Event[PoolListing, PoolKey]]


def pool(name: str, model: str | None = None) -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), PoolLocation("eu"), model, ("http://10.0.0.1:8000",))


async def names(stand: Stand) -> list[str]:
    return [listing.key.dgd_name for listing in (await stand.directory.list()).items]


async def next_event(watch: Watch) -> Event[PoolListing, PoolKey]:
    async with asyncio.timeout(PATIENCE_SECS):
        return await anext(watch)


async def next_resync(watch: Watch) -> Snapshot[PoolListing]:
    event = await next_event(watch)
    assert isinstance(event, Resync)
    return event.snapshot


async def nothing_more(stand: Stand, watch: Watch) -> None:
    """That nothing waits to be read: the next event is that of a pool that is registered now."""
    marker = pool("zz-marker")
    await stand.registrar.register(marker)
    await stand.settle()
    assert await next_event(watch) == Upserted(listing_of(marker))
    await stand.registrar.deregister(marker.key)
    await stand.settle()
    assert await next_event(watch) == Removed(marker.key)


# ------------------------------------------------------------------------------------------ lists and registration


async def test_a_new_backend_lists_nothing_and_is_not_sure_of_it(open_pools: Open) -> None:
    async with open_pools() as stand:
        snapshot = await stand.directory.list()
        assert (list(snapshot.items), snapshot.completeness) == ([], Completeness.ESTIMATED)


async def test_pools_are_listed_as_they_registered_sorted_by_key(open_pools: Open) -> None:
    keys = [("b", "n", "p"), ("a", "z", "p"), ("a", "n", "q"), ("a", "n", "p"), ("a!", "n", "p"), ("é", "n", "p")]
    async with open_pools() as stand:
        registrations = [PoolRegistration(PoolKey(*key), model="m") for key in keys]
        for registration in registrations:
            lease = await stand.registrar.register(registration)
            assert lease == stand.registrar.lease
        await stand.settle()
        snapshot = await stand.directory.list()
        assert list(snapshot.items) == [listing_of(r) for r in sorted(registrations, key=lambda r: r.key)]


async def test_unknown_members_are_listed_back(open_pools: Open) -> None:
    registration = PoolRegistration(
        PoolKey("s", "n", "p"), PoolLocation("eu", extra={"rack": 7}), extra={"generation": {"a": [1, None]}}
    )
    async with open_pools() as stand:
        await stand.registrar.register(registration)
        await stand.settle()
        assert list((await stand.directory.list()).items) == [listing_of(registration)]


@pytest.mark.parametrize(("secs", "listed"), [(14.9375, ["p"]), (15.0, [])])
async def test_a_silent_pool_is_listed_for_its_lease(open_pools: Open, secs: float, listed: list[str]) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p"))
        await stand.pass_time(secs)
        assert await names(stand) == listed


@pytest.mark.parametrize(("secs", "listed"), [(14.9375, ["p"]), (15.0, [])])
async def test_a_heartbeat_is_good_for_another_lease(open_pools: Open, secs: float, listed: list[str]) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p"), b"body")
        await stand.pass_time(10.0)
        if not await stand.registrar.renew(b"body"):
            await stand.registrar.register(pool("p"), b"body")
        await stand.pass_time(secs)
        assert await names(stand) == listed


async def test_bytes_that_were_never_registered_renew_nothing(open_pools: Open) -> None:
    async with open_pools() as stand:
        assert not await stand.registrar.renew(b"body")
        await stand.registrar.register(pool("p"), b"body")
        assert not await stand.registrar.renew(b"other")


async def test_a_changed_registration_replaces_the_one_before(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p", "old"))
        await stand.registrar.register(pool("p", "new"))
        await stand.settle()
        assert list((await stand.directory.list()).items) == [listing_of(pool("p", "new"))]


async def test_a_deregistered_pool_is_gone_and_may_register_again(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p"), b"body")
        assert await stand.registrar.deregister(pool("p").key)
        await stand.settle()
        assert await names(stand) == []
        assert not await stand.registrar.deregister(pool("p").key)
        assert not await stand.registrar.renew(b"body")
        await stand.registrar.register(pool("p"), b"body")
        await stand.settle()
        assert await names(stand) == ["p"]


async def test_many_relays_of_one_pool_make_one_listing(open_pools: Open) -> None:
    async with open_pools() as stand:
        await asyncio.gather(*(stand.registrar.register(pool("p", "m")) for _ in range(500)))
        await stand.settle()
        assert await names(stand) == ["p"]


async def test_the_revision_moves_with_what_is_listed_and_only_with_it(open_pools: Open) -> None:
    async with open_pools() as stand:

        async def revision() -> int:
            await stand.settle()
            return (await stand.directory.list()).revision

        seen = [await revision()]
        for change in (pool("p"), pool("q"), pool("p", "m")):
            await stand.registrar.register(change)
            seen.append(await revision())
        await stand.registrar.deregister(pool("q").key)
        seen.append(await revision())
        assert seen == sorted(set(seen)), "each change is a later revision"
        await stand.registrar.register(pool("p", "m"))
        assert await revision() == seen[-1]


@pytest.mark.parametrize(("secs", "completeness"), [(14.9375, Completeness.ESTIMATED), (15.0, Completeness.EXACT)])
async def test_a_backend_is_sure_after_a_lease(open_pools: Open, secs: float, completeness: Completeness) -> None:
    async with open_pools() as stand:
        await stand.pass_time(secs)
        assert (await stand.directory.list()).completeness is completeness


# ------------------------------------------------------------------------------------------------------ watching


async def test_a_watch_starts_with_a_resync_of_the_whole_view(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("q"))
        await stand.registrar.register(pool("p"))
        await stand.settle()
        watch = stand.directory.list_and_watch()
        snapshot = await next_resync(watch)
        assert list(snapshot.items) == [listing_of(pool("p")), listing_of(pool("q"))]
        assert snapshot.completeness is Completeness.ESTIMATED
        assert snapshot.revision == (await stand.directory.list()).revision


async def test_a_watch_tells_what_is_new_what_changed_and_what_left(open_pools: Open) -> None:
    async with open_pools() as stand:
        watch = stand.directory.list_and_watch()
        assert list((await next_resync(watch)).items) == []
        await stand.registrar.register(pool("p"))
        await stand.settle()
        assert await next_event(watch) == Upserted(listing_of(pool("p")))
        await stand.registrar.register(pool("p", "m"))
        await stand.settle()
        assert await next_event(watch) == Upserted(listing_of(pool("p", "m")))
        await stand.registrar.deregister(pool("p").key)
        await stand.settle()
        assert await next_event(watch) == Removed(pool("p").key)


async def test_a_renewal_is_no_event(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p", "m"), b"body")
        await stand.settle()
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        for _ in range(5):
            assert await stand.registrar.renew(b"body")
            await stand.registrar.register(pool("p", "m"), b"other body")
            await stand.registrar.register(pool("p", "m"))
        await nothing_more(stand, watch)


async def test_a_pool_whose_lease_ends_is_told_once(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.pass_time(LEASE_SECS)
        await stand.registrar.register(pool("p"))
        await stand.settle()
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        await stand.pass_time(LEASE_SECS)
        assert await next_event(watch) == Removed(pool("p").key)
        await nothing_more(stand, watch)


async def test_becoming_complete_is_told_by_a_resync_though_no_pool_changed(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p"), b"body")
        await stand.settle()
        watch = stand.directory.list_and_watch()
        before = await next_resync(watch)
        await stand.pass_time(10.0)
        await stand.registrar.renew(b"body")
        await stand.pass_time(5.0)
        after = await next_resync(watch)
        assert (before.completeness, after.completeness) == (Completeness.ESTIMATED, Completeness.EXACT)
        assert list(before.items) == list(after.items) == [listing_of(pool("p"))]
        assert after.revision > before.revision
        await nothing_more(stand, watch)


async def test_becoming_complete_is_told_where_nothing_is_listed_too(open_pools: Open) -> None:
    async with open_pools() as stand:
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        await stand.pass_time(LEASE_SECS)
        snapshot = await next_resync(watch)
        assert (list(snapshot.items), snapshot.completeness) == ([], Completeness.EXACT)


async def test_what_changes_between_the_resync_and_the_first_look_after_it_is_not_missed(open_pools: Open) -> None:
    async with open_pools() as stand:
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        for number in range(20):
            await stand.registrar.register(pool(f"{number:02}"))
        await stand.registrar.deregister(pool("07").key)
        await stand.settle()
        told = [await next_event(watch) for _ in range(21)]
        assert told == [*(Upserted(listing_of(pool(f"{number:02}"))) for number in range(20)), Removed(pool("07").key)]


async def test_a_watch_that_starts_in_the_middle_of_changes_misses_nothing(open_pools: Open) -> None:
    async with open_pools() as stand:

        async def change() -> None:
            for number in range(100):
                await stand.registrar.register(pool(f"{number % 40:02}", f"m{number}"))
                if number % 3 == 0:
                    await stand.registrar.deregister(pool(f"{number * 7 % 40:02}").key)
                await asyncio.sleep(0)

        async def follow(start_after: int) -> None:
            for _ in range(start_after):
                await asyncio.sleep(0)
            known: dict[PoolKey, PoolListing] = {}
            async for event in stand.directory.list_and_watch():
                match event:
                    case Resync(snapshot):
                        known = {listing.key: listing for listing in snapshot.items}
                    case Upserted(listing):
                        known[listing.key] = listing
                    case Removed(key):
                        known.pop(key)
                if pool("zz-last").key in known:
                    break
            assert [known[key] for key in sorted(known)] == list((await stand.directory.list()).items)

        watchers = [asyncio.ensure_future(follow(start)) for start in range(0, 100, 7)]
        await change()
        await stand.registrar.register(pool("zz-last"))
        await stand.settle()
        async with asyncio.timeout(PATIENCE_SECS):
            await asyncio.gather(*watchers)


async def test_a_watch_opened_at_the_moment_of_a_change_does_not_tell_it_twice(open_pools: Open) -> None:
    async with open_pools() as stand:
        await stand.registrar.register(pool("p"))
        await stand.settle()
        await stand.pass_time(LEASE_SECS)
        watch = stand.directory.list_and_watch()
        snapshot = await next_resync(watch)
        assert (list(snapshot.items), snapshot.completeness) == ([], Completeness.EXACT)
        await nothing_more(stand, watch)


async def test_a_watcher_exactly_as_far_behind_as_is_allowed_gets_every_event(open_pools: Open) -> None:
    async with open_pools() as stand:
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        for number in range(CAPACITY):
            await stand.registrar.register(pool(f"{number:04}"))
        await stand.settle()
        told = [await next_event(watch) for _ in range(CAPACITY)]
        assert told == [Upserted(listing_of(pool(f"{number:04}"))) for number in range(CAPACITY)]
        await nothing_more(stand, watch)


async def test_a_watcher_further_behind_gets_one_fresh_resync_and_no_gap(open_pools: Open) -> None:
    assert CAPACITY == 1024
    async with open_pools() as stand:
        watch = stand.directory.list_and_watch()
        await next_resync(watch)
        for number in range(CAPACITY + 1):
            await stand.registrar.register(pool(f"{number:04}"))
        await stand.registrar.deregister(pool("0007").key)
        await stand.settle()
        snapshot = await next_resync(watch)
        assert [listing.key.dgd_name for listing in snapshot.items] == [
            f"{number:04}" for number in range(CAPACITY + 1) if number != 7
        ]
        await nothing_more(stand, watch)


async def test_a_slow_watcher_costs_the_others_nothing(open_pools: Open) -> None:
    async with open_pools() as stand:
        slow, quick = stand.directory.list_and_watch(), stand.directory.list_and_watch()
        await next_resync(slow)
        await next_resync(quick)
        for number in range(CAPACITY + 1):
            await stand.registrar.register(pool("p", f"m{number}"))
            await stand.settle()
            assert await next_event(quick) == Upserted(listing_of(pool("p", f"m{number}")))
        assert list((await next_resync(slow)).items) == [listing_of(pool("p", f"m{CAPACITY}"))]


async def test_watchers_may_leave_at_any_time(open_pools: Open) -> None:
    async with open_pools() as stand:
        watches = [stand.directory.list_and_watch() for _ in range(10)]
        for watch in watches:
            await next_resync(watch)
        waiting = [asyncio.ensure_future(next_event(watch)) for watch in watches]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        await asyncio.gather(*waiting[::2], return_exceptions=True)
        await stand.registrar.register(pool("p"))
        await stand.settle()
        assert await asyncio.gather(*waiting[1::2]) == [Upserted(listing_of(pool("p")))] * 5
