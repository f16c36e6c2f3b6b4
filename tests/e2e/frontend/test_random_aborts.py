"""Callers that leave at random instants, in great numbers: nothing of them is left behind."""

import asyncio
import itertools
import random
import socket
from contextlib import suppress

import pytest

from tests.e2e.frontend.calling import ASK, LAST_CHUNK, calling, chunk, head, request, samples, until
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

AT_ONCE = 50
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SENT = (
    request(),
    request() + b"\r\n",
    head(b"Content-Length: 99") + ASK,
    head(b"Transfer-Encoding: chunked") + chunk(ASK),
)


@pytest.mark.parametrize("aborts", [300, pytest.param(10_000, marks=pytest.mark.load)])
async def test_nothing_is_left_of_callers_that_left(proxy: Service, door: socket.socket, aborts: int) -> None:
    choose = random.Random(aborts)

    async def script(peer: Peer) -> None:
        try:
            while True:
                await peer.receive_until(ASK)
                await asyncio.sleep(choose.choice((0.0, 0.01, 0.05)))
                if choose.random() < 0.3:
                    await peer.send(WHOLE)
                    continue
                await peer.send(STREAM)
                for _ in range(choose.randrange(20)):
                    await peer.send(chunk(b"data: {}\n\n"))
                    await asyncio.sleep(0.005)
                await peer.send(LAST_CHUNK)
        except (EOFError, OSError):
            return

    async def abort_some(numbers: "itertools.count[int]") -> None:
        while next(numbers) < aborts:
            async with calling(proxy.port, choose.choice(SENT)) as caller:
                await asyncio.sleep(choose.choice((0.0, 0.001, 0.01, 0.1)) * choose.random())
                if choose.random() < 0.5:
                    caller.reset()

    async def is_quiet() -> bool:
        now = await samples(proxy)
        return now['gdsvc_frontend_in_flight{pool="a"}'] == now['gdsvc_frontend_connections{state="busy"}'] == 0

    numbers = itertools.count()
    async with Frontend(script, listener=door) as pool:
        async with asyncio.TaskGroup() as callers:
            for _ in range(AT_ONCE):
                callers.create_task(abort_some(numbers))
        await until(is_quiet)
        async with calling(proxy.port, request()) as caller:
            assert (await caller.head()).startswith(b"HTTP/1.1 200 ")
        for peer in pool.peers:
            with suppress(OSError):  # it is gone already
                peer.sock.shutdown(socket.SHUT_RDWR)
