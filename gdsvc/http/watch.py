"""Watchers over HTTP: who is let in, where each of them is, when it is written to, and when it is given up.

A watcher costs a place in the journal of its directory and what lies in its buffers. What an event looks like is
decided in events.py.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from gdsvc import metrics
from gdsvc.asgi.paths import query_values
from gdsvc.asgi.streams import End, Stream
from gdsvc.asgi.types import Scope, Send, header
from gdsvc.errors import LimitReached, Unavailable
from gdsvc.http.events import EventId, Events, parse_id
from gdsvc.http.lists import Lists, filter_hash
from gdsvc.http.snapshots import Snapshots
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout, Lagged
from gdsvc.pool_discovery.watch import EncodedEvent

KEEP_ALIVE_SECS: Final = 15.0
# What a peer has to acknowledge what was sent to it. One that vanished takes the next sign of life, and is freed before
# another: within two of these periods. Without this the kernel tries for a quarter of an hour.
PEER_TIMEOUT_SECS: Final = 14.0
STUCK_SECS: Final = 2 * KEEP_ALIVE_SECS  # a write that is not taken for so long has no reader
VIEW_SECS: Final = 10.0  # for a whole view, where others wait for the memory that it takes
TICK_SECS: Final = 1.0  # how often watchers are looked at for all of these
LAST_WRITE_SECS: Final = 0.05  # that a write under way may still take when the service stops
SPACING_SECS: Final = 60e-6  # between two rounds of writes, for each watcher: a write costs 15 us, a quarter of a core
PART_BYTES: Final = 64 * 1024  # of one send; granian holds four of them for a reader that does not read
LEAST_RETRY_MS: Final = 500
RETRY_SPREAD_MS: Final = 5_000  # over which watchers of a service that restarts come back,
RETRY_MS_A_WATCHER: Final = 10  # or more where there are many
RETRY_AFTER_SECS: Final = 5
_SINCE: Final = frozenset({"since"})
_CLOSED: Final = ("left", "slow", "stuck", "stopping", "failed")
_RESYNCS: Final = ("start", "gone", "completeness", "behind")


class Watchers:
    """How many there are over all feeds, and why they came to their end. `limit` refuses more with LimitReached."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0
        self.stopping = False
        self.events = 0
        self.closed: Counter[str] = Counter(dict.fromkeys(_CLOSED, 0))
        self.resyncs: Counter[str] = Counter(dict.fromkeys(_RESYNCS, 0))

    def enter(self) -> None:
        """Takes a place. Raises LimitReached, Unavailable."""
        if self.stopping:
            raise Unavailable("the service is stopping", RETRY_AFTER_SECS)
        if self.count >= self._limit:
            raise LimitReached(f"this service takes at most {self._limit} watchers (--max-watchers)", RETRY_AFTER_SECS)
        self.count += 1

    def leave(self, cause: str) -> None:
        """Gives a place back."""
        self.count -= 1
        self.closed[cause] += 1

    def retry_ms(self) -> int:
        """When a watcher is to come back after its stream ended, each at another instant."""
        spread = max(RETRY_SPREAD_MS, RETRY_MS_A_WATCHER * self.count)
        return LEAST_RETRY_MS + secrets.randbelow(spread)


class _Watcher:
    """Where one watcher is. `waiting` is set while it has all there is, `writing_since` while a write is not taken."""

    def __init__(self, where: Filter, now: float) -> None:
        self.where = where
        self.filter_hash = b"" if where == EVERYTHING else filter_hash(where).encode()
        self.revision = -1  # nothing seen
        self.resynced = False  # because it was behind, and not up to date since
        self.wrote_at = now
        self.writing_since: float | None = None
        self.view_since: float | None = None  # while it is written a whole view
        self.waiting: asyncio.Future[None] | None = None
        self.task: asyncio.Task[object] | None = None
        self.cause: str | None = None


