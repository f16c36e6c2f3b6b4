"""Registrations kept in this process: pools and router replicas that live by their lease.

One step from what arrives to what watchers hear: nothing awaits between a change of the index and its event, so a
view and its deltas cannot disagree. The leases are judged by one LeaseClock, and one Pulse (pulse.py) drives them.
"""

import secrets
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

from msgspec import Struct

from gdsvc import model
from gdsvc._pool_index import CHANGED, NEW, UNCHANGED, PoolIndex
from gdsvc.errors import Conflict, LimitReached
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, RouterReplica, sort_key
from gdsvc.pool_discovery.conflicts import Payloads
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedList, Filter, Source
from gdsvc.pool_discovery.fanout import Fanout, Lagged, Subscription
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import (
    Completeness,
    EncodedEvent,
    EncodedRemoval,
    EncodedUpsert,
    Event,
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


def _ignore(event: str, key: bytes) -> None:
    del event, key


class LeasedStore(ABC, Generic[Item, Key]):
    """What pools and router replicas have in common: an index, leases, completeness and watchers."""

    def __init__(
        self,
        kind: str,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = _ignore,
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

    def _left(self, key: bytes) -> None:
        """Called when the member of `key` is gone."""

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
            for key in self._index.expire(now, EXPIRY_SLICE):
                self._gone(key, "expired")
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
                case EncodedUpsert(encoded):
                    yield Upserted(self._decode(encoded))
                case EncodedRemoval(key):
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

    async def renew(self, body: bytes) -> bool:
        """Renews the member whose last registration had exactly these bytes; False: register it."""
        return self._index.renew(body, self._clock.now(), self._ttl)

    def _beat(self, key: bytes, body: bytes | None, now: float, *, fresh: bool) -> None:
        self._index.beat(key, body, now, self._ttl, fresh)
        if now + self._ttl < self._due_at:
            self._due_at = now + self._ttl

    def _deregister(self, key: bytes) -> bool:
        self.advance()  # what has lapsed is not there to be taken out
        if not self._index.remove(key):
            return False
        self.deregistered += 1
        self._gone(key, "deregistered")
        return True

    def _gone(self, key: bytes, how: str) -> None:
        self._left(key)
        self._fanout.publish(EncodedRemoval(key), len(key))
        self._tell(how, key)

    def _tell(self, happened: str, key: bytes) -> None:
        self._on_change(f"{self._kind}.{happened}", key)


class _Shown(Struct, frozen=True, gc=False):
    """What is shown of a payload: its encoding, and what lists are filtered by."""

    encoded: bytes
    model: str | None
    region: str | None


class MemoryPoolStore(LeasedStore[PoolListing, PoolKey]):
    """PoolDirectory and PoolRegistrar. `max_pools` refuses more with LimitReached."""

    def __init__(
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = _ignore,
        max_pools: int | None = None,
    ) -> None:
        super().__init__("pool", lease, clock, started_at, on_change)
        self._max_pools = max_pools
        self._payloads: OrderedDict[bytes, Payloads[_Shown]] = OrderedDict()  # of keys that changed within a lease
        self._show_at: list[tuple[float, bytes]] = []  # a heap: when a key that was held back is to be shown

    def _decode(self, encoded: bytes) -> PoolListing:
        return model.decode_listing(encoded)

    def _key(self, key: bytes) -> PoolKey:
        return model.key_of(key)

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        """The pools that match, encoded."""
        sites = None if where.site_ids is None else frozenset(site.encode() for site in where.site_ids)
        return self._index.parts(sites, where.models, where.regions)

    async def register(self, payload: PoolRegistration, body: bytes | None = None) -> Lease:
        """Registers or renews; the newest payload of a key wins. Raises LimitReached."""
        key = sort_key(payload.key)
        encoded = model.encode_registered(payload)
        now = self._clock.now()
        payloads = self._payloads.get(key) if self._payloads else None
        latest = payloads.held.encoded if payloads and payloads.held else self._index.encoding(key)
        fresh = latest != encoded
        if latest is None:
            if self._max_pools is not None and len(self._index) >= self._max_pools:
                self._refuse_beyond(self._max_pools)
            self._index.put(key, encoded, payload.model, payload.location.region if payload.location else None)
            self._fanout.publish(EncodedUpsert(encoded), len(encoded))
            self.new += 1
            self._on_change("pool.registered", key)
        elif fresh:
            region = payload.location.region if payload.location else None
            self._change(key, _Shown(encoded, payload.model, region), latest, now)
        self._beat(key, body, now, fresh=fresh)
        return self._lease

    async def deregister(self, key: PoolKey) -> bool:
        """Takes the pool out at once."""
        return self._deregister(sort_key(key))

    def _refuse_beyond(self, max_pools: int) -> None:
        self.advance()  # a lease may have ended
        if len(self._index) >= max_pools:
            limit = f"this service takes at most {max_pools} pools (--max-pools)"
            raise LimitReached(limit, self._lease.heartbeat_interval_secs)

    def _show(self, key: bytes, shown: _Shown) -> None:
        if self._index.put(key, shown.encoded, shown.model, shown.region) != UNCHANGED:
            self._fanout.publish(EncodedUpsert(shown.encoded), len(shown.encoded))

    def _change(self, key: bytes, shown: _Shown, latest: bytes, now: float) -> None:
        """Shows the new payload, at once or, where relays dispute the key, once the last was shown long enough."""
        self.changed += 1
        payloads = self._payloads.setdefault(key, Payloads(self._ttl))
        self._payloads.move_to_end(key)
        seen_at = self._index.deadline(key) - self._ttl
        if payloads.changed(hash(shown.encoded), hash(latest), seen_at, now):
            self.conflicts += 1
            if payloads.flips == 1:
                self._tell("disputed", key)
        showable_at = payloads.showable_at(now)
        if showable_at > now:
            if payloads.held is None:
                heappush(self._show_at, (showable_at, key))
                self._due_at = min(self._due_at, showable_at)
            payloads.held = shown
        else:
            self._show_change(key, payloads, shown, now)

    def _show_change(self, key: bytes, payloads: Payloads[_Shown], shown: _Shown, now: float) -> None:
        payloads.held = None
        payloads.shown_at = now
        self._show(key, shown)
        self._tell("changed", key)

    def _show_due(self, now: float) -> float:
        while self._show_at and self._show_at[0][0] <= now:
            _, key = heappop(self._show_at)
            payloads = self._payloads.get(key)
            if payloads and payloads.held and payloads.showable_at(now) <= now:  # else it has a later entry
                self._show_change(key, payloads, payloads.held, now)
        for _ in range(min(len(self._payloads), EXPIRY_SLICE)):
            key, payloads = next(iter(self._payloads.items()))
            if not payloads.forgettable(now):
                break
            del self._payloads[key]
        return self._show_at[0][0] if self._show_at else inf

    def _left(self, key: bytes) -> None:
        self._payloads.pop(key, None)


class MemoryReplicaStore(LeasedStore[RouterReplica, str]):
    """ReplicaDirectory and ReplicaRegistrar. The replicas in `fixed` are always listed and cannot be changed."""

    def __init__(
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = _ignore,
        fixed: Iterable[RouterReplica] = (),
    ) -> None:
        super().__init__("router", lease, clock, started_at, on_change)
        replicas = {router.id: router for router in fixed}
        self._fixed = frozenset(replicas)
        for router in replicas.values():
            self._index.put(router.id.encode(), model.encode(router))

    def _decode(self, encoded: bytes) -> RouterReplica:
        return model.decode_router(encoded)

    def _key(self, key: bytes) -> str:
        return key.decode()

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        """All replicas, encoded: there is nothing to filter them by."""
        return self._index.parts()

    async def register(self, payload: RouterReplica, body: bytes | None = None) -> Lease:
        """Registers, changes or renews a replica. Raises Conflict for a fixed id."""
        self._refuse_fixed(payload.id)
        key = payload.id.encode()
        encoded = model.encode(payload)
        outcome = self._index.put(key, encoded)
        self._beat(key, body, self._clock.now(), fresh=outcome != UNCHANGED)
        if outcome != UNCHANGED:
            self._fanout.publish(EncodedUpsert(encoded), len(encoded))
            self._tell("registered" if outcome == NEW else "changed", key)
        self.new += outcome == NEW
        self.changed += outcome == CHANGED
        return self._lease

    async def deregister(self, key: str) -> bool:
        """Takes the replica out at once. Raises Conflict for a fixed id."""
        self._refuse_fixed(key)
        return self._deregister(key.encode())

    def _refuse_fixed(self, router_id: str) -> None:
        if router_id in self._fixed:
            raise Conflict("this router id is given on the command line (--router) and cannot be changed over HTTP")
