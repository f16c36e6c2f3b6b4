"""Keeps a catalog at what a directory of pools shows, and publishes each one that differs from the last.

Decides how changes are batched. What they make of the catalog is decided in catalog.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gdsvc.frontend.catalog import NOTHING_YET, Catalog, after
from gdsvc.model import PoolKey, PoolListing
from gdsvc.pool_discovery.directory import PoolDirectory
from gdsvc.pool_discovery.watch import Event

BREATH_SECS: Final = 0.01  # between two catalogs: a burst of changes becomes a few; the first of it is not delayed


class Following:
    """Moves a catalog along with a directory. `publish` is called in the loop, with whole catalogs only."""

    def __init__(self, directory: PoolDirectory, publish: Callable[[Catalog], None]) -> None:
        self._directory = directory
        self._publish = publish
        self._catalog = NOTHING_YET
        self._pending: list[Event[PoolListing, PoolKey]] = []
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Follows until it is cancelled, or until the directory ends its watch. What it raises is in a group."""
        async with asyncio.TaskGroup() as tasks:
            applying = tasks.create_task(self._apply())
            async for event in self._directory.list_and_watch():
                self._pending.append(event)
                self._news.set()
            applying.cancel()
        self._take_in()

    async def _apply(self) -> None:
        while True:
            await self._news.wait()
            self._take_in()
            await asyncio.sleep(BREATH_SECS)

    def _take_in(self) -> None:
        self._news.clear()
        events, self._pending = self._pending, []
        catalog = after(self._catalog, events)
        if catalog is not self._catalog:
            self._catalog = catalog
            self._publish(catalog)
