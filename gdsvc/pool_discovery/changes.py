"""What happened to members, said in the log: a line for each, up to a number a second, then one line for the rest."""

import time
from collections.abc import Callable
from math import inf
from typing import Final

from gdsvc import logs

LINES_A_WINDOW: Final = 50  # a restart of a large fleet must not spend its first second on writing
WINDOW_SECS: Final = 1.0

log = logs.get("gdsvc.changes")


class ChangeLog:
    """Takes what happened to members. `advance()`, called by a Pulse, writes what was counted instead of written."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._window_ends_at = -inf
        self._lines = 0
        self._counted: dict[str, int] = {}

    def __call__(self, event: str, key: bytes) -> None:
        """Writes what happened to the member of `key`, or counts it where this window has had its lines.

        `event` is the log event, such as `pool.registered`; `key` is a sort key: names with NUL between them.
        """
        if self._monotonic() >= self._window_ends_at:
            self.advance()
        if self._lines < LINES_A_WINDOW:
            self._lines += 1
            log.info(event, key=key.decode().replace("\0", "/"))
        else:
            self._counted[event] = self._counted.get(event, 0) + 1

    def advance(self) -> float:
        """Ends the window where its time is over; never asks for a beat of its own."""
        now = self._monotonic()
        if now >= self._window_ends_at:
            self._window_ends_at = now + WINDOW_SECS
            self._lines = 0
            for event, count in self._counted.items():
                log.info(event, more=count)
            self._counted.clear()
        return inf
