"""The connections to one origin: how they come to be, and what is told of them. Which one is used again: see Stock."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from gdsvc._stock import IdleStack, Stock
from gdsvc._stock import Tally as _Tally
from gdsvc.frontend.upstream.connection import Connection
from gdsvc.frontend.upstream.dialling import Dialler
from gdsvc.frontend.upstream.failures import Cause, Closed, UpstreamFailed
from gdsvc.frontend.upstream.limits import Limits
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.request import host_line
from gdsvc.frontend.upstream.room import Room

Tally: TypeAlias = _Tally[Connection, Cause]


class Pool(Stock[Connection, Cause]):
    """Give back every connection that `reuse` and `acquire` give, or abort it and `leave`."""

    def __init__(
        self, origin: Origin, limits: Limits, dialler: Dialler, tally: Tally, on_gone: Callable[["Pool"], None]
    ) -> None:
        room = Room(limits.connections)
        idle: IdleStack[Connection] = IdleStack(limits.idle, limits.idle_secs)
        clock = asyncio.get_running_loop().time
        super().__init__(host_line(origin), room, idle, tally, clock, limits.age_secs)
        self.origin = origin
        self._room = room
        self._limits = limits
        self._dialler = dialler
        self._on_gone = on_gone

    @property
    def is_unused(self) -> bool:
        return self._room.is_empty and not self.idle

    async def acquire(self, *, fresh: bool) -> Connection:
        """A connection that carries nothing; with `fresh` a new one. Raises UpstreamFailed and Closed."""
        if self.tally.is_closed:
            raise Closed
        if not self._room.try_enter():
            await self._wait_for_room()
        try:
            connection = None if fresh else self.take()
            return connection or await self._establish()
        except BaseException as error:
            if isinstance(error, UpstreamFailed):
                self.failed(error.cause)
            self.leave()
            raise

    def leave(self) -> None:
        """Gives the place of a connection back that is not used again."""
        self._room.leave()
        if self.is_unused:
            self._on_gone(self)

    def expire(self, now: float) -> None:
        """Closes what has been idle for too long."""
        for expired in self.idle.expire(now):
            expired.abort()
        if self.is_unused:
            self._on_gone(self)

    # ------------------------------------------------------------------ told by the connections

    def lost(self, connection: Connection) -> None:
        self.tally.open.discard(connection)
        self.idle.remove(connection)
        if self.is_unused:
            self._on_gone(self)

    def failed(self, cause: Cause) -> None:
        self.tally.failed[cause] += 1

    # ----------------------------------------------------------------------------- its own part

    async def _establish(self) -> Connection:
        connection = await self._dialler.dial(self.origin, self._make)
        if self.tally.is_closed:
            connection.abort()
            raise Closed
        self.tally.established += 1
        self.tally.open.add(connection)  # not before: uvloop does not say when one is lost that is still being made
        return connection

    def _make(self) -> Connection:
        return Connection(self.origin, self._limits, self)

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(self._limits.connect_secs):
                await self._room.enter()
        except TimeoutError:
            self.failed(Cause.NO_ROOM)
            detail = f"all {self._limits.connections} connections were busy for {self._limits.connect_secs:g} s"
            raise UpstreamFailed(Cause.NO_ROOM, self.origin, detail) from None
