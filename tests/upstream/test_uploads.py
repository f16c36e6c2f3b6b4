"""Bodies of requests: both framings, as fast as the upstream takes them, and what becomes of a source that fails."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable

import pytest

from gdsvc.frontend.upstream import Cause, Limits, RequestHead, Streamed, Unsendable, UpstreamFailed
from tests.upstream.scripted import GET, OK, POST, Peer, ask, body_of, replying, stand

EXPECTING = RequestHead(b"POST", b"/", expect_continue=True)


async def parts(given: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in given:
        yield part


async def test_a_body_without_a_length_is_sent_in_chunks() -> None:
    async def script(peer: Peer) -> None:
        assert (await peer.head()).endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        received.append(await peer.receive_until(b"0\r\n\r\n"))
        await peer.send(OK)
        await peer.left()

    received: list[bytes] = []
    body = Streamed(parts([b"hello", b"", b"x" * 17]))
    async with stand(script) as (client, frontend):
        async with client.send(frontend.origin, POST, body) as response:
            assert await body_of(response) == b"ok"
        assert client.counts().idle == 1
    assert received == [b"5\r\nhello\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"]


async def test_a_body_of_known_length_is_sent_as_it_comes() -> None:
    async def script(peer: Peer) -> None:
        assert (await peer.head()).endswith(b"\r\nContent-Length: 6\r\n\r\n")
        assert await peer.receive(6) == b"abcdef"
        await peer.send(OK)

    async with (
        stand(script) as (client, frontend),
        client.send(frontend.origin, POST, Streamed(parts([b"ab", b"cdef"]), 6)) as response,
    ):
        assert await body_of(response) == b"ok"


@pytest.mark.parametrize(("length", "text"), [(5, "longer than 5"), (7, "ends after 6 of 7")])
async def test_a_body_of_another_length_than_said_is_the_callers_fault(length: int, text: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.left()

    async with stand(script) as (client, frontend):
        with pytest.raises(Unsendable, match=text):
            await client.send(frontend.origin, POST, Streamed(parts([b"ab", b"cdef"]), length)).__aenter__()
        assert sum(client.counts().failed.values()) == 0


async def test_what_the_source_raises_reaches_the_caller_and_the_upstream_sees_an_aborted_upload() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"begun"
        raise LookupError("the caller has left")

    async def script(peer: Peer) -> None:
        await peer.head()
        with pytest.raises((EOFError, ConnectionResetError)):
            await peer.receive_until(b"0\r\n\r\n")

    async with stand(script) as (client, frontend):
        with pytest.raises(LookupError):
            await client.send(frontend.origin, POST, Streamed(broken())).__aenter__()


@pytest.mark.parametrize("size", [100, 1 << 20])
async def test_a_body_that_was_sent_is_held_by_nobody_while_the_reply_is_coming(size: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.receive(size)
        await peer.send(OK[:-1])
        await peer.left()

    body = bytes(size)
    before = sys.getrefcount(body)
    async with stand(script) as (client, frontend), client.send(frontend.origin, POST, body) as response:
        assert await response.read() == b"o"
        assert sys.getrefcount(body) == before


async def test_an_upload_waits_for_an_upstream_that_does_not_read() -> None:
    given = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal given
        while given < 64 << 20:
            given += 1 << 16
            yield b"x" * (1 << 16)

    async def script(peer: Peer) -> None:
        await peer.head()
        full_at = -1
        while given != full_at:  # until the source stands still
            full_at = given
            await asyncio.sleep(0.05)
        stood_at.append(given)
        await peer.drain_until(b"\r\n0\r\n\r\n")
        await peer.send(OK)

    stood_at: list[int] = []
    async with (
        stand(script) as (client, frontend),
        client.send(frontend.origin, POST, Streamed(source())) as response,
    ):
        assert await body_of(response) == b"ok"
    assert stood_at[0] < 16 << 20  # the sockets' buffers and one more
    assert given == 64 << 20


async def test_a_reply_before_the_end_of_the_upload_is_given_at_once_and_the_connection_not_used_again() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
        await peer.left()

    async with stand(script) as (client, frontend):
        async with client.send(frontend.origin, POST, Streamed(endless())) as response:
            assert (response.status, await body_of(response)) == (503, b"busy")
        assert client.counts().idle == 0
        assert "upload" not in {getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks()}


async def test_a_reply_to_a_body_that_is_still_in_the_buffers_gives_no_connection_back() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await peer.left()

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin, POST, b"x" * (32 << 20)) == (200, b"ok")
        assert client.counts().idle == 0


async def test_the_body_waits_for_100_continue() -> None:
    async def script(peer: Peer) -> None:
        assert (await peer.head()).endswith(b"\r\nExpect: 100-continue\r\n\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await peer.receive(1)
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await peer.receive(4) == b"body"
        await peer.send(OK)

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin, EXPECTING, b"body") == (200, b"ok")


async def test_the_body_is_kept_back_where_a_final_reply_comes_instead_of_100_continue() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        assert await peer.left() == 0

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin, EXPECTING, b"body") == (413, b"")
        assert client.counts().idle == 0


async def test_the_body_goes_out_after_a_while_where_the_upstream_says_nothing() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        assert await peer.receive(4) == b"body"
        await peer.send(OK)

    async with stand(script, Limits(continue_secs=0.05)) as (client, frontend):
        assert await ask(client, frontend.origin, EXPECTING, b"body") == (200, b"ok")


async def test_an_upstream_that_dies_in_an_upload_is_a_failure_of_the_upstream() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.receive(1 << 20)
        peer.reset()

    async with stand(script) as (client, frontend):
        with pytest.raises(UpstreamFailed) as caught:
            await client.send(frontend.origin, POST, Streamed(endless())).__aenter__()
        assert caught.value.cause is Cause.NO_REPLY


@pytest.mark.parametrize(
    "head",
    [
        RequestHead(b"GET", b"/ HTTP/1.1\r\nX: y"),
        RequestHead(b"GET", b"/a b"),
        RequestHead(b"GET", b""),
        RequestHead(b"G T", b"/"),
        RequestHead(b"GET", b"/", ((b"A", b"b\r\nX: y"),)),
        RequestHead(b"GET", b"/", ((b"A\n", b"b"),)),
        RequestHead(b"GET", b"/", ((b"A", b"b\0"),)),
        RequestHead(b"POST", b"/", ((b"content-LENGTH", b"5"),)),
        RequestHead(b"POST", b"/", ((b"Transfer-Encoding", b"chunked"),)),
        RequestHead(b"GET", b"/", ((b"Host", b"x"),)),
        RequestHead(b"GET", b"/", ((b"Connection", b"x"),)),
    ],
    ids=str,
)
async def test_a_head_that_would_say_something_else_is_not_sent(head: RequestHead) -> None:
    async with stand(replying()) as (client, frontend):
        with pytest.raises(Unsendable):
            await ask(client, frontend.origin, head)
        assert client.counts().established == 0
        assert frontend.peers == []


async def test_an_unsendable_head_holds_no_place() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await peer.left()

    async with stand(script) as (client, frontend):
        for _ in range(3):
            with pytest.raises(Unsendable):
                await ask(client, frontend.origin, RequestHead(b"", b"/"))
        assert await ask(client, frontend.origin, GET) == (200, b"ok")


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536


async def test_an_upstream_that_takes_nothing_of_a_body_for_too_long_has_failed() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await failed.wait()

    failed = asyncio.Event()
    async with stand(script, Limits(stall_secs=0.05)) as (client, frontend):
        with pytest.raises(UpstreamFailed, match="took nothing") as caught:
            await client.send(frontend.origin, POST, Streamed(endless())).__aenter__()
        failed.set()
        assert caught.value.cause is Cause.SILENT


async def test_an_upstream_that_takes_a_body_slowly_has_not() -> None:
    """All of it takes longer than one stall may."""

    async def script(peer: Peer) -> None:
        await peer.head()
        for _ in range(8):
            await peer.receive(1 << 20)
            await asyncio.sleep(0.05)
        await peer.send(OK)
        await peer.left()

    async with (
        stand(script, Limits(stall_secs=0.2)) as (client, frontend),
        client.send(frontend.origin, POST, Streamed(endless())) as response,
    ):
        assert response.status == 200
