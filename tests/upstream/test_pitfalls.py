"""What hurts users of proxies: stale connections, callers that leave at any moment, replies that nobody reads."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from gdsvc.frontend.upstream import Client, Origin, Streamed, UpstreamFailed
from tests.upstream.scripted import GET, OK, POST, Peer, ask, body_of, stand


async def ask_with_one_repetition(client: Client, origin: Origin, body: bytes) -> bool:
    """What the proxy does about a failure; says whether it had to."""
    try:
        assert await ask(client, origin, POST, body) == (200, b"ok")
    except UpstreamFailed as failure:
        if not failure.cause.may_be_repeated:
            raise
        async with client.send(origin, POST, body, fresh=True) as response:
            assert await body_of(response) == b"ok"
        return True
    return False


async def test_an_upstream_that_closes_right_after_its_replies_loses_no_request_and_reads_none_twice() -> None:
    random.seed(23)
    read: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.head()
        read.append(await peer.receive(6))
        await peer.send(OK)
        for _ in range(random.randrange(3)):
            await asyncio.sleep(0)

    async with stand(script) as (client, frontend):
        repeated = 0
        for number in range(400):
            repeated += await ask_with_one_repetition(client, frontend.origin, b"%06d" % number)
            for _ in range(random.randrange(3)):
                await asyncio.sleep(0)
    assert read == [b"%06d" % number for number in range(400)]
    assert repeated > 20  # the race was met


async def test_callers_that_leave_at_any_moment_leave_nothing_behind() -> None:
    random.seed(24)

    async def script(peer: Peer) -> None:
        with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
            while True:
                head = await peer.head()
                if b"chunked" in head:
                    await peer.receive_until(b"\r\n0\r\n\r\n")
                await asyncio.sleep(0)
                await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(5):
                    await peer.send(b"2\r\nok\r\n")
                    await asyncio.sleep(0)
                await peer.send(b"0\r\n\r\n")

    async def source() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 1000
            await asyncio.sleep(0)

    async def exchange(number: int) -> None:
        body = Streamed(source()) if number % 2 else b""
        async with client.send(frontend.origin, POST if number % 2 else GET, body) as response:
            assert await body_of(response) == b"okokokokok"

    async with stand(script) as (client, frontend):
        tasks = []
        for number in range(200):
            tasks.append(asyncio.create_task(exchange(number)))
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            random.choice(tasks[-8:]).cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        left = sum(isinstance(result, asyncio.CancelledError) for result in results)
        assert left > 50
        assert results.count(None) == 200 - left  # nobody was hurt by another's leaving
        assert sum(client.counts().failed.values()) == 0


async def test_an_upstream_is_not_read_while_nobody_reads_its_reply() -> None:
    size = 48 << 20
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            await peer.send(b"x" * (1 << 18))
            sent += 1 << 18

    async with stand(script) as (client, frontend), client.send(frontend.origin, GET) as response:
        stood_at = -1
        while sent != stood_at:  # until the upstream stands still
            stood_at = sent
            await asyncio.sleep(0.05)
        assert stood_at < 16 << 20  # the sockets' buffers and one more
        got = 0
        while part := await response.read():
            got += len(part)
        assert got == size


@pytest.mark.loops("uvloop")
async def test_five_hundred_streams_at_once_pass() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        waiting.append(peer)
        if len(waiting) == 500:
            all_there.set()
        await all_there.wait()
        await peer.send(b"ok")

    waiting: list[Peer] = []
    all_there = asyncio.Event()
    async with stand(script) as (client, frontend):
        assert await asyncio.gather(*(ask(client, frontend.origin) for _ in range(500))) == [(200, b"ok")] * 500
