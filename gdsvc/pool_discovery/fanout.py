"""One publisher, any number of bounded subscribers: a shared ring of events in which each subscriber has a place.

A subscriber that reads too slowly costs no memory and delays nobody: its place falls off the ring and it is told
so. What it then does (take the whole view again) is its own affair.
"""

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

E = TypeVar("E")

CAPACITY = 1024  # events a subscriber may be behind,
CAPACITY_BYTES = 16 * 1024 * 1024  # and their bytes: a thousand events of ordinary pools are half a MiB


class Lagged:
    """Told instead of an event: some were missed or are void; start again from the whole view as it is now."""


LAGGED: Final = Lagged()


class Subscription(Generic[E]):
    """A place in the ring of a Fanout; `next` gives the events from there on."""

    def __init__(self, fanout: "Fanout[E]") -> None:
        self._fanout = fanout
        self._place = fanout.published

    async def next(self) -> E | Lagged:
        """The next event, as soon as there is one; LAGGED where the subscriber must start from the whole view."""
        while self._place == self._fanout.published:
            await self._fanout.more()
        event = self._fanout.at(self._place)
        if isinstance(event, Lagged):
            self._place = self._fanout.published
        else:
            self._place += 1
        return event


class Fanout(Generic[E]):
    """Publishes to all subscriptions. For one event loop; not for threads."""

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.published = 0
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._ring: deque[tuple[E | Lagged, int]] = deque()
        self._bytes = 0
        self._more: asyncio.Future[None] | None = None

    def subscribe(self) -> Subscription[E]:
        """A subscription that gets what is published from now on."""
        return Subscription(self)

    def publish(self, event: E | Lagged, size: int = 0) -> None:
        """Gives `event`, which takes `size` bytes, to every subscription."""
        self._ring.append((event, size))
        self._bytes += size
        self.published += 1
        while len(self._ring) > self._capacity or self._bytes > self._capacity_bytes:
            self._bytes -= self._ring.popleft()[1]
        if self._more is not None:
            self._wake()

    def resync(self) -> None:
        """Makes every subscription start again from the whole view."""
        self.publish(LAGGED)

    def at(self, place: int) -> E | Lagged:
        """The event at `place`, or LAGGED where the ring no longer holds it."""
        behind = self.published - place
        return LAGGED if behind > len(self._ring) else self._ring[-behind][0]

    async def more(self) -> None:
        """Returns once something has been published."""
        if self._more is None:
            self._more = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._more)

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set_result(None)
            self._more = None
