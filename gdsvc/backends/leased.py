"""What stores of leased members have in common, wherever registrations are kept: leases, their ends, what is counted.

What a member is, registered.py says; when its lease is judged, and when a list is complete, the store itself
(memory.py, shared/). One Pulse (pulse.py) drives them.
"""

from abc import abstractmethod
from math import inf
from typing import Generic, TypeVar

from gdsvc._listed import Listed
from gdsvc.backends.indexed import IndexedDirectory, Members, OnChange, ignore
from gdsvc.model import Lease
from gdsvc.pool_discovery.lease_clock import LeaseClock

Item = TypeVar("Item")
Key = TypeVar("Key")
Payload = TypeVar("Payload")

EXPIRY_SLICE = 1000  # members taken out in one step: about 3 ms of the loop, and fewer events than the fanout holds


class LeasedStore(IndexedDirectory[Item, Key], Generic[Item, Key, Payload]):
    """What pools and router replicas have in common: they register with a payload and live by a lease."""

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

    @abstractmethod
    def _name(self, key: Key) -> bytes:
        """The sort key of `key`. Raises Conflict where what it names is not to be changed."""

    @abstractmethod
    def _named(self, payload: Payload) -> bytes:
        """The sort key of what `payload` registers. Raises Conflict where that is not to be changed."""

    @abstractmethod
    def _take(self, name: bytes, payload: Payload, source: str | None, cause: str, now: float) -> bool:
        """Shows what `payload` says, of which `cause` tells whence; False where it says nothing new."""

    @abstractmethod
    def _says(self, name: bytes, payload: Payload) -> bool:
        """Whether `payload` is the newest that is known of `name`."""

    def _is_fixed(self, name: bytes) -> bool:
        """Whether `name` is listed whatever registers, or does not."""
        del name
        return False

    def _admit(self, name: bytes) -> None:
        """Called before `name` registers. Raises LimitReached where there is no place for it."""

    def _left(self, listed: Listed, how: str, cause: str, source: str | None) -> None:
        """Called when a member is gone."""

    def _show_due(self, now: float) -> float:
        """Shows what was held back until now; when there is more to show, inf for never."""
        del now
        return inf

    # -- what differs between the storages

    @abstractmethod
    def advance(self) -> float:
        """Brings everything that time alone changes up to now; in how many seconds the next step is due."""

    def _now(self) -> float:
        """The time at which a heartbeat that comes now was heard, in the seconds that leases are judged by."""
        return self._clock.now()

    def _ttl_of(self, name: bytes) -> float:
        """How long the lease of `name` lasts, in seconds, as whoever took its last heartbeat granted it."""
        del name
        return self._ttl

    # -- how

    @property
    def lease(self) -> Lease:
        """What every registration is granted."""
        return self._lease

    def _beat(self, key: bytes, body: bytes | None, source: str | None, now: float, *, fresh: bool) -> None:
        ttl = self._ttl_of(key)
        self._index.beat(key, body, now, ttl, fresh, source)
        if now + ttl < self._due_at:
            self._due_at = now + ttl

    def _end_leases(self, until: float) -> None:
        """Takes out those whose lease has ended, at most EXPIRY_SLICE of them."""
        if self._index.next_deadline <= until:
            for listed in self._index.expire(until, EXPIRY_SLICE):
                self._gone(listed, "expired", f"no heartbeat came for {self._ttl_of(listed.item):g} s")

    def _deregister(self, name: bytes, cause: str, source: str | None = None) -> bool:
        listed = self._index.remove(name)
        if listed is None:
            return False
        self.deregistered += 1
        self._gone(listed, "deregistered", cause, source)
        return True

    def _gone(self, listed: Listed, how: str, cause: str, source: str | None = None) -> None:
        self._left(listed, how, cause, source)
        self._publish_removal(listed)
        self._tell(how, listed.item)
