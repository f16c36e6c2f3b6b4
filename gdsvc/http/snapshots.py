"""The whole views that watchers start from: as few bytes of them in memory as may be, however many readers are slow."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from gdsvc.http.lists import Lists
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.watch import EncodedEvent

HELD_BYTES: Final = 64 * 1024 * 1024  # of views that are being written at once; one of 10,000 pools has 5 MB


class _View:
    """A list body that `writers` are still writing."""

    def __init__(self, revision: int, body: bytes) -> None:
        self.revision = revision
        self.body = body
        self.writers = 0


class Snapshots:
    """Gives out list bodies with their revisions and counts who is still writing which, and who waits for one."""

    def __init__(self, lists: Lists, changes: Fanout[EncodedEvent]) -> None:
        self._lists = lists
        self._changes = changes
        self._held: dict[tuple[Filter, int], _View] = {}
        self._held_bytes = 0
        self.waiting = 0  # watchers that cannot start until a view is let go
        self._let_go = asyncio.Event()

    @property
    def held(self) -> int:
        """Views that somebody is still writing."""
        return len(self._held)

    @asynccontextmanager
    async def take(self, where: Filter) -> AsyncGenerator[tuple[int, bytes]]:
        """The body of the list of `where` and its revision, to be written while inside. Raises Unavailable.

        The newest, where it and all that are being written have HELD_BYTES at most, or none is being written. Else one
        of these, if the changes since then are still there to be written after it; else this waits until one is let go.
        """
        view = await self._choose(where)
        view.writers += 1
        try:
            yield view.revision, view.body
        finally:
            view.writers -= 1
            if not view.writers:
                del self._held[where, view.revision]
                self._held_bytes -= len(view.body)
                self._let_go.set()

    async def _choose(self, where: Filter) -> _View:
        while True:
            if self._held_bytes < HELD_BYTES:
                revision, body = await self._lists.current(where)
                view = self._held.get((where, revision))  # looked at after the list was made: others came meanwhile
                if view is not None:
                    return view
                if not self._held or self._held_bytes + len(body) <= HELD_BYTES:
                    view = self._held[where, revision] = _View(revision, body)
                    self._held_bytes += len(body)
                    return view
                del body  # or each that waits would hold one
            usable = [view for (wanted, _), view in self._held.items() if wanted == where and self._is_usable(view)]
            if usable:
                return max(usable, key=lambda view: view.revision)
            self._let_go.clear()
            self.waiting += 1
            try:
                await self._let_go.wait()
            finally:
                self.waiting -= 1

    def _is_usable(self, view: _View) -> bool:
        return view.revision >= self._changes.oldest
