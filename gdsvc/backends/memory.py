"""Registrations kept in this process: what it hears itself is all there is, judged by the lease clock alone."""

from typing import TypeVar

from gdsvc.backends.leased import LeasedStore
from gdsvc.backends.registered import RegisteredPools, RegisteredReplicas
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, RouterReplica
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.watch import Completeness

Item = TypeVar("Item")
Key = TypeVar("Key")
Payload = TypeVar("Payload")


class MemoryStore(LeasedStore[Item, Key, Payload]):
    """Directory and Registrar. Complete once everybody had a lease's time to register."""

    # -- reading

    def advance(self) -> float:
        """Brings everything that time alone changes up to now; returns in how many seconds a lease ends next.

        Ends at most EXPIRY_SLICE leases; 0 where more are due.
        """
        now = self._clock.now()
        if self._completeness is Completeness.ESTIMATED and self._clock.heard_secs() >= self._ttl:
            self._complete_as(Completeness.EXACT)
        shown_at = self._show_due(now)
        self._end_leases(now)
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

    async def register(self, payload: Payload, body: bytes | None = None, source: str | None = None) -> Lease:
        """Registers or renews; the newest payload of a key wins. Raises LimitReached, Conflict for a fixed id."""
        name = self._named(payload)
        self._admit(name)
        now = self._clock.now()
        fresh = self._take(name, payload, source, "first heartbeat", now)
        self._beat(name, body, source, now, fresh=fresh)
        return self._lease

    async def deregister(self, key: Key, source: str | None = None) -> bool:
        """Takes the member out at once. Raises Conflict for a fixed id."""
        name = self._name(key)
        self.advance()  # what has lapsed is not there to be taken out
        return self._deregister(name, "taken out by a DELETE", source)


class MemoryPoolStore(MemoryStore[PoolListing, PoolKey, PoolRegistration], RegisteredPools):
    """PoolDirectory, PoolRegistrar and Explainer. `max_pools` refuses more with LimitReached."""


class MemoryReplicaStore(MemoryStore[RouterReplica, str, RouterReplica], RegisteredReplicas):
    """ReplicaDirectory and ReplicaRegistrar. The replicas in `fixed` are always listed and cannot be changed."""
