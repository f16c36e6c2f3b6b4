"""A shared store in this process: a dict, engines that write to it, and a pass of reading; all without any waiting."""

from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from gdsvc.backends.indexed import OnChange
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import (
    Registration,
    Shared,
    SharedPoolStore,
    SharedReplicaStore,
    SharedStore,
    Shown,
    Written,
)
from gdsvc.errors import Unavailable
from gdsvc.model import Lease, RouterReplica
from gdsvc.pool_discovery.lease_clock import LeaseClock

STARTED_AT = "2026-01-01T00:00:00.000Z"

LEASE = Lease(5, 15)

Store = TypeVar("Store", bound=SharedStore[Any, Any, Any])
Make = Callable[[Lease, LeaseClock, Shared, OnChange], Store]


def pool_store(lease: Lease, clock: LeaseClock, shared: Shared, on_change: OnChange) -> SharedPoolStore:
    """The store of a replica for pools."""
    return SharedPoolStore(lease, clock, STARTED_AT, shared, on_change)


def replica_store(*fixed: RouterReplica) -> "Make[SharedReplicaStore]":
    """Makes the store of a replica for router replicas."""
    return lambda lease, clock, shared, on_change: SharedReplicaStore(
        lease, clock, STARTED_AT, shared, on_change, fixed=fixed
    )


class Shelf:
    """What is stored: a renewal and a registration by name."""

    def __init__(self) -> None:
        self.renewals: dict[bytes, Renewal] = {}
        self.registrations: dict[bytes, Registration] = {}
        self.broken = False
        self._stamps = count(1)

    def stamp(self) -> str:
        """One that no renewal has yet."""
        return f"s{next(self._stamps)}"


class ShelfEngine:
    """Writes for one store. `before_writing` is called when a write of a registration has begun, `before_renewing` when
    a renewal has.
    """

    def __init__(self, shelf: Shelf, lease_secs: float, unix_now: Callable[[], float]) -> None:
        self._shelf = shelf
        self._lease_secs = lease_secs
        self._unix_now = unix_now
        self.before_writing: Callable[[], object] = lambda: None
        self.before_renewing: Callable[[], object] = lambda: None
        self.renewals = 0

    async def write(self, name: bytes, payload: bytes) -> Written:
        """As the protocol says: the version is the one found when the call began, and one more."""
        self._check()
        found = self._shelf.registrations.get(name)
        self.before_writing()
        if found is None or found.payload != payload:
            later = Registration(1 if found is None else found.version + 1, payload)
            if self._shelf.registrations.get(name) == found:
                self._shelf.registrations[name] = later
        registration = self._shelf.registrations[name]
        return Written(self._renewed(name, registration.version), registration)

    async def renew(self, name: bytes, version: int) -> Renewal | None:
        """Renews what is there."""
        self._check()
        self.before_renewing()
        return self._renewed(name, version) if name in self._shelf.registrations else None

    async def find(self, name: bytes) -> Renewal | None:
        """What is there."""
        self._check()
        return self._shelf.renewals.get(name)

    async def deregister(self, name: bytes, version: int) -> Renewal | None:
        """Leaves a renewal behind that says so."""
        self._check()
        return self._renewed(name, version, gone=True)

    def _renewed(self, name: bytes, version: int, *, gone: bool = False) -> Renewal:
        self.renewals += 1
        renewal = Renewal(self._shelf.stamp(), self._unix_now(), self._lease_secs, version, gone)
        self._shelf.renewals[name] = renewal
        return renewal

    def _check(self) -> None:
        if self._shelf.broken:
            raise Unavailable("the shelf is broken", 1)


class Replica(Generic[Store]):
    """One replica of the service over a shelf: its store, its own clock and its own reader."""

    def __init__(
        self,
        shelf: Shelf,
        time: list[float],
        make: Make[Store],
        lease: Lease = LEASE,
    ) -> None:
        self.shelf = shelf
        self.time = time
        self.wall_ahead_secs = 0.0
        self.clock = LeaseClock(lease.lease_duration_secs, lambda: self.time[0])
        self.engine = ShelfEngine(shelf, lease.lease_duration_secs, self.unix_now)
        self.told: list[tuple[str, bytes]] = []
        shared = Shared(self.engine, 2.0, self.unix_now)
        self.store: Store = make(lease, self.clock, shared, lambda event, name: self.told.append((event, name)))
        self.fetched = 0

    def unix_now(self) -> float:
        return 1_800_000_000.0 + self.time[0] + self.wall_ahead_secs

    def poll(self, renewals: dict[bytes, Renewal] | None = None) -> list[Shown]:
        """One pass of reading, of `renewals` where what is read is not what is stored."""
        began_at = self.store.begin()
        if self.shelf.broken:
            self.store.unread()
            return []
        read = self.shelf.renewals if renewals is None else renewals
        shown = [self._show(name, renewal) for name, renewal in dict(read).items()]
        self.store.prune(set(read))
        self.store.read(began_at)
        return shown

    def _show(self, name: bytes, renewal: Renewal) -> Shown:
        registration = None
        if self.store.lacks(name, renewal):
            self.fetched += 1
            registration = self.shelf.registrations.get(name)
        return self.store.show(name, renewal, registration)
