"""When a heartbeat is due, how long it may take, and what state it is in. A machine: no I/O, no clock of its own.

A beat that fails is tried again inside the lease that the last good one was granted. One that is refused is not
expected to get better: it is tried at the usual pace while that lease holds, slowly after that.
"""

import random
from enum import Enum
from typing import Final

from msgspec import Struct

from gdsvc.client.link import Random, jittered
from gdsvc.model import Lease

SPREAD: Final = 0.2  # of the interval, by which a beat comes early at most: a fleet that starts together drifts apart
LEAST_RETRY_SECS: Final = 0.2  # after a first failure
REFUSED_SECS: Final = 60.0  # between tries while the service refuses and no lease holds: somebody has to act first
LEAST_BUDGET_SECS: Final = 1.0  # for one attempt, however little is left of the lease
LATE: Final = "no heartbeat was sent in time"
ASSUMED: Final = Lease(5, 15)  # until the service has granted one: its defaults


class HeartbeatStatus(Enum):
    """What a heartbeat's registration is to the service, as far as this side knows."""

    STARTING = "starting"  # nothing was granted yet
    REGISTERED = "registered"
    RETRYING = "retrying"  # the last attempt failed; the lease granted before still holds
    LAPSED = "lapsed"  # and has ended: the member is no longer listed
    REFUSED = "refused"  # the service says no; `reason` says why. What it had granted ends with its lease
    STOPPED = "stopped"  # the heartbeat was left


class HeartbeatState(Struct, frozen=True):
    """`reason` is why the last attempt failed or was refused; `lease` what was granted last; `url` by whom."""

    status: HeartbeatStatus
    reason: str | None = None
    lease: Lease | None = None
    url: str | None = None


class Schedule:
    """Instants are seconds of any one monotonic clock; `now` is passed in. Begins due at once."""

    def __init__(self, now: float, randomly: Random = random.random) -> None:
        self.due_at = now
        self.state = HeartbeatState(HeartbeatStatus.STARTING)
        self._randomly = randomly
        self._failures = 0
        self._sent_at = now
        self._lease_ends_at = now

    @property
    def _lease(self) -> Lease:
        return self.state.lease or ASSUMED

    def sent(self, now: float) -> float:
        """An attempt begins; the seconds that it may take.

        No longer than an interval, so that a connection that says nothing leaves time for another inside the lease;
        half of what is left where that is less.
        """
        self._sent_at = now
        budget = float(self._lease.heartbeat_interval_secs)
        left = self._lease_ends_at - now
        return max(LEAST_BUDGET_SECS, min(budget, left / 2) if left > 0 else budget)

    def granted(self, now: float, lease: Lease, url: str) -> None:
        """The attempt was good. The lease counts from its sending: when it arrived is not known here."""
        self._failures = 0
        self._lease_ends_at = self._sent_at + lease.lease_duration_secs
        self.due_at = max(now, self._sent_at + lease.heartbeat_interval_secs * (1 - SPREAD * self._randomly()))
        self.state = HeartbeatState(HeartbeatStatus.REGISTERED, None, lease, url)

    def failed(self, now: float, reason: str, retry_after_secs: float | None = None) -> None:
        """The attempt came to nothing; it is made again inside the lease, or where that has ended, every interval.

        Retry-After is honoured as far as the lease reaches.
        """
        lease = self._lease
        left = self._lease_ends_at - now
        pause = min(LEAST_RETRY_SECS * 2**self._failures, float(lease.heartbeat_interval_secs))
        if left > 0:
            pause = max(LEAST_RETRY_SECS, min(pause, left / 2))
        pause = jittered(pause, self._randomly)
        if retry_after_secs is not None:
            most = left * 0.75 if left > 0 else float(lease.lease_duration_secs)
            asked = retry_after_secs * (1 + SPREAD * self._randomly())  # others were told the same number
            pause = max(pause, min(asked, most))
        self._failures = min(self._failures + 1, 30)
        self.due_at = now + pause
        self._set(self._unlisted_or(HeartbeatStatus.RETRYING, now), reason)

    def refused(self, now: float, reason: str) -> None:
        """The service says no, and would say so again: to lose the lease that still holds, it has to mean it."""
        pause = self._lease.heartbeat_interval_secs if now < self._lease_ends_at else REFUSED_SECS
        self.due_at = now + jittered(pause, self._randomly)
        self._set(HeartbeatStatus.REFUSED, reason)

    def changed(self, now: float) -> None:
        """There is something new to say: due at once, whatever was said of the old."""
        self.due_at = now

    def lapses_at(self) -> float | None:
        """When the state changes by time alone: the lease ends while attempts fail."""
        return self._lease_ends_at if self.state.status is HeartbeatStatus.RETRYING else None

    def passed(self, now: float) -> None:
        """Time has passed; a lease may have ended without an attempt, where whoever embeds us held the loop up."""
        if self.state.status in (HeartbeatStatus.REGISTERED, HeartbeatStatus.RETRYING) and now >= self._lease_ends_at:
            self._set(HeartbeatStatus.LAPSED, self.state.reason or LATE)

    def stopped(self, reason: str | None = None) -> None:
        """No more attempts; `reason` is why taking the member out did not succeed, where that was tried."""
        self._set(HeartbeatStatus.STOPPED, reason)

    def _unlisted_or(self, status: HeartbeatStatus, now: float) -> HeartbeatStatus:
        if self.state.lease is None:
            return HeartbeatStatus.STARTING
        return status if now < self._lease_ends_at else HeartbeatStatus.LAPSED

    def _set(self, status: HeartbeatStatus, reason: str | None) -> None:
        self.state = HeartbeatState(status, reason, self.state.lease, self.state.url)
