"""What stores of leased members have in common: an index, leases, completeness, watchers.

One step from what arrives to what watchers hear: nothing awaits between a change of the index and its event, so a
view and its deltas cannot disagree, and an event's number is the revision it leads to. The leases are judged by one
LeaseClock, and one Pulse (pulse.py) drives them.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from math import inf
from typing import Generic, TypeVar

from gdsvc._listed import Listed
from gdsvc._pool_index import PoolIndex
from gdsvc.model import Lease
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.fanout import Fanout, Lagged, Subscription
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import (
    Completeness,
    EncodedEvent,
    EncodedRemoval,
    EncodedUpsert,
    Event,
    Facets,
    Items,
    Removed,
    Resync,
    Snapshot,
    Upserted,
)

Item = TypeVar("Item")
Key = TypeVar("Key")

EXPIRY_SLICE = 1000  # members taken out in one step: about 3 ms of the loop, and fewer events than the fanout holds

OnChange = Callable[[str, bytes], None]  # told the log event and the sort key of the member, such as a ChangeLog


def ignore(event: str, key: bytes) -> None:
    """The OnChange of who does not care."""
    del event, key


class LeasedStore(ABC, Generic[Item, Key]):
    """What pools and router replicas have in common: an index, leases, completeness and watchers."""

    def __init__(
        self,
        kind: str,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = ignore,
    ) -> None:
        self._lease = lease
        self._ttl = float(lease.lease_duration_secs)
        self._clock = clock
        self._on_change = on_change
        self._kind = kind
        self._started_at = started_at
        self._index = PoolIndex(secrets.randbits(64))
        self._fanout: Fanout[EncodedEvent] = Fanout()
        self._completeness = Completeness.ESTIMATED
        self._due_at = -inf  # until then, time alone changes nothing here; always due while not complete
        self.new: int = 0
        self.changed: int = 0
        self.deregistered: int = 0
        self.conflicts: int = 0

    # -- what differs between the members

    @abstractmethod
    def _decode(self, encoded: bytes) -> Item: ...

    @abstractmethod
    def _key(self, key: bytes) -> Key: ...

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

    @property
    def index(self) -> PoolIndex:
        """For counters only."""
        return self._index

    @property
    def changes(self) -> Fanout[EncodedEvent]:
        """What is published; the number of an event is the revision that it leads to."""
        return self._fanout

    @property
    def completeness(self) -> Completeness:
        """As of the last step in time."""
        return self._completeness

    def advance(self) -> float:
        """Brings everything that time alone changes up to now; returns in how many seconds a lease ends next.

        Ends at most EXPIRY_SLICE leases; 0 where more are due.
        """
        now = self._clock.now()
        if self._completeness is Completeness.ESTIMATED and self._clock.heard_secs() >= self._ttl:
            self._completeness = Completeness.EXACT
            self._index.bump()
            self._fanout.resync()
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
        return (Source(f"{self._kind}-registrations", complete, self._started_at, detail),)

    async def list(self) -> Snapshot[Item]:
        """Every member whose lease holds."""
        return self._snapshot()

    async def list_and_watch(self) -> AsyncIterator[Event[Item, Key]]:
        """A Resync, then every change."""
        subscription, resync = self._resync()
        yield resync
        while True:
            match await subscription.next():
                case EncodedUpsert(encoded=encoded):
                    yield Upserted(self._decode(encoded))
                case EncodedRemoval(key=key):
                    yield Removed(self._key(key))
                case Lagged():
                    subscription, resync = self._resync()
                    yield resync

    def _resync(self) -> tuple[Subscription[EncodedEvent], Resync[Item]]:
        """The whole view, and a place behind all that taking it has published."""
        snapshot = self._snapshot()
        return self._fanout.subscribe(), Resync(snapshot)

    def _snapshot(self) -> Snapshot[Item]:
        revision, completeness = self.view()
        return Snapshot(Items(self._index.listings(), self._decode), completeness, revision)

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
        key = listed.item
        self._left(listed, how, cause, source)
        self._fanout.publish(EncodedRemoval(key, Facets(listed.model, listed.region)), len(key))
        self._tell(how, key)

    def _tell(self, happened: str, key: bytes) -> None:
        self._on_change(f"{self._kind}.{happened}", key)
