"""Finds out that callers leave: `receive` is asked for requests that have been in hand for a while.

To ask costs more than to forward a short request, and most of them are answered sooner. `receive` does not see who
leaves with bytes sent behind its request: therefore the kernel is asked as well. A caller that ends its stream and
still reads has left by both.
"""

import asyncio
from collections.abc import Hashable
from typing import Any, Final, Protocol

from gdsvc.asgi.hangups import Hangups
from gdsvc.asgi.types import Receive

LOOK_SECS: Final = 0.05  # a caller's leaving is noticed at once when its request is older than two of these


class Waiting(Hashable, Protocol):
    """A request in hand whose body has come."""

    @property
    def client(self) -> tuple[str, str]: ...
    @property
    def receive(self) -> Receive: ...

    def left(self) -> None:
        """The caller has left. Told once."""
        ...


class Departures:
    """`watch` a request once its body has come, and `end` it in any case."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._young: dict[Waiting, None] = {}  # since the last look
        self._old: dict[Waiting, None] = {}  # since the one before
        self._asking: dict[Waiting, asyncio.Task[Any]] = {}
        self._hangups = Hangups[Waiting](self._hung_up)
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, waiting: Waiting) -> None:
        """Tells `waiting` when its caller leaves, from soon on."""
        self._young[waiting] = None
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECS, self._look)

    def end(self, waiting: Waiting) -> None:
        """Tells it no more."""
        if waiting in self._young:
            del self._young[waiting]
        elif waiting in self._old:
            del self._old[waiting]
        elif (asking := self._asking.pop(waiting, None)) is not None:
            asking.cancel()
            self._hangups.forget(waiting)

    def _look(self) -> None:
        for waiting in self._old:
            self._asking[waiting] = self._loop.create_task(self._ask(waiting))
            self._hangups.watch(waiting)
        self._old, self._young = self._young, {}
        self._timer = self._loop.call_later(LOOK_SECS, self._look) if self._old else None

    async def _ask(self, waiting: Waiting) -> None:
        while (await waiting.receive())["type"] != "http.disconnect":
            pass
        self._hangups.forget(waiting)
        waiting.left()

    def _hung_up(self, waiting: Waiting) -> None:
        self._asking.pop(waiting).cancel()
        waiting.left()
