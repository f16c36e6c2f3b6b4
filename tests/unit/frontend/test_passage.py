"""One request's passage: what it holds while it is on its way, to the byte, and that nothing is held once it is over.

The hooks are the test's own, and each of them raises in turn; the exchange is that of the real client.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gdsvc._arriving import Arriving, Bounds
from gdsvc._heads import CallerHead, Meanings, Sieve
from gdsvc._histogram import Histogram
from gdsvc._in_flight import Cell, Frontend
from gdsvc._passage import Desk, Passage
from gdsvc.asgi.body import BodyTooLarge, Disconnected
from gdsvc.asgi.types import Received, Sent
from gdsvc.errors import Unavailable
from gdsvc.frontend.bodies import Incoming
from gdsvc.frontend.upstream import Client, Origin, RequestHead, Sending
from tests.upstream.scripted import OK, Peer, stand, until

HEAD = RequestHead(b"POST", b"/v1/completions")
MEANINGS = Meanings((), (), b"x-hop", ())


class Fault(Exception):
    """What a hook of the test raises."""


class Departures:
    """Those that are watched."""

    def __init__(self) -> None:
        self.watched: set[object] = set()

    def watch(self, passage: object) -> None:
        self.watched.add(passage)

    def end(self, passage: object) -> None:
        self.watched.discard(passage)


class Counting(Desk):
    """A desk and what it counts."""

    def __init__(self) -> None:
        self.departures = Departures()
        self.requests: dict[tuple[str, str, int], int] = {}
        self.selection = Histogram((1.0,))
        super().__init__(
            self.departures, self.requests, {}, Sieve(frozenset(), (b"via", b"t")), frozenset((200,)), self.selection
        )
        self.tells = True


class Way(Passage[Any, Any, Any, Counting]):
    """A passage that `fails_at` a hook, and repeats what failed `repeats` times."""

    client: Client
    origin: Origin
    bounds: Bounds
    asked_of: Frontend
    fails_at = ""
    repeats = 0
    error: BaseException | None = None
    seen = b""  # the body, where it was read

    def reach(self, hook: str) -> None:
        if hook == self.fails_at:
            raise Fault(hook)

    def arriving(self) -> Incoming:
        self.reach("arriving")
        return Incoming(self.head.length, self.receive, self.bounds, self)

    def read(self, body: Arriving) -> None:
        self.seen = body.held
        self.reach("read")

    def choose(self, now: float) -> Frontend:
        self.reach("choose")
        return self.asked_of

    def ask(self) -> RequestHead:
        self.reach("ask")
        return HEAD

    def exchange(self, asked: RequestHead, body: Arriving) -> Sending:
        self.reach("exchange")
        return self.client.send(self.origin, asked, body.held)

    def note(self, status: int) -> None:
        self.reach("note")

    def failed_there(self, error: Exception) -> None:
        self.reach("failed_there")
        if not self.repeats:
            raise error
        self.repeats -= 1

    async def failed(self, error: BaseException) -> None:
        self.error = error
        self.reach("failed")

    def tell(self) -> None:
        self.reach("tell")


class Caller:
    """Gives a body part by part, and takes the answer."""

    def __init__(self, parts: Iterable[bytes], *, ends: bool = True) -> None:
        self.parts = list(parts)
        self.frontend = Frontend(Cell("p"), "http://p")  # that its request goes to
        self.ends = ends
        self.sent: list[Sent] = []
        self.in_flight: list[int] = []  # at the pool, at each of them
        self.fails = False

    async def receive(self) -> Received:
        if not self.parts:
            return {"type": "http.disconnect"}
        part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.ends}

    async def send(self, message: Sent) -> None:
        self.in_flight.append(self.frontend.cell.in_flight)
        if self.fails:
            raise Fault("send")
        self.sent.append(message)


def way(caller: Caller, *, stated: int | None = None) -> Way:
    headers = [] if stated is None else [(b"content-length", b"%d" % stated)]
    head = CallerHead(headers, MEANINGS, False)
    made = Way({}, caller.receive, caller.send, Counting(), head, "r", Histogram((1.0,)))
    made.asked_of = caller.frontend
    made.bounds = Bounds(1 << 20, 1 << 20, 1 << 20)
    return made


def nothing_is_held(passage: Way) -> bool:
    """By the desk, the budget of bodies, the pool, and who looks after callers."""
    desk, bounds = passage.desk, passage.bounds
    held = desk.in_flight, bounds.held, len(bounds.waiting), passage.asked_of.cell.in_flight
    return held == (0, 0, 0, 0) and not desk.departures.watched


async def answer(peer: Peer) -> None:
    """Each request of two bytes, until the client leaves."""
    while True:
        try:
            await peer.head()
            await peer.receive(2)
        except (EOFError, ConnectionResetError):
            return
        await peer.send(OK)


@asynccontextmanager
async def running(passage: Way) -> AsyncGenerator[Client]:
    """With a client and a pool that answers."""
    async with stand(answer) as (client, frontend):
        passage.client, passage.origin = client, frontend.origin
        yield client


# ------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("hook", ["arriving", "read", "choose", "ask", "exchange", "note", "failed_there"])
async def test_nothing_is_held_after_an_error(hook: str) -> None:
    caller = Caller([b"{", b"}"])
    passage = way(caller)
    passage.fails_at = hook
    caller.fails = hook == "failed_there"  # which is asked where something has failed
    async with running(passage) as client:
        await passage.run()
        assert str(passage.error) == hook
        assert nothing_is_held(passage)
        await until(lambda: client.counts().open == client.counts().idle)  # the others are closed
    asked = "p" if hook in ("exchange", "note", "failed_there") else ""
    assert passage.desk.requests == {("r", asked, 200 if caller.fails else 0): 1}


@pytest.mark.parametrize("hook", ["failed", "tell"])
async def test_nothing_is_held_after_an_error_of_what_tells_of_errors(hook: str) -> None:
    caller = Caller([b"{}"])
    passage = way(caller)
    passage.fails_at = hook
    caller.fails = True
    async with running(passage):
        with pytest.raises(Fault, match=hook):
            await passage.run()
        assert nothing_is_held(passage)
    assert passage.desk.requests == {("r", "p", 200): 1}


async def test_nothing_is_held_after_attempts_that_failed_and_their_selection_is_observed_once() -> None:
    passage = way(Caller([b"{}"]))
    passage.fails_at, passage.repeats = "note", 2
    async with running(passage):
        await passage.run()
        assert nothing_is_held(passage)
    assert (str(passage.error), passage.is_second) == ("note", True)
    assert passage.desk.selection.cumulative()[0][-1] == ("+Inf", 1)


async def test_nothing_is_held_after_being_cancelled_while_it_waits_for_the_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_until(b"{}")
        asked.set()
        await peer.left()

    asked = asyncio.Event()
    passage = way(Caller([b"{}"]))
    async with stand(script) as (client, pool):
        passage.client, passage.origin = client, pool.origin
        task = asyncio.create_task(passage.run())
        await asked.wait()
        assert (passage.desk.in_flight, passage.bounds.held, passage.asked_of.cell.in_flight) == (1, 2, 1)
        task.cancel()
        await task  # `failed` has taken it
        assert isinstance(passage.error, asyncio.CancelledError)
        assert nothing_is_held(passage)


# ---------------------------------------------------------------------------------------------- all is well


async def test_a_request_is_in_flight_at_its_pool_until_its_answer_has_ended() -> None:
    caller = Caller([b"{}"])
    passage = way(caller)
    async with running(passage) as client:
        await passage.run()
        assert client.counts().idle == 1
        assert nothing_is_held(passage)
    assert passage.error is None
    assert [message["type"] for message in caller.sent] == ["http.response.start", "http.response.body"]
    assert caller.in_flight == [1, 1]
    assert (passage.sent, passage.desk.requests) == (2, {("r", "p", 200): 1})


# ------------------------------------------------------------------------------------------------- bodies


async def arrives(caller: Caller, bounds: Bounds, stated: int | None = None) -> Way:
    """The passage of a body that comes to nothing else: it is read and then fails."""
    passage = way(caller, stated=stated)
    passage.bounds, passage.fails_at = bounds, "read"
    await passage.run()
    assert nothing_is_held(passage)
    return passage


@pytest.mark.parametrize("is_stated", [False, True])
@pytest.mark.parametrize("size", [1, 10, 64])
async def test_a_body_may_be_as_long_as_the_limit_and_no_byte_longer(size: int, is_stated: bool) -> None:
    for length, fault in ((64, Fault), (65, BodyTooLarge)):
        body = bytes(range(length))
        parts = [body[at : at + size] for at in range(0, length, size)]
        passage = await arrives(Caller(parts), Bounds(64, 1000, 1000), stated=length if is_stated else None)
        assert type(passage.error) is fault
        assert passage.seen == (body if fault is Fault else b"")


@pytest.mark.parametrize(("taken", "fault"), [(36, Fault), (37, Unavailable)])
@pytest.mark.parametrize("size", [1, 10, 64])
async def test_all_bodies_may_hold_as_much_as_the_budget_and_no_byte_more(
    size: int, taken: int, fault: type[Exception]
) -> None:
    bounds = Bounds(1000, 1000, 100)
    async with waiting(b"x" * taken, bounds) as other:
        passage = way(Caller((b"y" * 64)[at : at + size] for at in range(0, 64, size)))
        passage.bounds, passage.fails_at = bounds, "read"
        await passage.run()
        assert type(passage.error) is fault
        assert (bounds.held, bounds.waiting) == (taken, {other.body})


@asynccontextmanager
async def waiting(part: bytes, bounds: Bounds) -> AsyncGenerator[Way]:
    """A passage of whose body one part has come, and then its caller leaves."""

    class Slow(Caller):
        async def receive(self) -> Received:
            if not self.parts:
                has_come.set()
                await leaves.wait()
            return await super().receive()

    has_come, leaves = asyncio.Event(), asyncio.Event()
    passage = way(Slow([part], ends=False))
    passage.bounds = bounds
    task = asyncio.create_task(passage.run())
    await has_come.wait()
    yield passage
    leaves.set()
    await task
    assert isinstance(passage.error, Disconnected)
    assert nothing_is_held(passage)


async def test_of_a_long_body_no_more_is_held_than_has_to_be_seen_before_it_is_sent_on() -> None:
    caller = Caller([b"a" * 9, b"b", b"c" * 10])
    passage = await arrives(caller, Bounds(100, 10, 100))
    assert passage.seen == b"a" * 9 + b"b"
    assert caller.parts == [b"c" * 10]


async def test_a_body_of_stated_length_ends_with_its_last_byte() -> None:
    caller = Caller([b"ab", b"c", b""], ends=False)
    passage = await arrives(caller, Bounds(100, 100, 100), stated=3)
    assert (passage.seen, caller.parts) == (b"abc", [b""])  # the empty part is not waited for


@pytest.mark.parametrize("stated", [None, 3])
async def test_a_body_that_ends_early_holds_nothing(stated: int | None) -> None:
    passage = await arrives(Caller([b"ab"], ends=False), Bounds(100, 100, 100), stated=stated)
    assert (type(passage.error), passage.seen) == (Disconnected, b"")


async def test_what_is_held_of_many_small_parts_is_in_one_piece() -> None:
    body = bytes(range(256)) * 40
    caller = Caller(body[at : at + 1] for at in range(len(body)))
    passage = await arrives(caller, Bounds(1 << 20, 1 << 20, len(body)))
    assert passage.seen == body
