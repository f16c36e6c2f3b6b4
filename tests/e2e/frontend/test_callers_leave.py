"""A caller that leaves, in every window of a request: the pool sees the end of its connection within a second."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.asgi.test_tls import Authority
from tests.e2e.frontend.calling import ASK, FRONTEND, calling, chunk, head, request, samples, until_sample
from tests.e2e.process import Serve, Service
from tests.upstream.scripted import Frontend, Peer, Script

pytestmark = pytest.mark.loops("asyncio")

SEEN_SECS = 1.0  # from the caller's leaving to the end of the pool's connection
HELD = 8 << 20  # bytes of a body that are collected before the request goes on
BIG = b'{"model":"m","p":"' + b"x" * (HELD + (1 << 20))  # what a caller has sent of a longer one
IN_FLIGHT = 'gdsvc_frontend_in_flight{pool="a"}'
BY_CALLER = 'gdsvc_frontend_aborted_total{by="caller"}'

Leave = Callable[[Peer], None]


class Watched:
    """Runs a script, then waits for the frontend to close. `ready` is set when the script is through."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.ready = asyncio.Event()
        self.closed = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await self._script(peer)
        self.ready.set()
        await peer.left()
        self.closed.set()


@asynccontextmanager
async def pool(door: socket.socket, script: Script) -> AsyncIterator[Watched]:
    """A pool that runs the script for one request, and what became of it."""
    watched = Watched(script)
    async with Frontend(watched, listener=door):
        yield watched


@pytest.fixture(params=["reset", "close"])
def leave(request: pytest.FixtureRequest) -> Leave:
    """How the caller leaves: killed, or by a proper end of the stream."""
    how: Leave = getattr(Peer, request.param)
    return how


async def seen(proxy: Service, watched: Watched, before: dict[str, float]) -> None:
    """The pool has seen the caller's leaving in time; it is counted once, and nothing is in flight."""
    async with asyncio.timeout(SEEN_SECS):
        await watched.closed.wait()
    await settled(proxy, before)


async def settled(proxy: Service, before: dict[str, float]) -> None:
    await until_sample(proxy, BY_CALLER, before[BY_CALLER] + 1)
    await until_sample(proxy, IN_FLIGHT, 0)


async def test_a_caller_that_has_read_done_and_leaves_has_broken_nothing_off(
    proxy: Service, door: socket.socket, leave: Leave
) -> None:
    """OpenAI's own client does not wait for the end of the body."""
    whole = 'gdsvc_frontend_requests_total{pool="a",route="/v1/chat/completions",status="200"}'

    async def script(peer: Peer) -> None:
        await begun(peer)
        await peer.send(chunk(b"data: {}\n\n") + chunk(b"data: [DONE]\n\n"))

    before = await samples(proxy)
    async with pool(door, script) as watched, calling(proxy.port, request()) as caller:
        await caller.receive_until(b"[DONE]")
        leave(caller)
        async with asyncio.timeout(SEEN_SECS):
            await watched.closed.wait()
    await until_sample(proxy, whole, before.get(whole, 0) + 1)
    assert (await samples(proxy))[BY_CALLER] == before[BY_CALLER]


@pytest.mark.parametrize("framing", [b"Content-Length: %d" % (len(BIG) + 1000), b"Transfer-Encoding: chunked"])
async def test_while_it_uploads(proxy: Service, door: socket.socket, leave: Leave, framing: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.receive(len(BIG))

    before = await samples(proxy)
    body = chunk(BIG) if b"chunked" in framing else BIG
    async with pool(door, script) as watched, calling(proxy.port, head(framing) + body) as caller:
        await watched.ready.wait()
        leave(caller)
        await seen(proxy, watched, before)


@pytest.mark.parametrize("sent", [head(b"Content-Length: 99") + ASK, head(b"Transfer-Encoding: chunked") + chunk(ASK)])
async def test_a_request_that_never_came_whole_reaches_no_pool(
    proxy: Service, door: socket.socket, leave: Leave, sent: bytes
) -> None:
    before = await samples(proxy)

    async def unexpected(peer: Peer) -> None:
        raise AssertionError(await peer.head())

    async with Frontend(unexpected, listener=door), calling(proxy.port, sent) as caller:
        await asyncio.sleep(0.05)
        leave(caller)
        await settled(proxy, before)


async def asked(peer: Peer) -> None:
    await peer.receive_until(ASK)


async def begun(peer: Peer) -> None:
    await asked(peer)
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")


async def streaming(peer: Peer) -> None:
    await begun(peer)
    for _ in range(3):
        await peer.send(chunk(b"data: {}\n\n"))


async def in_one(peer: Peer) -> None:
    await asked(peer)
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n" + b"{" * 99)


async def head_alone(peer: Peer) -> None:
    await asked(peer)
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "received"),
    [
        pytest.param(asked, b"", id="before headers"),
        pytest.param(begun, b"\r\n\r\n", id="between headers and body of a stream"),
        pytest.param(streaming, b"data: {}\n\n\r\n", id="mid-stream"),
        pytest.param(head_alone, b"", id="between headers and body of one reply"),
        pytest.param(in_one, b"{{{", id="within one reply"),
    ],
)
async def test_while_it_waits(
    proxy: Service, door: socket.socket, leave: Leave, script: Script, received: bytes
) -> None:
    before = await samples(proxy)
    async with pool(door, script) as watched, calling(proxy.port, request()) as caller:
        await watched.ready.wait()
        if received:
            await caller.receive_until(received)
        leave(caller)
        await seen(proxy, watched, before)


