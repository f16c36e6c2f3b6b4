"""A Lease of this replica's own, written wherever the watch has not told of any other write of ours for a second.

So a replica that hears no heartbeats knows, too, that its watch still tells it everything. Decides when to write it,
and when Leases that nobody has renewed for long are cleared away.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from gdsvc import tasks
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.echoes import Moment
from gdsvc.backends.kubernetes.leases import Member, Wanted
from gdsvc.backends.kubernetes.view import LeaseView
from gdsvc.backends.kubernetes.writer import Writer
from gdsvc.errors import GdsvcError

EVERY_SECS: Final = 1.0
FAREWELL_SECS: Final = 1.0  # for the API server to delete the Lease when the service stops
GRANTED_SECS: Final = 15  # nobody lists a replica: for people who look at it
SWEEP_EVERY_SECS: Final = 60.0


class Beacon:
    """`async with Beacon(writer, view, holder, now):` runs until left, then deletes its Lease if it can."""

    def __init__(self, writer: Writer, view: LeaseView, holder: str, now: Callable[[], Moment]) -> None:
        self._writer = writer
        self._view = view
        self.name = leases.replica_lease_name(holder)
        self._wanted = Wanted(Member.REPLICA, self.name, b"{}", GRANTED_SECS, holder)
        self._now = now
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._shine()), asyncio.create_task(self._sweep())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await tasks.cancelled(self._tasks)
        with suppress(GdsvcError, TimeoutError):
            async with asyncio.timeout(FAREWELL_SECS):
                await self._writer.take_out(self.name)

    async def flash(self) -> None:
        """Writes the Lease now. Raises Unavailable."""
        await self._writer.put(self._wanted)

    async def _shine(self) -> None:
        while True:
            with suppress(GdsvcError):  # that no echo comes says enough
                if self._now().monotonic - self._view.echoes.told_until.monotonic >= EVERY_SECS:
                    await self.flash()
            await asyncio.sleep(EVERY_SECS)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_SECS)
            for written in self._view.dead():
                with suppress(GdsvcError):
                    await self._writer.clear_away(written)
