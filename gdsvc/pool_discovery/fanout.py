"""One publisher, any number of readers: a bounded journal of numbered events in which each reader has a place.

A reader that is too slow costs no memory and delays nobody: its place falls off the journal and it is told so. What it
then does (take the whole view again) is its own affair.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, TypeVar

E = TypeVar("E")

CAPACITY = 1024  # events a subscription may be behind
JOURNAL = 8192  # events kept, for those who come back after a while: 40 s of 200 changes a second,
JOURNAL_BYTES = 16 * 1024 * 1024  # and their bytes


class Lagged:
    """Told instead of an event: some were missed or are void; start again from the whole view as it is now."""


LAGGED: Final = Lagged()


class Subscription(Generic[E]):
    """A place in the journal of a Fanout; `next` gives the events from there on."""

    def __init__(self, fanout: "Fanout[E]") -> None:
        self._fanout = fanout
        self._place = fanout.published

    async def next(self) -> E | Lagged:
        """The next event, as soon as there is one; LAGGED where the subscriber must start from the whole view."""
        while self._place == self._fanout.published:
            await self._fanout.more()
        event = self._fanout.at(self._place)
        if isinstance(event, Lagged) or self._fanout.published - self._place > self._fanout.capacity:
            self._place = self._fanout.published
            return LAGGED
        self._place += 1
        return event


class Fanout(Generic[E]):
    """Publishes to all readers. For one event loop; not for threads.

    Events are numbered from 1. Whoever publishes exactly one event for each revision of a view can take the number of
    the last one, `published`, for the view's revision.
    """

    def __init__(self, capacity: int = CAPACITY, journal: int = JOURNAL, journal_bytes: int = JOURNAL_BYTES) -> None:
        self.published = 0
        self.capacity = min(capacity, journal)
        self._journal = journal
        self._journal_bytes = journal_bytes
        self._events: deque[tuple[E | Lagged, int]] = deque()
        self._bytes = 0
        self._void_until = 0  # the number of the last LAGGED: who is before it starts again
        self._more: asyncio.Future[None] | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def oldest(self) -> int:
        """The number after which everything is still there: who has seen it can go on from it."""
        return max(self.kept_from, self._void_until)

    @property
    def kept_from(self) -> int:
        """The number after which the journal holds all events, those too that a LAGGED has made void."""
        return self.published - len(self._events)

    def subscribe(self) -> Subscription[E]:
        """A subscription that gets what is published from now on."""
        return Subscription(self)

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each event that is published; it must neither block nor raise."""
        self._listeners.append(listener)

    def publish(self, event: E | Lagged, size: int = 0) -> None:
        """Gives `event`, which takes `size` bytes, to every reader."""
        self._events.append((event, size))
        self._bytes += size
        self.published += 1
        while len(self._events) > self._journal or self._bytes > self._journal_bytes:
            self._bytes -= self._events.popleft()[1]
        if self._more is not None:
            self._wake()
        for listener in self._listeners:
            listener()

    def resync(self) -> None:
        """Makes every reader start again from the whole view."""
        self._void_until = self.published + 1
        self.publish(LAGGED)

    def at(self, place: int) -> E | Lagged:
        """The event behind `place`, or LAGGED where the journal no longer holds it."""
        behind = self.published - place
        return LAGGED if behind > len(self._events) else self._events[-behind][0]

    def since(self, place: int, limit: int) -> list[E] | Lagged:
        """At most `limit` events behind `place`, oldest first; LAGGED where the reader must start from the view."""
        if not self.oldest <= place <= self.published:
            return LAGGED
        start = len(self._events) - (self.published - place)
        if self.published - place <= limit:  # from the end, where it is short
            newest = islice(reversed(self._events), self.published - place)
            return [event for event, _ in newest if not isinstance(event, Lagged)][::-1]
        slice_ = islice(self._events, start, start + limit)
        return [event for event, _ in slice_ if not isinstance(event, Lagged)]

    async def more(self) -> None:
        """Returns once something has been published."""
        if self._more is None:
            self._more = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._more)

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set_result(None)
            self._more = None
