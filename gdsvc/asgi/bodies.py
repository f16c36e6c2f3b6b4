"""Reads the bodies of all requests within limits that hold for all of them together, in memory and in time.

A caller that sends a byte a minute holds a connection and what has come so far; thousands of them would hold the
service.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Any, Final

from gdsvc.asgi.body import BodyTooSlow, Budget, read_body
from gdsvc.asgi.types import Receive, Scope

BODY_SECS: Final = 30.0  # 2 MiB over a line of 1 Mbit/s take 17
BUDGET_BYTES: Final = 256 * 1024 * 1024  # a hundred bodies of the default limit that arrive at once


class Bodies:
    """Reads bodies of at most `limit` bytes each. `advance()`, called by a pulse, ends those that take too long."""

    def __init__(self, limit: int, *, secs: float = BODY_SECS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._secs = secs
        self._monotonic = monotonic
        self._budget = Budget(max(BUDGET_BYTES, limit))
        self._reading: OrderedDict[asyncio.Task[Any] | None, float] = OrderedDict()  # since when, the oldest first
        self._overdue: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. Raises BodyTooLarge, BodyTooSlow, Disconnected, Unavailable."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)  # told the loop, it need not ask the kernel whether this is a fork
        self._reading[task] = self._monotonic()
        try:
            return await read_body(scope, receive, self._limit, self._budget)
        except asyncio.CancelledError:
            if task is None or task not in self._overdue:
                raise
            self._overdue.discard(task)
            task.uncancel()
            raise BodyTooSlow(f"the body did not arrive within {self._secs:g} s") from None
        finally:
            self._reading.pop(task, None)

    def advance(self) -> float:
        """Ends what has been read for too long; never asks for a beat of its own."""
        overdue_since = self._monotonic() - self._secs
        while self._reading:
            task, since = next(iter(self._reading.items()))
            if since > overdue_since:
                break
            del self._reading[task]
            if task is not None:
                self._overdue.add(task)
                task.cancel()
        return inf
