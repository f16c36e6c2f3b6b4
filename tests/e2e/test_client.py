"""The client against the real service: followed, filtered, one watcher too many, and restarted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gdsvc.client import DiscoveryApi, Heartbeat, Options, RemotePoolDirectory
from gdsvc.client.heartbeat import encode
from gdsvc.model import PoolKey, PoolListing, PoolRegistration, listing_of
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted
from tests.e2e.process import Serve, Service, running

pytestmark = pytest.mark.loops("asyncio")
SOON_SECS = 15.0
LONG_LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "8")  # above the pause before coming back
Watch = AsyncIterator[Event[PoolListing, PoolKey]]


def pool(name: str, model: str = "m") -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), model=model)


def options(service: Service, **others: float) -> Options:
    return Options((f"http://127.0.0.1:{service.port}",), **others)  # type: ignore[arg-type]


async def register(api: DiscoveryApi, *pools: PoolRegistration) -> None:
    for one in pools:
        assert (await api.request("POST", "/pools", body=encode(one))).status == 200


async def next_event(watch: Watch) -> Event[PoolListing, PoolKey]:
    async with asyncio.timeout(SOON_SECS):
        return await anext(watch)


async def next_resync(watch: Watch) -> Snapshot[PoolListing]:
    event = await next_event(watch)
    assert isinstance(event, Resync)
    return event.snapshot


async def test_a_change_is_heard_of_at_once(serve: Serve) -> None:
    service = serve()
    async with DiscoveryApi(options(service)) as api, RemotePoolDirectory(options(service)) as directory:
        watch = directory.list_and_watch()
        assert (await next_resync(watch)).completeness is Completeness.ESTIMATED
        await register(api, pool("a"), pool("a", "new"))
        assert [await next_event(watch) for _ in range(2)] == [
            Upserted(listing_of(pool("a"))),
            Upserted(listing_of(pool("a", "new"))),
        ]
        assert (await api.request("DELETE", "/pools/s/n/a")).status == 204
        assert await next_event(watch) == Removed(pool("a").key)


async def test_a_pool_that_leaves_the_filter_is_removed(serve: Serve) -> None:
    service = serve()
    where = Filter(models=frozenset({"m"}))
    async with DiscoveryApi(options(service)) as api, RemotePoolDirectory(options(service), where) as directory:
        watch = directory.list_and_watch()
        assert list((await next_resync(watch)).items) == []
        await register(api, pool("a"), pool("b", "other"), pool("a", "other"))
        assert [await next_event(watch) for _ in range(2)] == [Upserted(listing_of(pool("a"))), Removed(pool("a").key)]


async def test_one_watcher_more_than_there_are_places_is_told_of_changes_all_the_same(serve: Serve) -> None:
    service = serve("--max-watchers", "1")
    where = options(service, poll_interval_secs=0.1)
    async with DiscoveryApi(where) as api, RemotePoolDirectory(where) as first:
        await first.list()
        async with RemotePoolDirectory(where) as second:
            watch = second.list_and_watch()
            await next_resync(watch)
            assert (first.position is None, second.position) == (False, None)
            await register(api, pool("a"))
            assert await next_event(watch) == Upserted(listing_of(pool("a")))


@pytest.mark.load
async def test_a_restart_loses_no_pool_and_in_the_end_only_the_dead_one_is_gone(tmp_path: Path) -> None:
    with running(tmp_path, *LONG_LEASE) as service:
        where = options(service)
        async with (
            Heartbeat(where, pool("a")),
            Heartbeat(where, pool("b")),
            RemotePoolDirectory(where) as directory,
            DiscoveryApi(where) as api,
        ):
            watch = directory.list_and_watch()
            await register(api, pool("dead"))
            known = await follow_until(watch, {"a", "b", "dead"})
            assert await asyncio.to_thread(service.stop) == 0
            with running(tmp_path, *LONG_LEASE, "--listen", f"127.0.0.1:{service.port}"):
                event = await next_event(watch)
                while not isinstance(event, Resync):
                    assert not isinstance(event, Removed), "a service that has just started is no reason to drop anyone"
                    event = await next_event(watch)
                assert event.snapshot.completeness is Completeness.EXACT
                assert {item.key.dgd_name for item in event.snapshot.items} == known - {"dead"}


async def follow_until(watch: Watch, expected: set[str]) -> set[str]:
    """Reads events that add, until there is nothing to be added."""
    known: set[str] = set()
    while known != expected:
        event = await next_event(watch)
        if isinstance(event, Resync):
            known = {item.key.dgd_name for item in event.snapshot.items}
        else:
            assert isinstance(event, Upserted)
            known.add(event.item.key.dgd_name)
    return known
