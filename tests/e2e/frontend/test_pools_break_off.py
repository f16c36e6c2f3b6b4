"""A pool that breaks off: the caller gets an aborted transfer or a 502, and nothing is generated a second time."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.e2e.frontend.calling import ASK, LAST_CHUNK, ask, calling, chunk, head, request, rest, samples, until_sample
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer, Script

pytestmark = pytest.mark.loops("asyncio")

IN_FLIGHT = 'gdsvc_frontend_in_flight{pool="a"}'
BY_UPSTREAM = 'gdsvc_frontend_aborted_total{by="upstream"}'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Act = Callable[[Peer], Awaitable[None]]


async def says(peer: Peer, *parts: bytes) -> None:
    """One after the other, each in a segment of its own as far as that can be had."""
    for part in parts:
        await peer.send(part)
        await asyncio.sleep(0.01)


EVENT = chunk(b"data: {}\n\n")


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((STREAM, EVENT, EVENT, EVENT), id="a stream after three chunks"),
        pytest.param((STREAM + EVENT * 3,), id="a stream that came at once"),
        pytest.param((STREAM,), id="a stream before its first chunk"),
        pytest.param((CHUNKED, chunk(b"{")), id="a reply in chunks"),
        pytest.param((SHORT,), id="a reply shorter than its length"),
    ],
)
async def test_a_reply_that_broke_off_never_looks_whole(
    proxy: Service, door: socket.socket, parts: tuple[bytes, ...], how: str
) -> None:
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        await peer.receive_until(ASK)
        asked += 1
        await says(peer, *parts)
        getattr(peer, how)()

    before = await samples(proxy)
    async with Frontend(script, listener=door), calling(proxy.port, request(ASK, b"Connection: close")) as caller:
        answer = await rest(caller)
    fields, _, body = answer.partition(b"\r\n\r\n")
    assert fields.startswith(b"HTTP/1.1 200 ")
    assert not answer.endswith(LAST_CHUNK)
    assert b"content-length" not in fields or b"content-length: 100" in fields
    if how == "close" and parts[-1].endswith(EVENT):
        assert body.count(b"data: {}\n\n") == 3
    assert asked == 1
    await until_sample(proxy, BY_UPSTREAM, before[BY_UPSTREAM] + 1)
    await until_sample(proxy, IN_FLIGHT, 0)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "broken off"])
async def test_a_caller_of_http_1_0_can_tell_a_stream_that_broke_off(
    proxy: Service, door: socket.socket, whole: bool
) -> None:
    """For it, and so for nginx by default, a body ends with the connection; by a reset where it is not whole."""

    async def script(peer: Peer) -> None:
        await peer.receive_until(ASK)
        await says(peer, STREAM, EVENT, LAST_CHUNK if whole else b"")

    old = request().replace(b"HTTP/1.1", b"HTTP/1.0")
    async with Frontend(script, listener=door), calling(proxy.port, old) as caller:
        with pytest.raises(EOFError if whole else ConnectionResetError):
            await caller.receive_until(b"never")


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_head_alone_is_said_to_be_no_answer(proxy: Service, door: socket.socket, how: str) -> None:
    """The caller has seen nothing of it yet."""

    async def script(peer: Peer) -> None:
        await peer.receive_until(ASK)
        await says(peer, SHORT[:-1])
        getattr(peer, how)()

    before = await samples(proxy)
    async with Frontend(script, listener=door) as pool:
        status, answer = await ask(proxy.port, request())
        assert len(pool.peers) == 1
    assert status == 502
    assert b'"code":"upstream_failed"' in answer
    await until_sample(proxy, IN_FLIGHT, 0)
    assert (await samples(proxy))[BY_UPSTREAM] == before[BY_UPSTREAM]


async def test_a_body_that_ends_with_its_connection_is_whole(proxy: Service, door: socket.socket) -> None:
    """What has neither a length nor chunks has no other end (RFC 9112 section 6.3)."""

    async def script(peer: Peer) -> None:
        await peer.receive_until(ASK)
        await says(peer, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"data: {}\n\n")

    async with Frontend(script, listener=door), calling(proxy.port, request()) as caller:
        assert (await caller.receive_until(LAST_CHUNK)).lower().endswith(EVENT + LAST_CHUNK)


# ------------------------------------------------------------------------------- before a reply


def first_then(*, warm: bool, act: Act) -> tuple[Script, list[int]]:
    """A pool whose first connection does `act` with a request, having answered one before where it is `warm`.

    Every later connection answers. The list has, for each whole request that was received, its connection's number.
    """
    received = list[int]()

    async def script(peer: Peer) -> None:
        if peer.number == 0:
            if warm:
                await peer.receive_until(ASK)
                await peer.send(OK)
            await act(peer)
            return
        await peer.receive_until(ASK)
        received.append(peer.number)
        await says(peer, OK)

    return script, received


async def close_after_reading(peer: Peer) -> None:
    await peer.receive_until(ASK)
    peer.close()


async def reset_after_reading(peer: Peer) -> None:
    await peer.receive_until(ASK)
    peer.reset()


async def reset_unread(peer: Peer) -> None:
    """Closes with the request unread, which the kernel turns into a reset."""
    await peer.readable()
    peer.close()


async def garbage(peer: Peer) -> None:
    await peer.receive_until(ASK)
    await says(peer, b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def half_a_head(peer: Peer) -> None:
    await peer.receive_until(ASK)
    await says(peer, b"HTTP/1.1 20")
    peer.reset()


AGAIN, GIVEN_UP = 200, 502


@pytest.mark.parametrize(
    ("warm", "act", "outcome"),
    [
        pytest.param(False, close_after_reading, (GIVEN_UP, "no_reply"), id="fresh, ended"),
        pytest.param(False, reset_after_reading, (GIVEN_UP, "no_reply"), id="fresh, reset"),
        pytest.param(False, reset_unread, (GIVEN_UP, "no_reply"), id="fresh, reset without reading"),
        pytest.param(True, close_after_reading, (GIVEN_UP, "no_reply"), id="reused, ended after reading"),
        pytest.param(True, reset_unread, (AGAIN, "reset|unread"), id="reused, reset without reading"),
        pytest.param(
            True, reset_after_reading, (AGAIN, "reset|unread"), id="reused, reset after reading: a sign, no proof"
        ),
        pytest.param(True, half_a_head, (GIVEN_UP, "broken_off"), id="reused, within a head"),
        pytest.param(True, garbage, (GIVEN_UP, "malformed"), id="reused, no HTTP"),
        pytest.param(False, garbage, (GIVEN_UP, "malformed"), id="fresh, no HTTP"),
    ],
)
async def test_only_what_nobody_read_is_sent_again(
    proxy: Service, door: socket.socket, warm: bool, act: Act, outcome: tuple[int, str]
) -> None:
    status, cause = outcome
    script, received = first_then(warm=warm, act=act)
    before = await samples(proxy)
    async with Frontend(script, listener=door):
        if warm:
            assert (await ask(proxy.port, request()))[0] == 200
        assert (await ask(proxy.port, request()))[0] == status
    assert len(received) == (status == AGAIN)
    after = await samples(proxy)

    def risen(*names: str) -> float:
        return sum(after.get(name, 0) - before.get(name, 0) for name in names)

    causes = cause.split("|")
    assert risen(*(f'gdsvc_frontend_retries_total{{cause="{each}"}}' for each in causes)) == (status == AGAIN)
    outcomes = (f'gdsvc_frontend_upstream_connections_total{{outcome="{each}",pool="a"}}' for each in causes)
    assert risen(*outcomes) == 1
    assert risen(BY_UPSTREAM) == 0


async def test_a_large_body_is_sent_again_where_its_kept_connection_is_reset(
    proxy: Service, door: socket.socket
) -> None:
    """Of a reset within an upload a write may be told first, and what is read then is an end like any other."""
    large = b'{"model":"m","p":"' + b"x" * (6 << 20) + b'"}'

    async def script(peer: Peer) -> None:
        if peer.number % 2:
            await peer.receive_until(b'"}')
            await peer.send(OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            return
        await peer.receive_until(ASK)
        await peer.send(OK)
        await peer.readable()
        peer.reset()

    async with Frontend(script, listener=door) as frontend:
        for _ in range(10):
            assert (await ask(proxy.port, request()))[0] == 200
            assert (await ask(proxy.port, request(large)))[0] == 200
        assert len(frontend.peers) == 20


async def test_a_body_that_is_not_in_hand_is_not_sent_again(proxy: Service, door: socket.socket) -> None:
    """Of one so long only a part is held."""
    part = b'{"model":"m","p":"' + b"x" * (9 << 20)

    async def script(peer: Peer) -> None:
        if peer.number:
            raise AssertionError(await peer.head())
        await peer.receive_until(ASK)
        await peer.send(OK)
        await peer.readable()
        peer.reset()

    async with Frontend(script, listener=door):
        assert (await ask(proxy.port, request()))[0] == 200
        async with calling(proxy.port, head(b"Content-Length: %d" % (len(part) + 2)) + part) as caller:
            assert (await caller.head()).startswith(b"HTTP/1.1 502 ")
