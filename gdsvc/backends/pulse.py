"""Drives what time alone changes: ticks the lease clock and lets the stores end leases, on the event loop's timers."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from gdsvc.pool_discovery.lease_clock import TICK_SECS, LeaseClock

PAUSE_SECS = 0.005  # between two slices of a mass expiry, so that requests get their turn
EARLIEST_SECS = 0.001  # the loop's timers count milliseconds


class Advancing(Protocol):
    """A store, as far as a pulse knows it."""

    def advance(self) -> float:
        """Does one bounded step; in how many seconds the next is due, 0 where it is due already."""
        ...


class Pulse:
    """`async with Pulse(clock, stores)`: beats every TICK_SECS, and earlier where a lease ends earlier."""

    def __init__(self, clock: LeaseClock, stores: Sequence[Advancing]) -> None:
        self._clock = clock
        self._stores = stores
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Pulse":
        self._beat()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._clock.tick()
        due_in = min(map(self._advance, self._stores), default=TICK_SECS)
        delay = PAUSE_SECS if due_in == 0 else min(TICK_SECS, due_in + EARLIEST_SECS)
        self._timer = asyncio.get_running_loop().call_later(delay, self._beat)

    def _advance(self, store: Advancing) -> float:
        """One step of one store; a store that fails is told of, and keeps neither the others nor its next step back."""
        try:
            return store.advance()
        except Exception as error:  # noqa: BLE001  whatever it is, leases must go on ending
            context = {"message": "a store failed to advance", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return TICK_SECS
