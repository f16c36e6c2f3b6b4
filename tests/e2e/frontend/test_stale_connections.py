"""A pool that closes its connections shortly after each reply: no request fails, and none is carried out twice."""

import asyncio
import itertools
import random
import socket
from contextlib import suppress

import pytest

from tests.e2e.frontend.calling import CHAT, head, samples
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

AT_ONCE = 40
SELECTIONS = "dynamo_global_frontend_overhead_selection_ms_count"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
MARK = b'"n":'


def body(number: int) -> bytes:
    return b'{"model":"m",%b%8d}' % (MARK, number)


async def post_all(port: int, numbers: "itertools.count[int]", most: int, statuses: list[bytes]) -> None:
    """Requests one after the other on one connection."""
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    caller = Peer(sock, 0)
    try:
        while (number := next(numbers)) < most:
            content = body(number)
            await caller.send(head(b"Content-Length: %d" % len(content)) + content)
            answer = await caller.head()
            statuses.append(answer.split(b" ")[1])
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r")[0])
            await caller.receive(length)
    finally:
        caller.close()


@pytest.mark.parametrize("posts", [2000, pytest.param(10_000, marks=pytest.mark.load)])
async def test_every_post_is_answered_and_carried_out_once(proxy: Service, door: socket.socket, posts: int) -> None:
    """Each connection serves some requests, then ends 0 to 100 ms after a reply: often in the moment of the next."""
    choose = random.Random(posts)
    carried_out = list[bytes]()

    async def script(peer: Peer) -> None:
        with suppress(EOFError, ConnectionResetError):
            await peer.readable()
            while True:
                assert CHAT in await peer.head()
                content = await peer.receive(len(body(0)))
                carried_out.append(content.partition(MARK)[2])
                await peer.send(OK)
                try:
                    async with asyncio.timeout(choose.choice((0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1))):
                        await peer.readable()
                except TimeoutError:
                    return

    statuses = list[bytes]()
    numbers = itertools.count()
    before = await samples(proxy)
    async with Frontend(script, listener=door), asyncio.TaskGroup() as callers:
        for _ in range(AT_ONCE):
            callers.create_task(post_all(proxy.port, numbers, posts, statuses))
    after = await samples(proxy)
    retries = {name: value - before.get(name, 0) for name, value in after.items() if "retries_total" in name}
    assert statuses == [b"200"] * posts, retries
    assert after[SELECTIONS] - before[SELECTIONS] == posts  # one observation for each, however often it was sent
    assert len(set(carried_out)) == len(carried_out) == posts
    assert sum(retries.values()) > 0  # or nothing ended in the moment of a request, and this shows nothing
