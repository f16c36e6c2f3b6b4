"""SIGTERM: readiness fails, streams end within the grace, and what is left then is cut and counted."""

import asyncio
import signal
import socket
import time

import pytest

from tests.e2e.frontend.calling import FRONTEND, LAST_CHUNK, calling, chunk, request, rest, until
from tests.e2e.process import Serve, Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

GRACE = 2
SHUTTING_DOWN = {"ready": False, "reasons": ["shutting down"]}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS, ENDING, SILENT = b'{"model":"endless"}', b'{"model":"ending"}', b'{"model":"silent"}'


async def pool(peer: Peer) -> None:
    """Streams for ever, streams for half the grace, or says nothing, as the model says."""
    asked = await peer.receive_until(b'"}')
    if SILENT in asked:
        await peer.left()
        return
    await peer.send(STREAM)
    for _ in range(5 if ENDING in asked else 10_000):
        try:
            await peer.send(chunk(b"data: {}\n\n"))
        except (BrokenPipeError, ConnectionResetError):
            return
        await asyncio.sleep(GRACE / 10)
    await peer.send(LAST_CHUNK)


async def start(serve: Serve, door: socket.socket) -> Service:
    flags = f"--pool=a=http://127.0.0.1:{door.getsockname()[1]}", f"--shutdown-grace-secs={GRACE}"
    return await asyncio.to_thread(serve, *flags, command=FRONTEND)


async def test_streams_end_within_the_grace_and_the_rest_is_cut(serve: Serve, door: socket.socket) -> None:
    service = await start(serve, door)
    async with (
        Frontend(pool, listener=door),
        calling(service.port, request(ENDLESS)) as endless,
        calling(service.port, request(ENDING)) as ending,
        calling(service.port, request(SILENT)) as silent,
    ):
        await endless.receive_until(b"data")
        await ending.receive_until(b"data")
        told_at = time.monotonic()
        service.send_signal(signal.SIGTERM)

        async def told() -> bool:
            return bool((await asyncio.to_thread(service.get, "/ready")).json() == SHUTTING_DOWN)

        await until(told)
        assert (await rest(ending)).endswith(LAST_CHUNK)
        assert not (await rest(endless)).endswith(LAST_CHUNK)
        answer = await rest(silent)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"shutting_down"' in answer
        await asyncio.to_thread(service.wait)
        assert time.monotonic() - told_at < GRACE + 0.5
    (killed,) = [event for event in service.events if event["event"] == "service.killed"]
    assert killed["cut"] == 2


@pytest.mark.load
async def test_a_second_signal_ends_it_at_once(serve: Serve, door: socket.socket) -> None:
    service = await start(serve, door)
    async with Frontend(pool, listener=door), calling(service.port, request(ENDLESS)) as caller:
        await caller.receive_until(b"data")
        service.send_signal(signal.SIGTERM)

        async def heard() -> bool:
            return "service.stopping" in service.log

        await until(heard)
        told_at = time.monotonic()
        service.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(service.wait) == 1
        assert time.monotonic() - told_at < 0.5
        assert not (await rest(caller)).endswith(LAST_CHUNK)
