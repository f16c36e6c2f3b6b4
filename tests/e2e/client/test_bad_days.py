"""Directories over HTTP while the service closes, falls silent, talks nonsense, or is away."""

import asyncio

import pytest

from gdsvc import model
from gdsvc.client import RemotePoolDirectory
from gdsvc.errors import Unavailable
from gdsvc.pool_discovery.watch import Removed, Upserted
from tests.e2e.client.scripted import ScriptedServer
from tests.e2e.client.watching import (
    Streams,
    close_at_once,
    listed,
    next_event,
    next_resync,
    options,
    pool,
    refusal,
    removed,
    stream,
    until,
)

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop
COUNTED_SECS = 5.0  # in which attempts are counted: pauses of at least 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 s


@pytest.mark.load
async def test_a_server_that_closes_at_once_is_not_stormed() -> None:
    script = Streams(close_at_once)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)):
        await asyncio.sleep(COUNTED_SECS)
        assert 3 <= len(server.asked) <= 14, "aiohttp itself sends each GET twice"


@pytest.mark.load
async def test_a_server_that_says_the_same_and_closes_is_not_stormed_either() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1"), stays=False))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)):
        script.go.set()
        await asyncio.sleep(COUNTED_SECS)
        assert 3 <= len(server.asked) <= 7


async def test_the_pause_that_the_service_names_is_kept() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), before=b"retry: 700\n\n", stays=False),
        stream(("upserted", model.encode_listing(pool("b")), "e-2")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        await next_event(watch)
        assert script.asked_at[1] - script.asked_at[0] >= 0.7


async def test_a_peer_that_falls_silent_is_left_and_resumed() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1")),
        stream(("upserted", model.encode_listing(pool("b")), "e-2")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server), silence_secs=0.3) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Upserted(pool("b"))
        assert script.resumed_from[:2] == [None, "e-1"]


@pytest.mark.parametrize(
    "event",
    [
        ("upserted", b"no JSON", "e-2"),
        ("upserted", b"{}", "e-2"),
        ("upserted", b"\xff", "e-2"),
        ("removed", b"{}", "e-2"),
        ("resync", b"[]", "e-2"),
    ],
)
async def test_an_event_that_cannot_be_understood_is_made_up_for_by_the_whole_list(
    event: tuple[str, bytes, str],
) -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), event),
        stream(("resync", listed(pool("b")), "e-3")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert [await next_event(watch) for _ in range(2)] == [Removed(pool("a").key), Upserted(pool("b"))]
        assert script.resumed_from == [None, None]


async def test_changes_before_the_first_list_are_not_taken_for_the_view() -> None:
    script = Streams(
        stream(("upserted", model.encode_listing(pool("x")), "e-1")), stream(("resync", listed(pool("a")), "e-3"))
    )
    script.go.set()
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]


async def test_events_of_a_later_version_are_passed_over() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), ("later", b"{", "e-2"), ("removed", removed("a"), "e-3"))
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Removed(pool("a").key)
        assert len(server.asked) == 1


async def test_a_list_asked_for_while_nobody_answers_is_unavailable_and_there_later() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    server = ScriptedServer(script)
    async with server:
        await server.hang_up()
        async with RemotePoolDirectory(options(server)) as directory:
            with pytest.raises(Unavailable, match="connection refused"):
                await directory.list()
            assert directory.reason is not None
            await server.listen()
            assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]
            assert list((await directory.list()).items) == [pool("a")]
            assert directory.reason is None


async def test_the_last_view_is_kept_while_nobody_answers() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        before = await directory.list()
        await server.hang_up()
        await until(lambda: directory.reason is not None)
        assert await directory.list() == before


async def test_a_service_that_is_not_ready_is_asked_again_when_it_says() -> None:
    script = Streams(
        refusal(503, b'{"error":{"message":"not synced yet"}}', Retry_After="1"),
        stream(("resync", listed(pool("a")), "e-1")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        with pytest.raises(Unavailable, match="not synced yet") as unavailable:
            await directory.list()
        assert unavailable.value.retry_after_secs == 1
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]
        assert script.asked_at[1] - script.asked_at[0] >= 1.0
