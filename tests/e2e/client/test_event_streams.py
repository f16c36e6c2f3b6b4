"""Event streams as the client reads them: from servers that go on, end, break off, or fall silent."""

import asyncio

import pytest

from gdsvc.client import (
    DiscoveryApi,
    NotDiscovery,
    Refused,
    ServerSentEvent,
    StreamLost,
    Unreachable,
)
from tests.e2e.client.asking import asking, options, status
from tests.e2e.client.scripted import Asked, Caller, ScriptedServer

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop

SOON_SECS = 5.0  # for what is to come at once


async def test_events_are_read_as_they_come_and_the_stream_ends_where_the_service_ends_it() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.send(b"retry: 1500\nid: e-1\nevent: resync\ndata: {}\n\n: keep-alive\nid: e-2\n\n")
        caller.close()

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        async with api.events("/pools/watch", [("model", "m")], "e-0") as events:
            assert [event async for event in events] == [
                ServerSentEvent("resync", b"{}", "e-1", 1500),
                ServerSentEvent("", b"", "e-2", None),
            ]
            assert events.url == server.url
        (asked,) = server.asked
        assert asked.target == "/pools/watch?model=m"
        assert (asked.headers["last-event-id"], asked.headers["accept"]) == ("e-0", "text/event-stream")
        assert asked.headers["accept-encoding"] == "identity"


async def test_a_stream_that_falls_silent_is_lost() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.event("resync", b"{}", "e-1")
        await asyncio.Event().wait()

    async with (
        ScriptedServer(stream) as server,
        DiscoveryApi(options(server.url), silence_secs=0.2) as api,
        asyncio.timeout(SOON_SECS),
        api.events("/pools/watch") as events,
    ):
        assert (await anext(events)).event == "resync"
        with pytest.raises(StreamLost, match=r"nothing was heard for 0.2 s"):
            await anext(events)


async def test_comments_keep_a_stream_alive() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        for _ in range(6):
            await asyncio.sleep(0.1)
            await caller.send(b": here\n\n")
        await caller.event("resync", b"{}", "e-1")
        await caller.gone()

    async with (
        ScriptedServer(stream) as server,
        DiscoveryApi(options(server.url), silence_secs=0.4) as api,
        asyncio.timeout(SOON_SECS),
        api.events("/pools/watch") as events,
    ):
        assert (await anext(events)).event == "resync"


async def test_a_stream_that_is_reset_is_lost() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:"
        )
        caller.reset()

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        with pytest.raises((StreamLost, Unreachable)):
            async with api.events("/pools/watch") as events:
                await anext(events)


@pytest.mark.parametrize("code", [404, 405, 429, 501, 503])
async def test_a_service_without_a_stream_says_what_it_says(code: int) -> None:
    async with ScriptedServer(status(code, b'{"error":{"message":"no, thanks"}}')) as server, asking(server.url) as api:
        with pytest.raises(Refused, match="no, thanks") as refused:
            async with api.events("/pools/watch"):
                pass
        assert refused.value.answer.status == code


async def test_a_list_instead_of_a_stream_is_no_stream() -> None:
    async with ScriptedServer(status(200)) as server, asking(server.url) as api:
        with pytest.raises(NotDiscovery, match="no stream of events"):
            async with api.events("/pools/watch"):
                pass


async def test_leaving_a_stream_closes_its_connection() -> None:
    left = asyncio.Event()

    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.event("resync", b"{}", "e-1")
        try:
            while True:
                await caller.send(b": here\n\n")
                await asyncio.sleep(0.01)
        except OSError:
            left.set()
            raise

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        async with api.events("/pools/watch") as events:
            await anext(events)
        async with asyncio.timeout(SOON_SECS):
            await left.wait()
