"""Which heartbeats need no write, since every reader keeps the member for a whole lease from now all the same.

A renewal grants more than the lease: the lease and the part of it that heartbeats may pass in silence. So a heartbeat
that is not written within that part lets no reader drop the member before its lease has passed.

What counts is a moment at which the last renewal was certainly not yet written: for one of our own, when it was sent.
For another replica's, which our watch may tell late, up to when the watch had told everything by then (echoes.py).
"""

from math import ceil, inf


class Pacing:
    """`fraction` of `lease_secs` (0 to 1) may pass unwritten. Times are float seconds of one monotonic clock, which
    must not stand still while the process does."""

    def __init__(self, lease_secs: float, fraction: float) -> None:
        self._lease_secs = lease_secs
        self._unwritten_secs = lease_secs * fraction
        self.granted_secs: int = ceil(lease_secs * (1 + fraction))
        self._renewed_after: dict[str, float] = {}  # by the name of the Lease: its last renewal was written later

    def needs_no_write(self, name: str, granted_secs: int, now: float) -> bool:
        """Whether a heartbeat of `name` may go unwritten; its Lease grants `granted_secs`, by whichever replica."""
        spare_secs = min(self._unwritten_secs, granted_secs - self._lease_secs)
        return now - self._renewed_after.get(name, -inf) < spare_secs

    def renewed(self, name: str, after: float) -> None:
        """A renewal of `name` was written, and not before `after`."""
        if self._unwritten_secs and after > self._renewed_after.get(name, -inf):
            self._renewed_after[name] = after

    def gone(self, name: str) -> None:
        """The Lease was deleted."""
        self._renewed_after.pop(name, None)
