"""A body of which nothing comes for SILENCE_SECS is given up, and only that: with times passed in."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from gdsvc.asgi.types import Received, ResponseBody, ResponseStart, Scope, Sent
from gdsvc.frontend.bodies import HELD_BYTES, SILENCE_SECS, Bounds
from gdsvc.frontend.catalog import static
from gdsvc.frontend.counts import Counts
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.forwarding import Forwarder, Limits
from gdsvc.frontend.headers import Trusted, read
from gdsvc.frontend.selection import Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.frontend.upstream import Client
from tests.upstream.scripted import OK, Peer, Script, stand, until

NOW = 1000.0
ROUTE = "/v1/completions"
BEGINNING = b'{"model":"m","input":"'
LONG = BEGINNING + b"x" * (HELD_BYTES - len(BEGINNING))  # after which a request goes on its way
SCOPE: Scope = {
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": ROUTE,
    "raw_path": ROUTE.encode(),
    "query_string": b"",
    "headers": [(b"host", b"a")],
    "client": ("127.0.0.1", "1"),
    "server": ("127.0.0.1", "2"),
}


class Call:
    """One request: sends its body part by part as the test gives them, and keeps what it is answered."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._parts: asyncio.Queue[Received] = asyncio.Queue()
        self._given = self._asked = 0
        self._start: ResponseStart | None = None
        self._body: ResponseBody | None = None
        self._bounds: Bounds = forwarder.bounds
        head = read(SCOPE["headers"], trusted=False)
        self.task = asyncio.create_task(forwarder.forward(SCOPE, self._receive, self._send, head, ROUTE))

    def give(self, part: bytes, *, more: bool = True) -> None:
        self._given += 1
        self._parts.put_nowait({"type": "http.request", "body": part, "more_body": more})

    async def waits(self) -> None:
        """Returns when all that was given was taken and more is waited for."""
        await until(lambda: self._asked > self._given and bool(self._bounds.waiting))

    async def status(self) -> int:
        """Of the answer, once it is whole."""
        await self.task
        assert self._start is not None
        assert self._body is not None
        return self._start["status"]

    async def is_given_up(self) -> bool:
        """Answered 408, on a connection that is closed, with the reason."""
        status = await self.status()
        assert self._start is not None
        assert self._body is not None
        is_said = b"nothing of the body came for 60 s" in self._body["body"]
        return status == 408 and is_said and (b"connection", b"close") in self._start["headers"]

    async def _receive(self) -> Received:
        self._asked += 1
        return await self._parts.get()

    async def _send(self, message: Sent) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._body = message


@asynccontextmanager
async def frontend(script: Script) -> AsyncGenerator[Forwarder]:
    """With one pool, which runs `script`. At the end it holds nothing."""
    async with stand(script) as (client, pool):
        yield forwarder_to(client, pool.origin.url)


def forwarder_to(client: Client, url: str) -> Forwarder:
    selector = Selector(SelectionCore(), Ejection())
    selector.publish(static([("p", (url,))]), 0.0)
    return Forwarder(selector, client, Counts(), Limits(1 << 30, 1 << 30, 10), Trusted(()))


def at_pools(forwarder: Forwarder) -> int:
    """Requests in flight."""
    return sum(cell.in_flight for cell in forwarder.selector.cells())


def nothing_is_held(forwarder: Forwarder) -> bool:
    bounds = forwarder.bounds
    return (forwarder.in_flight, bounds.held, len(bounds.waiting), at_pools(forwarder)) == (0, 0, 0, 0)


async def nothing_comes(peer: Peer) -> None:
    pytest.fail("a request whose model did not come has reached a pool")


async def read_until_it_leaves(peer: Peer) -> None:
    await peer.left()


@pytest.mark.parametrize("part", [b"", BEGINNING], ids=["nothing", "a part"])
async def test_a_beginning_that_does_not_come_is_given_up_after_the_silence(part: bytes) -> None:
    async with frontend(nothing_comes) as forwarder:
        call = Call(forwarder)
        if part:
            call.give(part)
        await call.waits()
        for after in (0.0, 1.0, SILENCE_SECS - 0.001):
            forwarder.bounds.advance(NOW + after)
            assert len(forwarder.bounds.waiting) == 1
        forwarder.bounds.advance(NOW + SILENCE_SECS)
        assert await call.is_given_up()
        assert nothing_is_held(forwarder)
        assert forwarder.counts.requests == {(ROUTE, "", 408): 1}


