"""Which heartbeats need no write, since every reader keeps the member for a whole lease from now all the same.

A renewal grants more than the lease: the lease and the part of it that heartbeats may pass in silence. So a heartbeat
that is not written within that part lets no reader drop the member before its lease has passed.

What counts is when a renewal was certainly not yet written: for our own, the moment before it was sent. For another
replica's, which our watch may tell late, the moment before we sent the last of our own that the watch had told by
then, since a watch tells in the order of writing. No clock of another machine is read.
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
        self._sent: dict[str, tuple[str, float]] = {}  # the last stamp of our own, and when it was about to be sent
        self._told_until = -inf  # whatever the watch tells from now on was written later

    def needs_no_write(self, name: str, granted_secs: int, now: float) -> bool:
        """Whether a heartbeat of `name` may go unwritten; its Lease grants `granted_secs`, by whichever replica."""
        spare_secs = min(self._unwritten_secs, granted_secs - self._lease_secs)
        return now - self._renewed_after.get(name, -inf) < spare_secs

    def sending(self, name: str, renewed: str, now: float) -> None:
        """A renewal with the stamp `renewed` is about to be sent."""
        if self._unwritten_secs:
            self._sent[name] = (renewed, now)

    def written(self, name: str) -> None:
        """The renewal that was sent last is written."""
        if name in self._sent:
            self._renew(name, self._sent[name][1])

    def told(self, name: str, renewed: str) -> None:
        """The watch tells of a renewal. Not for what a list holds, whose order is not that of writing."""
        stamp, sent_at = self._sent.get(name, ("", -inf))
        if stamp == renewed:
            self._told_until = max(self._told_until, sent_at)
        elif self._unwritten_secs:
            self._renew(name, self._told_until)

    def gone(self, name: str) -> None:
        """The Lease was deleted."""
        self._renewed_after.pop(name, None)
        self._sent.pop(name, None)

    def _renew(self, name: str, after: float) -> None:
        self._renewed_after[name] = max(after, self._renewed_after.get(name, -inf))
