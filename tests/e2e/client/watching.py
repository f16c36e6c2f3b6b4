"""What tests of directories watch with, and a script of a service whose streams end, break and go on as they say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from gdsvc import model
from gdsvc.client import Options
from gdsvc.model import PoolKey, PoolListing, PoolRegistration, listing_of
from gdsvc.pool_discovery.watch import Event, Resync, Snapshot
from tests.e2e.client.scripted import Asked, Caller, Script, ScriptedServer

SOON_SECS = 8.0  # for what is to come at once
WATCH, LIST = "/pools/watch", "/pools"
Watch = AsyncIterator[Event[PoolListing, PoolKey]]
Part = Callable[["Streams", Caller], Awaitable[None]]


def options(server: ScriptedServer, **others: float) -> Options:
    return Options((server.url,), **({"request_timeout_secs": 2.0, "poll_interval_secs": 0.05} | others))  # type: ignore[arg-type]


def pool(name: str, model: str | None = "m") -> PoolListing:
    return listing_of(PoolRegistration(PoolKey("s", "n", name), model=model))


def listed(*items: PoolListing, complete: bool = True) -> bytes:
    """What GET /pools answers."""
    head = b'{"complete":true,"pools":[' if complete else b'{"complete":false,"pools":['
    return head + b",".join(map(model.encode_listing, items)) + b"]}"


def removed(name: str) -> bytes:
    return b'{"key":' + model.encode(pool(name).key) + b"}"


async def next_event(watch: Watch) -> Event[PoolListing, PoolKey]:
    async with asyncio.timeout(SOON_SECS):
        return await anext(watch)


async def next_resync(watch: Watch) -> Snapshot[PoolListing]:
    event = await next_event(watch)
    assert isinstance(event, Resync)
    return event.snapshot


class Streams:
    """A script: the n-th watch is answered by the n-th of `parts`, the last of them also every later one.

    After the very first event all others wait for `go`, so that a test has seen the first list before it changes.
    """

    def __init__(self, *parts: Part, lists: Script | None = None) -> None:
        self.watches: list[Asked] = []
        self.asked_at: list[float] = []
        self.go = asyncio.Event()
        self.sent = 0
        self._parts = parts
        self._lists = lists

    async def __call__(self, asked: Asked, caller: Caller) -> None:
        if asked.target.partition("?")[0] != WATCH:
            assert self._lists is not None, asked
            await self._lists(asked, caller)
            return
        self.watches.append(asked)
        self.asked_at.append(asyncio.get_running_loop().time())
        await self._parts[min(len(self.watches), len(self._parts)) - 1](self, caller)

    async def event(self, caller: Caller, name: str, data: bytes, event_id: str) -> None:
        if self.sent:
            await self.go.wait()
        self.sent += 1
        await caller.event(name, data, event_id)

    @property
    def resumed_from(self) -> list[str | None]:
        return [asked.headers.get("last-event-id") for asked in self.watches]


def stream(*events: tuple[str, bytes, str], stays: bool = True, before: bytes = b"") -> Part:
    async def part(streams: Streams, caller: Caller) -> None:
        await caller.begin_events()
        await caller.send(before)
        for event in events:
            await streams.event(caller, *event)
        if stays:
            await caller.gone()
        else:
            caller.close()

    return part


def refusal(status: int, body: bytes = b"{}", **headers: str) -> Part:
    async def part(_streams: Streams, caller: Caller) -> None:
        await caller.reply(status, body, **headers)

    return part


async def close_at_once(_streams: Streams, caller: Caller) -> None:
    caller.reset()


async def until(reached: Callable[[], bool]) -> None:
    """Waits for something that the test cannot be told of."""
    async with asyncio.timeout(SOON_SECS):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