async def test_a_rest_that_does_not_come_is_given_up_and_the_pool_sees_the_end() -> None:
    async with frontend(read_until_it_leaves) as forwarder:  # whose script would not end else
        call = Call(forwarder)
        call.give(LONG)
        await call.waits()
        for after in (0.0, SILENCE_SECS - 0.001):
            forwarder.bounds.advance(NOW + after)
            assert len(forwarder.bounds.waiting) == 1
        forwarder.bounds.advance(NOW + SILENCE_SECS)
        assert await call.is_given_up()
        assert nothing_is_held(forwarder)
        assert forwarder.counts.requests == {(ROUTE, "p", 408): 1}


@pytest.mark.parametrize("beginning", [BEGINNING, LONG], ids=["in the beginning", "in the rest"])
async def test_a_part_begins_the_silence_anew(beginning: bytes) -> None:
    async with frontend(read_until_it_leaves) as forwarder:
        call = Call(forwarder)
        call.give(beginning)
        for later in range(3):
            await call.waits()
            forwarder.bounds.advance(NOW + later * 59)
            call.give(b"y")
        await call.waits()
        forwarder.bounds.advance(NOW + 178)
        forwarder.bounds.advance(NOW + 178 + SILENCE_SECS - 0.001)
        assert len(forwarder.bounds.waiting) == 1
        forwarder.bounds.advance(NOW + 178 + SILENCE_SECS)
        assert await call.is_given_up()


async def test_only_the_body_that_is_silent_is_given_up() -> None:
    async with frontend(read_until_it_leaves) as forwarder:
        silent, slow = Call(forwarder), Call(forwarder)
        for call in (silent, slow):
            call.give(BEGINNING)
            await call.waits()
        forwarder.bounds.advance(NOW)
        slow.give(b"y")
        await slow.waits()
        forwarder.bounds.advance(NOW + SILENCE_SECS)
        assert await silent.is_given_up()
        assert len(forwarder.bounds.waiting) == 1
        slow.give(b'"')
        await slow.waits()
        forwarder.bounds.advance(NOW + 2 * SILENCE_SECS)
        forwarder.bounds.advance(NOW + 3 * SILENCE_SECS)
        assert await slow.is_given_up()


@pytest.mark.parametrize(("beginning", "end"), [(BEGINNING, b'"}'), (LONG, b"\r\n0\r\n\r\n")], ids=["held", "sent on"])
async def test_a_pool_that_thinks_for_longer_is_no_silence_of_the_body(beginning: bytes, end: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.drain_until(end)
        has_all.set()
        await answers.wait()
        await peer.send(OK)

    has_all, answers = asyncio.Event(), asyncio.Event()
    async with frontend(script) as forwarder:
        call = Call(forwarder)
        call.give(beginning)
        await call.waits()
        call.give(b'"}', more=False)
        await has_all.wait()
        for after in (0.0, SILENCE_SECS, 1000 * SILENCE_SECS):
            forwarder.bounds.advance(NOW + after)
        answers.set()
        assert await call.status() == 200
        assert nothing_is_held(forwarder)


async def test_a_pool_that_takes_no_more_of_a_body_is_no_silence_of_the_body() -> None:
    async def script(peer: Peer) -> None:
        await reads.wait()
        await peer.left()

    reads = asyncio.Event()
    async with frontend(script) as forwarder:
        call = Call(forwarder)
        call.give(LONG + b"x" * HELD_BYTES)  # more than the sockets between them take
        await until(lambda: at_pools(forwarder) == 1 and forwarder.bounds.held == 0)
        assert not forwarder.bounds.waiting
        for after in (0.0, SILENCE_SECS, 1000 * SILENCE_SECS):
            forwarder.bounds.advance(NOW + after)
        reads.set()
        await call.waits()  # for the rest: it goes on
        forwarder.bounds.advance(NOW)
        forwarder.bounds.advance(NOW + SILENCE_SECS)
        assert await call.is_given_up()
