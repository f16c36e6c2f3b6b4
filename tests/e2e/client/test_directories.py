"""Directories over HTTP: followed, resumed, shared, and left."""

import asyncio
from collections.abc import Iterable

import pytest

from gdsvc import model
from gdsvc.client import Options, RemotePoolDirectory, RemoteReplicaDirectory
from gdsvc.errors import Unavailable
from gdsvc.model import RouterReplica
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.watch import Completeness, Removed, Resync, Upserted
from tests.e2e.client.scripted import Asked, Caller, ScriptedServer
from tests.e2e.client.watching import (
    SOON_SECS,
    Streams,
    listed,
    next_event,
    next_resync,
    options,
    pool,
    removed,
    stream,
)

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop


# ------------------------------------------------------------------------------------------------ watching


async def test_a_watch_is_followed() -> None:
    script = Streams(
        stream(
            ("resync", listed(pool("b"), pool("a")), "e-1"),
            ("upserted", model.encode_listing(pool("c")), "e-2"),
            ("removed", removed("a"), "e-3"),
        )
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        snapshot = await next_resync(watch)
        script.go.set()
        assert (list(snapshot.items), snapshot.completeness) == ([pool("a"), pool("b")], Completeness.EXACT)
        assert [await next_event(watch), await next_event(watch)] == [Upserted(pool("c")), Removed(pool("a").key)]
        assert list((await directory.list()).items) == [pool("b"), pool("c")]
        assert (directory.position, directory.reason) == ("e-3", None)


async def test_all_watchers_of_a_directory_share_one_stream() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        for _ in range(20):
            await next_resync(directory.list_and_watch())
        assert len(server.asked) == 1


async def test_a_stream_that_ends_is_resumed_and_watchers_notice_nothing() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), ("upserted", model.encode_listing(pool("b")), "e-2"), stays=False),
        stream(("removed", removed("a"), "e-3")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert [await next_event(watch) for _ in range(2)] == [Upserted(pool("b")), Removed(pool("a").key)]
        assert script.resumed_from == [None, "e-2"]


async def test_it_resumes_behind_the_last_keep_alive() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), stays=False, before=b""),
        stream(before=b": here\nid: e-7\n\n", stays=False),
        stream(("upserted", model.encode_listing(pool("b")), "e-8")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Upserted(pool("b"))
        assert script.resumed_from == [None, "e-1", "e-7"]


async def test_after_a_gap_watchers_hear_only_what_has_changed() -> None:
    script = Streams(
        stream(("resync", listed(pool("a"), pool("b"), pool("c")), "e-1"), stays=False),
        stream(("resync", listed(pool("b"), pool("c", "new"), pool("d")), "f-1")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        told = [await next_event(watch) for _ in range(3)]
        assert told == [Removed(pool("a").key), Upserted(pool("c", "new")), Upserted(pool("d"))]


async def test_a_service_that_restarts_loses_nobody_until_its_list_is_complete() -> None:
    script = Streams(
        stream(("resync", listed(pool("a"), pool("b"), pool("c")), "e-1"), stays=False),
        stream(
            ("resync", listed(pool("b", None), complete=False), "f-1"),
            ("upserted", model.encode_listing(pool("a", "new")), "f-2"),
            ("resync", listed(pool("a", "new"), pool("b")), "f-3"),
        ),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        assert (await next_resync(watch)).completeness is Completeness.EXACT
        script.go.set()
        snapshot = await next_resync(watch)
        if snapshot.completeness is Completeness.ESTIMATED:  # else all of it was there before we looked
            assert [item.key.dgd_name for item in snapshot.items] == ["a", "b", "c"]
            assert snapshot.items[1].model == "m"
            event = await next_event(watch)
            if isinstance(event, Upserted):
                assert event.item == pool("a", "new")
                event = await next_event(watch)
            assert isinstance(event, Resync)
            snapshot = event.snapshot
        assert (list(snapshot.items), snapshot.completeness) == ([pool("a", "new"), pool("b")], Completeness.EXACT)


async def test_filters_are_asked_for() -> None:
    script = Streams(stream(("resync", listed(), "e-1-f")))
    where = Filter(frozenset({"m&n"}), None, frozenset({"s", "r"}))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server), where) as directory:
        await directory.list()
        assert server.asked[0].target == "/pools/watch?model=m%26n&site_id=r&site_id=s"


async def test_a_large_list_arrives_whole() -> None:
    pools = [pool(f"{number:05}") for number in range(2000)]
    script = Streams(stream(("resync", listed(*pools), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await directory.list()).items) == pools


async def test_router_replicas_are_followed_alike() -> None:
    go = asyncio.Event()

    async def routers(asked: Asked, caller: Caller) -> None:
        assert asked.target == "/routers/watch"
        await caller.begin_events()
        await caller.event("resync", b'{"complete":true,"routers":[{"id":"a","url":"http://a"}]}', "e-1")
        await go.wait()
        await caller.event("upserted", b'{"id":"b","url":"http://b"}', "e-2")
        await caller.event("removed", b'{"id":"a"}', "e-3")
        await caller.gone()

    async with ScriptedServer(routers) as server, RemoteReplicaDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        async with asyncio.timeout(SOON_SECS):
            first = await anext(watch)
            assert isinstance(first, Resync)
            assert list(first.snapshot.items) == [RouterReplica("a", "http://a")]
            go.set()
            assert [await anext(watch), await anext(watch)] == [Upserted(RouterReplica("b", "http://b")), Removed("a")]


# ------------------------------------------------------------------------------------------------ leaving


def tasks() -> Iterable[str]:
    return sorted(task.get_name() for task in asyncio.all_tasks() if "gdsvc" in task.get_name())


async def test_leaving_ends_every_watch_and_leaves_no_task() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server:
        async with RemotePoolDirectory(options(server)) as directory:
            watch, late = directory.list_and_watch(), directory.list_and_watch()
            await next_resync(watch)
            waiting = asyncio.ensure_future(next_event(watch))
            await asyncio.sleep(0)
            assert tasks()
        assert not tasks()
        with pytest.raises(StopAsyncIteration):
            await waiting
        async with asyncio.timeout(SOON_SECS):
            assert [event async for event in late] == []


async def test_leaving_before_anything_was_heard_ends_everything_too() -> None:
    async def never(_streams: Streams, _caller: Caller) -> None:
        await asyncio.Event().wait()

    async with ScriptedServer(Streams(never)) as server:
        async with RemotePoolDirectory(options(server)) as directory:
            waiting = [asyncio.ensure_future(next_event(directory.list_and_watch())) for _ in range(3)]
            listing = asyncio.ensure_future(directory.list())
            await asyncio.sleep(0.05)
        for task in waiting:
            with pytest.raises(StopAsyncIteration):
                await task
        with pytest.raises(Unavailable, match="closed"):
            await listing
        assert not tasks()


async def test_a_directory_that_was_not_entered_says_so() -> None:
    directory = RemotePoolDirectory(Options(("http://127.0.0.1:1",)))
    with pytest.raises(RuntimeError, match="not entered"):
        await directory.list()
    with pytest.raises(RuntimeError, match="not entered"):
        await anext(directory.list_and_watch())


async def test_a_fault_of_the_follower_is_raised_where_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1"), ("removed", removed("a"), "e-2")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        directory._follower.view._members = None  # type: ignore[assignment]
        script.go.set()
        with pytest.raises(TypeError):
            await next_event(watch)
        with pytest.raises(TypeError):
            await directory.list()
    assert "ended by a fault" in caplog.text


async def test_entering_waits_for_nobody() -> None:
    async with asyncio.timeout(1.0), RemotePoolDirectory(Options(("http://192.0.2.1",))):
        pass
