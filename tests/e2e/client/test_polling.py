"""Directories over HTTP where there is no watch, or no place for one more watcher."""

import pytest

from gdsvc.client import RemotePoolDirectory
from gdsvc.errors import Unavailable
from gdsvc.pool_discovery.watch import Removed, Upserted
from tests.e2e.client.scripted import Asked, Caller, ScriptedServer
from tests.e2e.client.watching import (
    LIST,
    Streams,
    listed,
    next_event,
    next_resync,
    options,
    pool,
    refusal,
    stream,
    until,
)

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop


class Lists:
    """GET /pools with an ETag: the list is `body`, its tag a hash of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.full = 0
        self.unchanged = 0

    async def __call__(self, asked: Asked, caller: Caller) -> None:
        assert asked.target.partition("?")[0] == LIST
        etag = f'"{hash(self.body):x}"'
        if asked.headers.get("if-none-match") == etag:
            self.unchanged += 1
            await caller.reply(304, ETag=etag)
        else:
            self.full += 1
            await caller.reply(200, self.body, ETag=etag)


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_where_there_is_no_watch_lists_are_polled_and_their_differences_told(status: int) -> None:
    lists = Lists(listed(pool("a"), pool("b")))
    script = Streams(refusal(status, b"", Content_Type="text/plain"), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        assert list((await next_resync(watch)).items) == [pool("a"), pool("b")]
        script.go.set()
        await until(lambda: lists.unchanged >= 3)
        lists.body = listed(pool("b", "new"))
        assert [await next_event(watch) for _ in range(2)] == [Removed(pool("a").key), Upserted(pool("b", "new"))]
        assert (lists.full, len(script.watches), directory.position) == (2, 1, None)


async def test_polled_lists_that_are_incomplete_lose_nobody() -> None:
    lists = Lists(listed(pool("a"), pool("b")))
    script = Streams(refusal(404), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        lists.body = listed(pool("c"), complete=False)
        snapshot = await next_resync(watch)
        assert [item.key.dgd_name for item in snapshot.items] == ["a", "b", "c"]
        lists.body = listed(pool("c"))
        assert list((await next_resync(watch)).items) == [pool("c")]


async def test_a_service_that_takes_no_more_watchers_is_polled() -> None:
    lists = Lists(listed(pool("a")))
    script = Streams(refusal(429, Retry_After="60"), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await directory.list()).items) == [pool("a")]
        await until(lambda: lists.unchanged >= 3)
        assert len(script.watches) == 1


async def test_a_watch_that_was_there_before_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsvc.client.following.PLACE_AGAIN_SECS", 0.2)
    parts = (stream(("resync", listed(pool("a")), "e-1"), stays=False), refusal(404, b"default backend"))
    script = Streams(*parts, stream(("resync", listed(pool("b")), "f-1")), lists=Lists(listed(pool("a"))))
    script.go.set()
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        assert [await next_event(watch) for _ in range(2)] == [Removed(pool("a").key), Upserted(pool("b"))]


async def test_who_polls_tries_the_watch_when_the_service_was_away() -> None:
    async def gone(_asked: Asked, caller: Caller) -> None:
        caller.reset()

    script = Streams(refusal(404), stream(("resync", listed(pool("b")), "e-1")), lists=gone)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("b")]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"pools":[{}]}', b'["not a list"]'])
async def test_a_list_that_cannot_be_understood_is_unavailable(body: bytes) -> None:
    script = Streams(refusal(404), lists=Lists(body))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        with pytest.raises(Unavailable, match="cannot be understood"):
            await directory.list()
