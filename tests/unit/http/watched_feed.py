"""A Feed over a real store, its watchers, and a loop whose clock the tests move by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gdsvc.asgi.types import Scope
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.http.lists import Lists
from gdsvc.http.pools import removal
from gdsvc.http.watch import (
    TICK_SECS,
    Feed,
    Watchers,
)
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.asgi_pipe import Pipe
from tests.event_stream import Event, Parser

EPOCH = "0123456789abcdef"
JOURNAL = 50
NOBODY = Filter(models=frozenset({"nobody has it"}))


class MovableLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Client:
    """One stream, and what was read of it."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.parser = Parser()

    def read(self) -> list[Event]:
        return self.parser.feed(self.pipe.read())


class Stand:
    """A feed over a store with a lease of 15 s, whose time stands still unless it is passed."""

    def __init__(self, executor: ThreadPoolExecutor, limit: int = 10) -> None:
        self.time = 0.0
        self.store = MemoryPoolStore(Lease(5, 15), LeaseClock(15, lambda: self.time), "2026-01-01T00:00:00.000Z")
        self.store._fanout = Fanout(capacity=JOURNAL, journal=JOURNAL)
        self.watchers = Watchers(limit)
        self.feed = Feed(self.store.changes, Lists(self.store, "pools", EPOCH, executor), removal, self.watchers)

    def connect(
        self, where: Filter = EVERYTHING, *, since: str | None = None, last: str | None = None, clogged: bool = False
    ) -> Client:
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/pools/watch",
            "raw_path": b"/pools/watch",
            "query_string": b"" if since is None else b"since=" + since.encode(),
            "headers": [] if last is None else [(b"last-event-id", last.encode())],
            "client": ("127.0.0.1", "1"),
            "server": ("127.0.0.1", "2"),
        }
        return Client(Pipe(self.feed.watch(scope, where), clogged=clogged))

    async def register(self, name: str, model: str | None = None, size: int = 0) -> None:
        capabilities = ("x" * size,) if size else ()
        await self.store.register(PoolRegistration(PoolKey("s", "n", name), None, model, capabilities=capabilities))

    def _is_at_rest(self) -> bool:
        """Whether every watcher waits: for an event, for its reader, or for a view."""
        active = sum(not _rests(watcher) for watcher in self.feed._watchers)
        return active <= self.feed._snapshots.waiting

    async def settle(self) -> None:
        """Until all that is due has been done; what a list of more than 64 KB needs a thread for, too."""
        turns = 0
        while turns < 5:
            await asyncio.sleep(0 if self.feed._flush is None else 0.0005)
            turns = turns + 1 if self.feed._flush is None and self._is_at_rest() else 0

    async def pass_time(self, seconds: float) -> None:
        """Puts the loop forward, tick by tick."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        while seconds > 0:
            loop.ahead += min(seconds, TICK_SECS)
            seconds -= TICK_SECS
            await asyncio.sleep(0)
            await self.settle()

    async def leave(self, *clients: Client) -> None:
        for client in clients:
            await client.pipe.leave()


def _rests(watcher: Any) -> bool:
    return watcher.writing_since is not None or (watcher.waiting is not None and not watcher.waiting.done())


Run = Callable[[Callable[[Stand], Awaitable[None]]], None]


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]
