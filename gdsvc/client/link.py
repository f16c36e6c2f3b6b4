"""The line to the service as a machine: how long to wait before the next attempt, and when its word is too old.

Does no I/O and holds no clock. Only progress makes it patient again, never a socket that opens.
"""

import random
from collections.abc import Callable
from typing import Final

LEAST_SECS: Final = 0.2  # the pause after a first failure: one connection cut is no outage
MOST_SECS: Final = 15.0  # one lease: later than that after a restart, everything there is would be news
STEADY_SECS: Final = 10.0  # a stream that has lived so long was worth opening, though nothing changed
STALE_SECS: Final = 60.0  # without the service's word, after which a view is an estimate
MOST_TOLD_SECS: Final = 60.0  # of a pause that the service asks for

Random = Callable[[], float]


def jittered(secs: float, randomly: Random) -> float:
    """Between half of `secs` and all of it: who failed together does not come back together."""
    return secs * (0.5 + 0.5 * randomly())


class Link:
    """`randomly` gives numbers from 0 to below 1. Instants are seconds of any one monotonic clock."""

    def __init__(self, randomly: Random = random.random) -> None:
        self.stale = False
        self.randomly = randomly
        self._failures = 0
        self._failing_since: float | None = None
        self._opened_at = 0.0
        self._told_secs = 0.0

    def opened(self, now: float) -> None:
        """A stream begins."""
        self._opened_at = now

    def heard(self, now: float, *, moved: bool) -> None:
        """The service gave its word for the whole view: an event, a list, or the id that the view has reached.

        `moved`: and the view moved with it, which is progress. A server that says the same and closes is backed off.
        """
        self.stale = False
        self._failing_since = None
        if moved or now - self._opened_at >= STEADY_SECS:
            self._failures = 0

    def told(self, secs: float) -> None:
        """The service named the pause to make before coming back; it holds until it names another."""
        self._told_secs = min(secs, MOST_TOLD_SECS)

    def failed(self, now: float) -> float:
        """An attempt, or a stream, came to its end. The seconds to wait; `stale` may be True from now on."""
        if self._failing_since is None:
            self._failing_since = now
        self.stale = self.stale or now - self._failing_since >= STALE_SECS
        pause = jittered(min(MOST_SECS, LEAST_SECS * 2**self._failures), self.randomly)
        self._failures = min(self._failures + 1, 30)
        return max(pause, self._told_secs)
