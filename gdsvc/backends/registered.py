"""What a registration is shown as, wherever it is kept: pools with history and conflicts, and router replicas.

Decides what a payload changes in the list. When leases end, and when a list is complete, is decided in the stores.
"""

import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import inf

from msgspec import Struct

from gdsvc import model
from gdsvc._listed import Listed
from gdsvc._pool_index import CHANGED, NEW, UNCHANGED
from gdsvc.backends.indexed import POOLS, ROUTERS, OnChange, ignore
from gdsvc.backends.leased import EXPIRY_SLICE, LeasedStore
from gdsvc.errors import Conflict, LimitReached
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, RouterReplica, sort_key
from gdsvc.pool_discovery.conflicts import SHOW_EVERY_SECS, Payloads
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.explain import (
    Explanation,
    History,
    LeaseState,
    Registrations,
    address_text,
    difference,
    explanation,
)
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import EncodedUpsert, Facets


class _Shown(Struct, frozen=True, gc=False):
    """What is shown of a payload: its encoding, what lists are filtered by, and who sent it."""

    encoded: bytes
    facets: Facets
    source: str | None


class RegisteredPools(LeasedStore[PoolListing, PoolKey, PoolRegistration]):
    """Pools as their registrations say; an Explainer. `max_pools` refuses more with LimitReached."""

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = ignore,
        *,
        max_pools: int | None = None,
        unix_now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(POOLS, lease, clock, started_at, on_change)
        self._history = History(unix_now)
        self._max_pools = max_pools
        self._payloads: OrderedDict[bytes, Payloads[_Shown]] = OrderedDict()  # of keys that changed within a lease
        self._show_at: list[tuple[float, bytes]] = []  # a heap: when a key that was held back is to be shown

    def registered(self, key: PoolKey) -> PoolListing | None:
        """The listing that the registration of `key` gives; None where none holds."""
        encoded = self._index.encoding(sort_key(key))
        return None if encoded is None else model.decode_listing(encoded)

    def explain(self, key: PoolKey) -> Explanation | None:
        """Why `key` is listed or not; None where nothing is known of it. Raises Unavailable before the first sync."""
        self.view()
        name = sort_key(key)
        listed, history = self._index.find(name), self._history.of(name)
        if listed is None:
            return explanation(key, None, self._history.parting(name), self.sources(), history) if history else None
        ttl = self._ttl_of(name)
        remaining = max(0.0, listed.deadline - self._now())  # past it: its turn in a mass expiry is to come
        lease = LeaseState(round(ttl - remaining, 3), round(remaining, 3))
        return explanation(key, lease, self._heard(listed), self.sources(), history)

    @abstractmethod
    def sources(self) -> tuple[Source, ...]:
        """What the directory rests on."""

    # -- what a payload changes

    def _name(self, key: PoolKey) -> bytes:
        return sort_key(key)

    def _named(self, payload: PoolRegistration) -> bytes:
        return sort_key(payload.key)

    def _admit(self, name: bytes) -> None:
        if self._max_pools is None or len(self._index) < self._max_pools or name in self._index:
            return
        self.advance()  # a lease may have ended
        if len(self._index) >= self._max_pools:
            limit = f"this service takes at most {self._max_pools} pools (--max-pools)"
            raise LimitReached(limit, self._lease.heartbeat_interval_secs)

    def _take(self, name: bytes, payload: PoolRegistration, source: str | None, cause: str, now: float) -> bool:
        """Shows what the newest payload of a key says."""
        encoded = model.encode_registered(payload)
        latest = self._latest(name)
        if latest == encoded:
            return False
        facets = Facets(payload.model, payload.location.region if payload.location else None)
        if latest is None:
            self._index.put(name, encoded, facets.model, facets.region)
            self._fanout.publish(EncodedUpsert(name, encoded, facets), len(encoded))
            self.new += 1
            self._history.record("registered", name, cause, source)
            self._on_change("pool.registered", name)
        else:
            self._change(name, _Shown(encoded, facets, source), latest, now)
        return True

    def _says(self, name: bytes, payload: PoolRegistration) -> bool:
        return self._latest(name) == model.encode_registered(payload)

    def _latest(self, name: bytes) -> bytes | None:
        """The newest payload, which may be held back."""
        payloads = self._payloads.get(name) if self._payloads else None
        return payloads.held.encoded if payloads and payloads.held else self._index.encoding(name)

    def _heard(self, listed: Listed) -> Registrations:
        payloads = self._payloads.get(listed.item)
        return Registrations(listed.beats, address_text(listed.source), payloads.flips if payloads else 0)

    def _change(self, key: bytes, shown: _Shown, latest: bytes, now: float) -> None:
        """Shows the new payload, at once or, where relays dispute the key, once the last was shown long enough."""
        self.changed += 1
        payloads = self._payloads.setdefault(key, Payloads(self._ttl))
        self._payloads.move_to_end(key)
        seen_at = self._index.deadline(key) - self._ttl_of(key)
        if payloads.changed(hash(shown.encoded), hash(latest), seen_at, now):
            self.conflicts += 1
            if payloads.flips == 1:
                self._history.record("disputed", key, "a payload replaced within a lease is back", shown.source)
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
        again = now - payloads.shown_at < SHOW_EVERY_SECS
        payloads.shown_at = now
        before = self._index.encoding(key)
        if before is None or before == shown.encoded:  # None: it left while the payload was held back
            return
        self._put(key, shown.encoded, shown.facets)
        # What differs takes longer to find than all the rest: not for each of many changes in a row.
        cause = "the payload changed again" if again else f"the payload changed ({difference(before, shown.encoded)})"
        self._history.record("changed", key, cause, shown.source)
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

    def _left(self, listed: Listed, how: str, cause: str, source: str | None) -> None:
        self._history.record(how, listed.item, cause, source, self._heard(listed))
        self._payloads.pop(listed.item, None)


class RegisteredReplicas(LeasedStore[RouterReplica, str, RouterReplica]):
    """Router replicas as they register. Those in `fixed` are always listed and cannot be changed."""

    def __init__(
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = ignore,
        fixed: Iterable[RouterReplica] = (),
    ) -> None:
        super().__init__(ROUTERS, lease, clock, started_at, on_change)
        replicas = {router.id.encode(): router for router in fixed}
        self._fixed = frozenset(replicas)
        for name, router in replicas.items():
            self._put(name, model.encode(router))

    def _is_fixed(self, name: bytes) -> bool:
        return name in self._fixed

    def _name(self, key: str) -> bytes:
        name = key.encode()
        if name in self._fixed:
            raise Conflict("this router id is given on the command line (--router) and cannot be changed over HTTP")
        return name

    def _named(self, payload: RouterReplica) -> bytes:
        return self._name(payload.id)

    def _take(self, name: bytes, payload: RouterReplica, source: str | None, cause: str, now: float) -> bool:
        """Shows the newest URL."""
        del source, cause, now
        outcome = self._put(name, model.encode(payload))
        if outcome != UNCHANGED:
            self._tell("registered" if outcome == NEW else "changed", name)
        self.new += outcome == NEW
        self.changed += outcome == CHANGED
        return outcome != UNCHANGED

    def _says(self, name: bytes, payload: RouterReplica) -> bool:
        return self._index.encoding(name) == model.encode(payload)
