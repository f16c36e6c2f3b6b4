"""Requests and replies with bytes changed, lost and put in, cut anywhere: nothing of them is left, and no traceback."""

import asyncio
import itertools
import random
import socket
from contextlib import suppress

import pytest

from tests.e2e.frontend.calling import ASK, LAST_CHUNK, ask, calling, chunk, head, request, samples, until
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

AT_ONCE = 40
CHUNKED = head(b"Transfer-Encoding: chunked") + chunk(ASK) + LAST_CHUNK
REQUESTS = (
    request(),
    CHUNKED,
    request(ASK, b"Connection: close", b"X-Forwarded-For: 1.2.3.4"),
    request(ASK, b"Expect: 100-continue"),
    request().replace(b"HTTP/1.1", b"HTTP/1.0"),
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
REPLIES = (
    OK,
    STREAM + chunk(b"data: {}\n\n") * 5 + LAST_CHUNK,
    b"HTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
    b"HTTP/1.1 204 X\r\n\r\n",
)
WORDS = (
    *(b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\xff", b";x", b"ffffffff", b"HTTP/1.1", LAST_CHUNK),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Connection: close\r\n", b"Connection: host\r\n"),
)


class Garbler:
    """Spoils bytes, the same way each time for one seed."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)

    def parts(self, data: bytes) -> tuple[bytes, bytes]:
        """The data, spoilt up to three times and cut in two."""
        spoilt = bytearray(data)
        for _ in range(self.choose.choice((0, 1, 1, 1, 2, 3))):
            self._spoil(spoilt)
        at = self.choose.randrange(len(spoilt) + 1)
        return bytes(spoilt[:at]), bytes(spoilt[at:])

    def _spoil(self, data: bytearray) -> None:
        at = self.choose.randrange(len(data) + 1)
        match self.choose.randrange(4):
            case 0:
                data[at : at + 1] = self.choose.randbytes(1)
            case 1:
                data[at:at] = self.choose.choice(WORDS)
            case 2:
                del data[at : at + self.choose.randrange(1, 8)]
            case _:
                del data[at:]


@pytest.mark.load
@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_bytes_come_from_either_side_nothing_is_left_of_them(
    proxy: Service, door: socket.socket, seed: int
) -> None:
    garbler, numbers = Garbler(seed), itertools.count()
    is_over = False

    async def script(peer: Peer) -> None:
        with suppress(EOFError, OSError, TimeoutError):
            while True:
                async with asyncio.timeout(1.0):
                    await peer.receive_some()
                for part in (OK,) if is_over else garbler.parts(garbler.choose.choice(REPLIES)):
                    await peer.send(part)
                if garbler.choose.random() < 0.3 and not is_over:
                    peer.reset()
                    return

    async def call_some() -> None:
        while next(numbers) < 1000:
            with suppress(EOFError, OSError):
                async with calling(proxy.port) as caller:
                    for part in garbler.parts(garbler.choose.choice(REQUESTS)):
                        await caller.send(part)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(garbler.choose.choice((0.01, 0.1))):
                            while True:
                                await caller.receive_some()

    async def is_quiet() -> bool:
        now = await samples(proxy)
        return now['gdsvc_frontend_in_flight{pool="a"}'] == now['gdsvc_frontend_connections{state="busy"}'] == 0

    async with Frontend(script, listener=door):
        async with asyncio.TaskGroup() as callers:
            for _ in range(AT_ONCE):
                callers.create_task(call_some())
        is_over = True
        await until(is_quiet)
        assert (await ask(proxy.port, request()))[0] == 200