class Feed:
    """The watchers of one directory, whose `lists` they start from. `close()` ends them all.

    `removal(key)` encodes the data of a `removed` from a sort key.
    """

    def __init__(
        self, changes: Fanout[EncodedEvent], lists: Lists, removal: Callable[[bytes], bytes], watchers: Watchers
    ) -> None:
        self._changes = changes
        self._lists = lists
        self._events = Events(changes, lists.epoch, removal)
        self._shared = watchers
        self._snapshots = Snapshots(lists, changes)
        self._watchers: set[_Watcher] = set()
        self._flush: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._tick: asyncio.TimerHandle | None = None
        changes.listen(self._published)

    @property
    def encodings(self) -> int:
        """Events encoded."""
        return self._events.encodings

    @property
    def lag(self) -> int:
        """By how many events the slowest watcher is behind."""
        published = self._changes.published
        watchers = tuple(self._watchers)  # in one step: scrapes run in a thread, while watchers come and go
        return max((published - watcher.revision for watcher in watchers if watcher.revision >= 0), default=0)

    def watch(self, scope: Scope, where: Filter) -> Stream:
        """The stream of one caller. Raises LimitReached, Unavailable."""
        seen = _last_seen(scope)
        self._lists.view()  # raises where there is nothing to show yet
        where = next((other.where for other in self._watchers if other.where == where), where)  # compared in no time
        watcher = _Watcher(where, asyncio.get_running_loop().time())
        self._shared.enter()
        self._watchers.add(watcher)
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(TICK_SECS, self._look_after)

        async def write(send: Send) -> None:
            watcher.task = asyncio.current_task()
            await self._write(watcher, send, seen)

        return Stream(write, lambda end: self._ended(watcher, end))

    def close(self) -> None:
        """Ends every stream: those that wait at once and whole; who is written to gets LAST_WRITE_SECS, then is cut."""
        for watcher in self._watchers:
            _wake(watcher)
        if self._tick is not None:
            self._tick.cancel()
            self._tick = asyncio.get_running_loop().call_later(LAST_WRITE_SECS, self._look_after)

    def _ended(self, watcher: _Watcher, end: End) -> None:
        self._watchers.discard(watcher)
        if end is End.LEFT:
            cause = "left"
        elif self._shared.stopping:
            cause = "stopping"
        else:  # who asked with HEAD has got all there is
            cause = watcher.cause or ("left" if end is End.WRITTEN else "failed")
        self._shared.leave(cause)
        if not self._watchers and self._tick is not None:
            self._tick.cancel()
            self._tick = None

    # -- one watcher

    async def _write(self, watcher: _Watcher, send: Send, seen: EventId | None) -> None:
        opening = b"retry: %d\n" % self._shared.retry_ms()
        cause = "start" if seen is None else "gone"
        if seen is not None and self._can_resume(watcher, seen):
            watcher.revision = seen.revision
            await self._send(watcher, send, opening + self._due(watcher))
        else:
            await self._resync(watcher, send, cause, opening)
        while not self._shared.stopping:
            batch = self._events.since(watcher.revision, watcher.where, watcher.filter_hash)
            if isinstance(batch, Lagged):
                cause = self._why_behind(watcher)
                if cause == "behind" and watcher.resynced:
                    watcher.cause = "slow"
                    break
                watcher.resynced = watcher.resynced or cause == "behind"
                await self._resync(watcher, send, cause)
            elif batch.revision > watcher.revision or _is_quiet(watcher):
                watcher.revision = batch.revision
                self._shared.events += batch.events
                await self._send(watcher, send, batch.data or (self._comment(watcher) if _is_quiet(watcher) else b""))
            else:
                watcher.resynced = False
                await _wait(watcher)
        await self._send_part(watcher, send, b"", more=False)

    def _can_resume(self, watcher: _Watcher, seen: EventId) -> bool:
        return (
            self._events.is_of_this_process(seen)
            and seen.filter_hash.encode() == watcher.filter_hash
            and self._changes.oldest <= seen.revision <= self._changes.published
        )

    def _why_behind(self, watcher: _Watcher) -> str:
        return "completeness" if watcher.revision >= self._changes.kept_from else "behind"

    def _due(self, watcher: _Watcher) -> bytes:
        """What a watcher that resumes gets first: what it missed, or the id that it is at."""
        batch = self._events.since(watcher.revision, watcher.where, watcher.filter_hash)
        if isinstance(batch, Lagged):
            return b""
        watcher.revision = batch.revision
        self._shared.events += batch.events
        return batch.data or self._comment(watcher)

    async def _resync(self, watcher: _Watcher, send: Send, cause: str, opening: bytes = b"") -> None:
        """Writes the whole view, in parts: many readers that do not read must not hold a copy each."""
        self._shared.resyncs[cause] += 1
        async with self._snapshots.take(watcher.where) as (revision, body):
            watcher.revision = revision
            watcher.view_since = asyncio.get_running_loop().time()
            line = self._events.id_line(revision, watcher.filter_hash)
            await self._send(watcher, send, b"%bevent: resync\n%bdata: " % (opening, line) + body[:PART_BYTES])
            for start in range(PART_BYTES, len(body), PART_BYTES):
                await self._send_part(watcher, send, body[start : start + PART_BYTES])
        watcher.view_since = None
        await self._send_part(watcher, send, b"\n\n")

    def _comment(self, watcher: _Watcher) -> bytes:
        return b": still here\n" + self._events.id_line(watcher.revision, watcher.filter_hash) + b"\n"

    async def _send(self, watcher: _Watcher, send: Send, data: bytes) -> None:
        if len(data) <= 2 * PART_BYTES:
            if data:
                await self._send_part(watcher, send, data)
            return
        for start in range(0, len(data), PART_BYTES):
            await self._send_part(watcher, send, data[start : start + PART_BYTES])

    async def _send_part(self, watcher: _Watcher, send: Send, data: bytes, *, more: bool = True) -> None:
        now = asyncio.get_running_loop().time()
        watcher.wrote_at = watcher.writing_since = now
        await send({"type": "http.response.body", "body": data, "more_body": more})
        watcher.writing_since = None

    # -- all of them

    def _published(self) -> None:
        """Sees to it that those who wait are written to: at once, or when the last writes are long enough ago.

        Changes that come in quick succession so share a write, and a change that comes alone waits for nothing.
        """
        if self._flush is None and self._watchers:
            loop = asyncio.get_running_loop()
            due_at = self._flushed_at + SPACING_SECS * len(self._watchers)
            self._flush = loop.call_later(max(0.0, due_at - loop.time()), self._wake_waiting)

    def _wake_waiting(self) -> None:
        self._flush = None
        self._flushed_at = asyncio.get_running_loop().time()
        for watcher in self._watchers:
            _wake(watcher)

    def _look_after(self) -> None:
        """Wakes those to whom nothing was written for long, and gives up those who take nothing."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for watcher in self._watchers:
            if self._shared.stopping:
                _cut(watcher, "stopping")
            elif watcher.writing_since is not None and now - watcher.writing_since > STUCK_SECS:
                _cut(watcher, "stuck")
            elif self._snapshots.waiting and watcher.view_since is not None and now - watcher.view_since > VIEW_SECS:
                _cut(watcher, "slow")
            elif _is_quiet(watcher):
                _wake(watcher)
        self._tick = loop.call_later(TICK_SECS, self._look_after) if self._watchers else None


async def _wait(watcher: _Watcher) -> None:
    """Until something is published, or it is time for a sign of life, or to end."""
    watcher.waiting = asyncio.get_running_loop().create_future()
    try:
        await watcher.waiting
    finally:
        watcher.waiting = None


def _is_quiet(watcher: _Watcher) -> bool:
    """Whether a sign of life is due; a filter may leave nothing to write for long although much happens."""
    return asyncio.get_running_loop().time() - watcher.wrote_at > KEEP_ALIVE_SECS - TICK_SECS


def _cut(watcher: _Watcher, cause: str) -> None:
    watcher.cause = watcher.cause or cause
    if watcher.task is not None:
        watcher.task.cancel()


def _wake(watcher: _Watcher) -> None:
    if watcher.waiting is not None and not watcher.waiting.done():
        watcher.waiting.set_result(None)


def _last_seen(scope: Scope) -> EventId | None:
    """The id that the caller names: in Last-Event-ID, as browsers do when they come back, or else in `?since=`."""
    named = header(scope, b"last-event-id")
    if named is None and scope["query_string"]:
        values = query_values(scope["query_string"], _SINCE).get("since")
        named = values[-1].encode() if values else None
    return None if not named else parse_id(named) or EventId("", -1, "")


def readings(watchers: Watchers, feeds: tuple[Feed, ...]) -> Iterator[metrics.Reading]:
    """What the metrics say of the watchers of all feeds."""
    yield metrics.WATCHERS, watchers.count
    yield metrics.WATCH_EVENTS, watchers.events
    yield metrics.WATCH_EVENT_ENCODINGS, sum(feed.encodings for feed in feeds)
    yield metrics.WATCH_LAG, max(feed.lag for feed in feeds)
    for cause, count in watchers.resyncs.items():
        yield metrics.WATCH_RESYNCS, count, cause
    for cause, count in watchers.closed.items():
        yield metrics.WATCHERS_CLOSED, count, cause
