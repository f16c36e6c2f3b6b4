"""What a discovery service is told of a pool decides at once where requests go, and touches none that is in hand."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.e2e.frontend.calling import FRONTEND, LAST_CHUNK, ask, calling, chunk, request
from tests.e2e.process import Serve, Service
from tests.e2e.wire import pool
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

TOLD_SECS: Final = 0.1  # from the registration to the first request that goes by it
TRIES: Final = 5  # the best counts: others may keep the machine busy
STREAMED: Final = b'{"model":"m","stream":true}'
STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

Answer = tuple[int, bytes]


class Named:
    """A frontend that answers with its name; its streams go on until `end` is set."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.end = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        try:
            while True:
                asked = await peer.receive_until(b"}")
                if asked.endswith(STREAMED):
                    await peer.send(STREAM + chunk(self.name))
                    await self.end.wait()
                    await peer.send(chunk(b"the end") + LAST_CHUNK)
                else:
                    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self.name), self.name))
        except (EOFError, ConnectionResetError):
            return


@pytest.fixture
def discovery(serve: Serve) -> Service:
    """No lease ends within the test."""
    return serve("--heartbeat-interval-secs=1", "--lease-duration-secs=3600")


@pytest.fixture
def front(serve: Serve, discovery: Service) -> Service:
    return serve(f"--discovery-url=http://127.0.0.1:{discovery.port}", command=FRONTEND)


async def seconds(front: Service, change: Callable[[], int], holds: Callable[[Answer], bool]) -> float:
    """From sending the change, which is more than from its answer, until a request goes by it."""
    sent_at = time.monotonic()
    status = await asyncio.to_thread(change)
    assert status in (200, 204)
    async with asyncio.timeout(10):
        while not holds(await ask(front.port, request())):
            pass
    return time.monotonic() - sent_at


async def test_a_pool_is_used_moved_and_unused_within_100_ms_and_streams_in_hand_go_on(
    discovery: Service, front: Service
) -> None:
    old, new = Named(b"the old place"), Named(b"the new place")

    def register(frontend: Frontend) -> int:
        url = f"http://127.0.0.1:{frontend.port}"
        return discovery.post("/pools", pool("p", model="m", frontends=[url])).status

    def remove() -> int:
        with discovery.connect() as connection:
            return connection.request("DELETE", "/pools/ohio/dynamo/p").status

    async with Frontend(old) as first, Frontend(new) as second:
        added, changed, removed = list[float](), list[float](), list[float]()
        for _ in range(TRIES):
            old.end.clear()
            added.append(await seconds(front, lambda: register(first), lambda it: it[1].endswith(old.name)))
            async with calling(front.port, request(STREAMED)) as caller:
                await caller.receive_until(old.name)
                changed.append(await seconds(front, lambda: register(second), lambda it: it[1].endswith(new.name)))
                for _ in range(5):
                    assert (await ask(front.port, request()))[1].endswith(new.name)
                removed.append(await seconds(front, remove, lambda it: it[0] == 503))
                for _ in range(5):
                    assert (await ask(front.port, request()))[0] == 503
                old.end.set()
                await caller.receive_until(chunk(b"the end") + LAST_CHUNK)
        assert min(added) < TOLD_SECS, added
        assert min(changed) < TOLD_SECS, changed
        assert min(removed) < TOLD_SECS, removed
        await asyncio.to_thread(front.stop)  # for the end of its connections the two places wait
