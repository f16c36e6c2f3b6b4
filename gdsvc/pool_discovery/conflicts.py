"""Tells a pool that changes from relays that disagree about it: the payloads lately received for one key.

A payload that comes back within a lease after another took its place is a flip. Beyond `FREE_FLIPS` of them in a
lease the key is disputed, and whoever shows it should show at most one change a `SHOW_EVERY_SECS`.
"""

from math import inf
from typing import Generic, TypeVar

Held = TypeVar("Held")

OTHERS = 4  # other payloads remembered
FREE_FLIPS = 3  # flips in a lease that are still shown at once
SHOW_EVERY_SECS = 1.0


class Payloads(Generic[Held]):
    """What was received for one key lately, as hashes of the payloads' encodings; `now` is lease time in seconds.

    `shown_at` and `held`, the newest payload where it waits to be shown, are kept here for whoever shows the key.
    """

    __slots__ = ("_flipped_at", "_lease_secs", "_others", "changed_at", "flips", "held", "shown_at")

    def __init__(self, lease_secs: float) -> None:
        self._lease_secs = lease_secs
        self._others: tuple[tuple[int, float], ...] = ()  # (payload, last seen at), the newest last
        self._flipped_at: tuple[float, ...] = ()
        self.changed_at = self.shown_at = -inf
        self.flips = 0
        self.held: Held | None = None

    def changed(self, payload: int, replaced: int, replaced_seen_at: float, now: float) -> bool:
        """Notes that `payload` came instead of `replaced`; True where it is a flip."""
        flip = any(other == payload and now - seen_at < self._lease_secs for other, seen_at in self._others)
        others = [kept for kept in self._others if kept[0] not in (payload, replaced)]
        self._others = (*others, (replaced, replaced_seen_at))[-OTHERS:]
        self.changed_at = now
        if flip:
            self.flips += 1
            self._flipped_at = (*self._flipped_at, now)[-(FREE_FLIPS + 1) :]
        return flip

    def showable_at(self, now: float) -> float:
        """When a change received at `now` may be shown: now, or later where the key is disputed."""
        disputed = len(self._flipped_at) > FREE_FLIPS and now - self._flipped_at[0] < self._lease_secs
        return max(now, self.shown_at + SHOW_EVERY_SECS) if disputed else now

    def forgettable(self, now: float) -> bool:
        """Whether a lease has passed since the last change, so that none of this can matter any more."""
        return self.held is None and now - self.changed_at >= self._lease_secs
