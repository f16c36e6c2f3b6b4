"""What stores of leased members have in common: leases, and completeness once everybody had a lease's time to register.

The leases are judged by one LeaseClock, and one Pulse (pulse.py) drives them.
"""

from math import inf
from typing import TypeVar

from gdsvc._listed import Listed
from gdsvc.backends.indexed import IndexedDirectory, Members, OnChange, ignore
from gdsvc.model import Lease
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness

Item = TypeVar("Item")
Key = TypeVar("Key")

EXPIRY_SLICE = 1000  # members taken out in one step: about 3 ms of the loop, and fewer events than the fanout holds


class LeasedStore(IndexedDirectory[Item, Key]):
    """What pools and router replicas have in common: they live by a lease."""

    def __init__(
        self,
        members: Members[Item, Key],
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = ignore,
    ) -> None:
        super().__init__(members, on_change)
        self._lease = lease
        self._ttl = float(lease.lease_duration_secs)
        self._clock = clock
        self._started_at = started_at
        self._due_at = -inf  # until then, time alone changes nothing here; always due while not complete
        self.new: int = 0
        self.changed: int = 0
        self.deregistered: int = 0
        self.conflicts: int = 0

    # -- what differs between the members

    def _left(self, listed: Listed, how: str, cause: str, source: str | None) -> None:
        """Called when a member is gone."""

    def _show_due(self, now: float) -> float:
        """Shows what was held back until now; when there is more to show, inf for never."""
        del now
        return inf

    # -- reading

    @property
    def lease(self) -> Lease:
        """What every registration is granted."""
        return self._lease

    def advance(self) -> float:
        """Brings everything that time alone changes up to now; returns in how many seconds a lease ends next.

        Ends at most EXPIRY_SLICE leases; 0 where more are due.
        """
        now = self._clock.now()
        if self._completeness is Completeness.ESTIMATED and self._clock.heard_secs() >= self._ttl:
            self._complete_as(Completeness.EXACT)
        shown_at = self._show_due(now)
        if self._index.next_deadline <= now:
            for listed in self._index.expire(now, EXPIRY_SLICE):
                self._gone(listed, "expired", f"no heartbeat came for {self._ttl:g} s")
        if self._completeness is Completeness.EXACT:
            self._due_at = min(self._index.next_deadline, shown_at)
        return max(0.0, self._index.next_deadline - now)

    def view(self) -> tuple[int, Completeness]:
        """Revision and completeness, brought up to now."""
        if self._clock.now() >= self._due_at:
            self.advance()
        return self._index.revision, self._completeness

    def sources(self) -> tuple[Source, ...]:
        """Registrations are the one source here."""
        complete = self._completeness is Completeness.EXACT
        detail = (
            "every member alive has had a lease's time to register" if complete else "less than a lease since start"
        )
        return (Source(f"{self._members.name}-registrations", complete, self._started_at, detail),)

    # -- writing

    async def renew(self, body: bytes, source: str | None = None) -> bool:
        """Renews the member whose last registration had exactly these bytes; False: register it."""
        return self._index.renew(body, self._clock.now(), self._ttl, source)

    def _beat(self, key: bytes, body: bytes | None, source: str | None, now: float, *, fresh: bool) -> None:
        self._index.beat(key, body, now, self._ttl, fresh, source)
        if now + self._ttl < self._due_at:
            self._due_at = now + self._ttl

    def _deregister(self, key: bytes, source: str | None) -> bool:
        self.advance()  # what has lapsed is not there to be taken out
        listed = self._index.remove(key)
        if listed is None:
            return False
        self.deregistered += 1
        self._gone(listed, "deregistered", "taken out by a DELETE", source)
        return True

    def _gone(self, listed: Listed, how: str, cause: str, source: str | None = None) -> None:
        self._left(listed, how, cause, source)
        self._publish_removal(listed)
        self._tell(how, listed.item)
