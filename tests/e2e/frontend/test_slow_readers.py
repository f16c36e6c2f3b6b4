"""A caller that does not read: the pool cannot send, and nothing piles up in between."""

import asyncio
import socket

import pytest

from tests.e2e.frontend.calling import ASK, LAST_CHUNK, calling, chunk, request, until_sample
from tests.e2e.memory import MIB, Memory
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

WHOLE = 64 * MIB
KERNEL = 32 * MIB  # two connections have four buffers, of 4 and 6 MiB each at most
GROWTH = 6 * MIB
STALLED_SECS = 0.5  # without a byte sent


@pytest.mark.parametrize("kind", [b"text/event-stream", pytest.param(b"application/json", marks=pytest.mark.load)])
async def test_the_pool_is_not_read_while_the_caller_does_not_read(
    proxy: Service, door: socket.socket, kind: bytes
) -> None:
    part = b"x" * (MIB // 4)
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.receive_until(ASK)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind)
        for _ in range(WHOLE // len(part)):
            await peer.send(chunk(part))
            sent += len(part)
        await peer.send(LAST_CHUNK)

    memory = Memory(proxy)
    async with Frontend(script, listener=door), calling(proxy.port, request()) as caller:
        await caller.head()
        before = -1
        while before < sent:
            before = sent
            await asyncio.sleep(STALLED_SECS)
        assert sent < KERNEL
        assert memory.peak_growth() < GROWTH
        received, tail = 0, b""
        while not tail.endswith(LAST_CHUNK):
            data = await caller.receive_some()
            received += data.count(b"x")
            tail = (tail + data)[-len(LAST_CHUNK) :]
    assert received == WHOLE
    assert memory.peak_growth() < GROWTH
    await until_sample(proxy, 'gdsvc_frontend_in_flight{pool="a"}', 0)
