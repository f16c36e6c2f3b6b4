"""The whole views that watchers start from: as few of them in memory as may be, however many readers are slow."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gdsvc.http.lists import Lists
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.watch import EncodedEvent

HELD = 8  # views that are being written at once; a view of 10,000 pools has 5 MB


class Snapshots:
    """Gives out list bodies with their revisions and counts who is still writing which."""

    def __init__(self, lists: Lists, changes: Fanout[EncodedEvent]) -> None:
        self._lists = lists
        self._changes = changes
        self._held: dict[tuple[Filter, int], bytes] = {}
        self._holders: dict[tuple[Filter, int], int] = {}
        self._released = asyncio.Event()

    @property
    def held(self) -> int:
        """Views that somebody is still writing."""
        return len(self._held)

    @asynccontextmanager
    async def take(self, where: Filter) -> AsyncGenerator[tuple[int, bytes]]:
        """The body of the list of `where` and its revision, to be written while inside. Raises Unavailable.

        The newest, as long as fewer than HELD are being written. Beyond that one of these, if the changes since then
        are still there to be written after it; else this waits until one is let go.
        """
        revision, body = await self._choose(where)
        held = where, revision
        self._held[held] = body
        self._holders[held] = self._holders.get(held, 0) + 1
        try:
            yield revision, self._held[held]
        finally:
            self._holders[held] -= 1
            if not self._holders[held]:
                del self._holders[held], self._held[held]
                self._released.set()

    async def _choose(self, where: Filter) -> tuple[int, bytes]:
        while True:
            if len(self._held) < HELD:
                return await self._lists.current(where)
            usable = [held for held in self._held if held[0] == where and held[1] >= self._changes.oldest]
            if usable:
                newest = max(usable, key=lambda held: held[1])
                return newest[1], self._held[newest]
            self._released.clear()
            await self._released.wait()