@pytest.mark.load
async def test_while_the_pool_does_not_take_its_upload_and_the_pool_reads_on(
    proxy: Service, door: socket.socket, leave: Leave
) -> None:
    """Behind a full window no end can be seen, of the caller's stream here or of ours there, until the pool reads."""
    stalled, left = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        stalled.set()
        await left.wait()

    before = await samples(proxy)
    async with pool(door, script) as watched, calling(proxy.port, head(b"Content-Length: %d" % (64 << 20))) as caller:
        uploading = asyncio.create_task(caller.send(b'{"model":"m"' + b" " * (60 << 20)))
        await stalled.wait()
        done, _ = await asyncio.wait((uploading,), timeout=0.5)
        assert not done
        uploading.cancel()
        await asyncio.wait((uploading,))
        leave(caller)
        left.set()
        await seen(proxy, watched, before)


@pytest.mark.parametrize("behind", [b"", b"\r\n"], ids=["nothing behind its request", "bytes behind it"])
async def test_who_ends_its_side_and_still_reads_has_left(proxy: Service, door: socket.socket, behind: bytes) -> None:
    before = await samples(proxy)
    async with pool(door, asked) as watched, calling(proxy.port, request() + behind) as caller:
        await watched.ready.wait()
        caller.end()
        await seen(proxy, watched, before)


async def held(peer: Peer) -> None:
    """Takes a request, and demands that whoever sent it is seen to leave in time."""
    await asked(peer)
    async with asyncio.timeout(SEEN_SECS):
        await peer.left()


@pytest.mark.parametrize("behind", [b"\r\n", request()], ids=["an empty line", "a second request"])
async def test_with_bytes_sent_behind_its_request(
    proxy: Service, door: socket.socket, leave: Leave, behind: bytes
) -> None:
    """The server reads no further than to those bytes."""
    before = await samples(proxy)
    async with Frontend(held, listener=door), calling(proxy.port, request() + behind) as caller:
        await asyncio.sleep(0.2)  # longer than it takes to ask whether a caller is there
        leave(caller)
        await settled(proxy, before)


async def test_who_waits_for_longer_with_bytes_behind_its_request_is_answered_both(
    proxy: Service, door: socket.socket
) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(2):
            await asked(peer)
            await asyncio.sleep(SEEN_SECS / 2)
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with Frontend(script, listener=door), calling(proxy.port, request() * 2) as caller:
        for _ in range(2):
            assert (await caller.receive_until(b"{}")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.load
async def test_over_tls_and_ipv6_with_bytes_sent_behind_its_request(
    serve: Serve, door: socket.socket, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ca")
    cert, key = authority.sign("server", "localhost")
    trust = ssl.create_default_context(cafile=authority.path)
    flags = (f"--pool=a=http://127.0.0.1:{door.getsockname()[1]}", f"--tls-cert-path={cert}", f"--tls-key-path={key}")
    proxy = await asyncio.to_thread(serve, "--listen", "[::]:0", *flags, command=FRONTEND, tls=trust)
    async with Frontend(held, listener=door):
        _, caller = await asyncio.open_connection("::1", proxy.port, ssl=trust, server_hostname="localhost")
        caller.write(request() * 2)
        await until_sample(proxy, IN_FLIGHT, 1)
        caller.transport.abort()
        await until_sample(proxy, IN_FLIGHT, 0)
