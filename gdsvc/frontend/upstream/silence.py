"""Notices that nothing was heard for a while, with one timer for all exchanges that is set again only when it fires."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVarTuple

_SECOND_LOOK: Final = 0.005  # seconds; after a stall uvloop runs the timers before it reads what has waited


_Ts = TypeVarTuple("_Ts")


class Timer(Protocol):
    """What has not fired yet."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Of an event loop what is needed here."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[[*_Ts], object], /, *args: *_Ts) -> Timer: ...


def _no() -> bool:
    return False


class Silence:
    """Asks `expired` when nothing was heard for `limit` seconds of an exchange, and again where it answers False.

    `close` it at the end: until then a timer may hold it.
    """

    def __init__(self, loop: Timers, limit: float | None, expired: Callable[[], bool]) -> None:
        self._loop = loop
        self._limit = limit
        self._expired = expired
        self._heard_at = 0.0
        self._is_on = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """An exchange begins."""
        if self._limit is not None:
            self._is_on = True
            self._heard_at = self._loop.time()
            if self._timer is None:
                self._set(self._heard_at + self._limit, self._limit)

    def heard(self) -> None:
        """Something came, or went."""
        if self._is_on:
            self._heard_at = self._loop.time()

    def stop(self) -> None:
        """The exchange is over."""
        self._is_on = False

    def close(self) -> None:
        """No exchange will begin any more."""
        self._is_on = False
        self._expired = _no  # whose it was may have this as a part: both would be garbage of a cycle
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, at: float, limit: float, *, is_second: bool = False) -> None:
        self._timer = self._loop.call_at(at, self._look, limit, is_second)

    def _look(self, limit: float, is_second: bool) -> None:
        self._timer = None
        now = self._loop.time()
        if not self._is_on:
            return
        if now < self._heard_at + limit:
            self._set(self._heard_at + limit, limit)
        elif not is_second:
            self._set(now + _SECOND_LOOK, limit, is_second=True)
        elif not self._expired():
            self._heard_at = now
            self._set(now + limit, limit)
