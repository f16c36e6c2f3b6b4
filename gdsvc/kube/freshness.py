"""Decides whether the view may still be called exact, from errors, confirmations and time passed in.

It does no I/O and never judges on its own: stale is decided when an error arrives, recovery by time when asked.
"""

from dataclasses import dataclass
from typing import assert_never

STALE_AFTER_SECS = 60.0  # from the first error of an unbroken row to the error that marks the view stale
RECOVERED_AFTER_SECS = 120.0  # without an error: twice the longest watch and then some, so somebody answered


@dataclass(frozen=True, slots=True)
class Fresh:
    """No row of errors is open."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A row of errors is open, not yet long enough."""

    first_error_at: float
    last_error_at: float


@dataclass(frozen=True, slots=True)
class Stale:
    """The row was long enough."""

    last_error_at: float


State = Fresh | Failing | Stale


class Freshness:
    """Every method takes `now` in float seconds of one monotonic clock, and answers whether `stale` changed."""

    def __init__(self) -> None:
        self.state: State = Fresh()

    @property
    def stale(self) -> bool:
        """Whether the view may lack what happened since."""
        return isinstance(self.state, Stale)

    def failed(self, now: float) -> bool:
        """Any error. The first one STALE_AFTER_SECS or more after the first of its row makes the view stale."""
        return self._move(_after_error(_after_time(self.state, now), now))

    def confirmed(self) -> bool:
        """A real change event or a completed relist: the row ends. Bookmarks and open sockets are neither."""
        return self._move(Fresh())

    def elapsed(self, now: float) -> bool:
        """Time passed: RECOVERED_AFTER_SECS without an error end the row."""
        return self._move(_after_time(self.state, now))

    def _move(self, state: State) -> bool:
        was_stale, self.state = self.stale, state
        return self.stale != was_stale


def _after_error(state: State, now: float) -> State:
    match state:
        case Fresh():
            return Failing(now, now)
        case Failing(first_error_at=first):
            return Stale(now) if now - first >= STALE_AFTER_SECS else Failing(first, now)
        case Stale():
            return Stale(now)
        case _:
            assert_never(state)


def _after_time(state: State, now: float) -> State:
    match state:
        case Fresh():
            return state
        case Failing(last_error_at=last) | Stale(last_error_at=last):
            return Fresh() if now - last >= RECOVERED_AFTER_SECS else state
        case _:
            assert_never(state)
