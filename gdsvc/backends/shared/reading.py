"""The time that leases from a shared store are judged by, and how far its reader is to be trusted. Reads no clock.

A lease ends only by a pass of reading that began after its end: what nobody has looked for is not gone. While passes
fail, time stands, since a renewal could not be seen; and after STALE_SECS of it the view is no longer complete.
"""

from enum import Enum
from math import inf

STALE_SECS = 60.0  # of failing passes, after which the view is kept but not complete


class Trust(Enum):
    """What is to be thought of the view."""

    UNREAD = "nothing has been read yet"
    YOUNG = "less than a lease since the first reading"
    WHOLE = "every member alive has had a lease's time to be seen"
    STALE = "reading has failed for a minute or more; this is what was seen last"


class ReadingTime:
    """Lease time less the time in which reading failed. `at` is lease time in seconds (LeaseClock), never running back.

    `every_secs`: how long after one pass the next is due; so much of a failing stretch counts all the same, or passes
    that fail now and then would make the dead immortal.
    """

    def __init__(self, lease_secs: float, every_secs: float) -> None:
        self._lease_secs = lease_secs
        self._every_secs = every_secs
        self._first_judged_at = inf
        self._read_at = 0.0  # when the last pass that went well began
        self._failing_since = inf
        self._stood = 0.0
        self._latest = 0.0

    def read(self, began_at: float) -> None:
        """A pass that began at `began_at` saw everything that had been written by then."""
        if self._failing_since < inf:
            self._stood += max(0.0, began_at - self._read_at - self._every_secs)
        self._failing_since = inf
        self._read_at = max(self._read_at, began_at)
        self._first_judged_at = min(self._first_judged_at, self.judged_at)

    def unread(self, at: float) -> None:
        """A pass failed that began at `at`."""
        self._failing_since = min(self._failing_since, at)

    def heard_at(self, at: float) -> float:
        """When a heartbeat that comes at `at` was heard, in the time that leases are judged by."""
        self._latest = max(self._latest, min(at, self._failing_since) - self._stood)
        return self._latest

    @property
    def judged_at(self) -> float:
        """Leases that end until then have ended."""
        return self._read_at - self._stood

    def trust(self, at: float) -> Trust:
        """How far the view is to be trusted at `at`."""
        if self._first_judged_at == inf:
            return Trust.UNREAD
        if at - self._failing_since >= STALE_SECS:
            return Trust.STALE
        whole = self.judged_at - self._first_judged_at >= self._lease_secs
        return Trust.WHOLE if whole else Trust.YOUNG
