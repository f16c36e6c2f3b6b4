"""Many streams at one time, and one that is silent for longer than anything in the frontend waits."""

import asyncio
import os
import socket
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.frontend.calling import ASK, FRONTEND, LAST_CHUNK, chunk, head, request, samples, until_sample
from tests.e2e.frontend.soak.steady_load import Caller
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.test_crowds import many_files
from tests.upstream.scripted import Frontend, Peer

__all__ = ["many_files"]  # the fixture

STREAMS: Final = 500
CHUNKS: Final = 40
GAP_SECS: Final = 0.1
SILENT_SECS: Final = float(os.environ.get("GDSVC_STREAM_SECS", "15"))
HURRIED: Final = (sys.executable, "-W", "error", str(Path(__file__).with_name("hurried_frontend.py")))
STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
IN_FLIGHT: Final = 'gdsvc_frontend_in_flight{pool="a"}'

pytestmark = [pytest.mark.soak, pytest.mark.loops("asyncio")]


def numbered(stream: int, number: int) -> bytes:
    return b"data: %d of stream %d\n\n" % (number, stream)


@pytest.mark.usefixtures("many_files")
async def test_500_streams_at_one_time_have_all_their_chunks_in_order(
    proxy: Service, door: socket.socket, tell: Tell
) -> None:
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        asked = await peer.receive_until(ASK)
        stream = int(asked.lower().partition(b"x-stream: ")[2].partition(b"\r\n")[0])
        await peer.send(STREAM + chunk(numbered(stream, 0)))
        await go_on.wait()
        for number in range(1, CHUNKS):
            await peer.send(chunk(numbered(stream, number)))
            await asyncio.sleep(GAP_SECS)
        await peer.send(LAST_CHUNK)

    async def call(stream: int) -> bytes:
        caller = await Caller.connect(proxy.port)
        try:
            return (await caller.ask(request(ASK, b"X-Stream: %d" % stream))).body
        finally:
            caller.close()

    async with Frontend(script, listener=door), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(call(stream)) for stream in range(STREAMS)]
        await until_sample(proxy, IN_FLIGHT, STREAMS)
        go_on.set()
        began_at = time.monotonic()
        await asyncio.sleep(CHUNKS * GAP_SECS / 2)
        assert (await samples(proxy))[IN_FLIGHT] == STREAMS
        answers = await asyncio.gather(*calls)
        took = time.monotonic() - began_at
        tell(f"{STREAMS} streams of {CHUNKS} chunks took {took:.1f} s; at the pool's pace {CHUNKS * GAP_SECS:.1f} s")
    for stream, answer in enumerate(answers):
        assert answer == b"".join(numbered(stream, number) for number in range(CHUNKS)), stream
    await until_sample(proxy, IN_FLIGHT, 0)


@pytest.mark.timeout(SILENT_SECS + 60)
async def test_a_stream_outlives_all_that_the_frontend_waits_for(serve: Serve, door: socket.socket, tell: Tell) -> None:
    """One whose timeouts are all shorter than the stream is silent, and one as it is shipped, which takes 400 s."""

    async def script(peer: Peer) -> None:
        await peer.receive_until(ASK)
        await peer.send(STREAM + chunk(b"data: first\n\n"))
        await asyncio.sleep(SILENT_SECS)
        await peer.send(chunk(b"data: last\n\n") + LAST_CHUNK)

    async def call(front: Service) -> float:
        began_at = time.monotonic()
        caller = await Caller.connect(front.port)
        try:
            answer = await caller.ask(request())
        finally:
            caller.close()
        assert answer == (200, b"data: first\n\ndata: last\n\n")
        return time.monotonic() - began_at

    async def is_hurried(front: Service) -> None:
        """What nobody should wait for it does not wait for: a body that does not come."""
        caller = await Caller.connect(front.port)
        try:
            assert (await caller.ask(head(b"Content-Length: 99") + ASK)).status == 408
        finally:
            caller.close()

    pool = f"--pool=a=http://127.0.0.1:{door.getsockname()[1]}"
    fronts = [await asyncio.to_thread(serve, pool, command=command) for command in (HURRIED, FRONTEND)]
    async with Frontend(script, listener=door), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(call(front)) for front in fronts]
        tasks.create_task(is_hurried(fronts[0]))
        for front, took in zip(fronts, await asyncio.gather(*calls), strict=True):
            tell(f"silent for {SILENT_SECS:g} s, whole after {took:.1f} s")
            assert took >= SILENT_SECS
            await until_sample(front, IN_FLIGHT, 0)
