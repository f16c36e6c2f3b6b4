"""The directories of karmada and mcs: pools joined with their registrations, and router replicas, kept encoded.

Decides nothing of what is listed: imported.py says what changed, pools.py, replicas.py and join.py what that gives.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Protocol

from gdsvc import model
from gdsvc._pool_index import NEW, UNCHANGED
from gdsvc.backends.indexed import POOLS, ROUTERS, IndexedDirectory, OnChange, ignore
from gdsvc.backends.mcs.endpoints import conditions_told
from gdsvc.backends.mcs.imported import ImportedSlices
from gdsvc.backends.mcs.join import Join, completeness
from gdsvc.backends.mcs.naming import ServiceKey
from gdsvc.backends.mcs.pools import PoolServices, imported_pool
from gdsvc.backends.mcs.replicas import RouterService, RouterTable
from gdsvc.backends.mcs.slices import Services
from gdsvc.errors import NotOffered, Unavailable
from gdsvc.model import Lease, PoolKey, PoolListing, PoolLocation, RouterReplica, sort_key
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.explain import (
    ENTRIES,
    NOTHING_HEARD,
    Explanation,
    Happening,
    History,
    LeaseState,
    Registrations,
    difference,
)
from gdsvc.pool_discovery.registrar import PoolRegistrar
from gdsvc.pool_discovery.watch import Completeness, Facets

SLICES_TOLD = 8  # of a Service, to whoever asks why


class RegistrationStore(PoolRegistrar, Protocol):
    """Where registrations are kept: a directory of its own, whose members are joined and not shown."""

    def view(self) -> tuple[int, Completeness]:
        """As an EncodedDirectory's. Raises Unavailable where the store has not been read yet."""
        ...

    def sources(self) -> tuple[Source, ...]: ...
    def explain(self, key: PoolKey) -> Explanation | None: ...
    def registered(self, key: PoolKey) -> PoolListing | None:
        """What the registration of `key` says; None where no lease holds."""
        ...

    def listen(self, on_change: OnChange) -> None:
        """Tells `on_change` of `pool.registered`, `pool.changed`, `pool.expired` and `pool.deregistered`."""
        ...


class McsPoolDirectory(IndexedDirectory[PoolListing, PoolKey]):
    """PoolDirectory and Explainer; a Reader of `slices`. `store` None: registrations are not joined."""

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        slices: ImportedSlices,
        services: PoolServices,
        store: RegistrationStore | None = None,
        locations: Mapping[str, PoolLocation] | None = None,
        *,
        on_change: OnChange = ignore,
        unix_now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(POOLS, on_change)
        self._slices = slices
        self._services = services
        self._store = store
        self._join = Join(locations)
        self._history = History(unix_now)
        slices.add(self)
        if store is not None:
            store.listen(self._registration_changed)

    # -- reading

    def view(self) -> tuple[int, Completeness]:
        """Revision and completeness, brought up to now. Raises Unavailable before the first sync."""
        self._slices.check_synced()
        self._settle()
        return self._index.revision, self._completeness

    def sources(self) -> tuple[Source, ...]:
        """The slices and, where they are joined, the registrations."""
        return (self._slices.source(), *(self._store.sources() if self._store is not None else ()))

    def advance(self) -> float:
        """Takes over the completeness of registrations, which time alone changes; asks for no beat of its own."""
        if self._slices.synced:
            self._settle()
        return inf

    def explain(self, key: PoolKey) -> Explanation | None:
        """Why `key` is listed or not; None where nothing is known of it. Raises Unavailable before the first sync."""
        self.view()
        relays, frontends = self._services.relays(key), self._services.frontends(key)
        told = None if self._store is None else self._store.explain(key)
        history = self._history_of(key, told)
        listed = sort_key(key) in self._index
        reason = self._join.reason(key)
        if not listed and self._slices.views(relays):
            reason = f"not listed: no PoolRelay behind the imported Service {relays.name} is Ready"
        if reason is None:
            if not history:
                return None
            reason = self._why_gone(key)
        lease: LeaseState | None = None if told is None else told.lease
        heard: Registrations = NOTHING_HEARD if told is None else told.registrations
        slices = self._slices.source(f"; {self._told_of(relays)}; {self._told_of(frontends)}")
        others = self._store.sources() if self._store is not None else ()
        return Explanation(key, listed, reason, lease, heard, (slices, *others), history)

    def _why_gone(self, key: PoolKey) -> str:
        """Of a pool that neither side knows any more: only the slices could list it, whatever its registration did."""
        left = self._history.of(sort_key(key))
        if not left:
            return "not listed: its registration has ended, and no imported slice has a Ready PoolRelay"
        return f"not listed since {left[-1].at}: {left[-1].cause}"

    def _history_of(self, key: PoolKey, told: Explanation | None) -> tuple[Happening, ...]:
        both = [*self._history.of(sort_key(key)), *(told.history if told is not None else ())]
        return tuple(sorted(both, key=lambda happening: happening.at))[-ENTRIES:]

    def _told_of(self, service: ServiceKey) -> str:
        views = self._slices.views(service)
        told = [conditions_told(view) for view in views[:SLICES_TOLD]]
        if len(views) > SLICES_TOLD:
            told.append(f"{len(views) - SLICES_TOLD} more slices")
        return f"{service.name}: {', '.join(told)}" if told else f"{service.name}: no slices"

    # -- told by the slices

    def services_changed(self, services: Services, cause: str) -> None:
        """Looks at the pools again that these Services are a part of."""
        for service in sorted(filter(self._services.may_hold_frontends, services)):
            for remark in self._services.remarks(service, self._slices.views(service)):
                self._slices.say(remark)
        for key in sorted(self._services.touched(services)):
            relays, frontends = (
                self._slices.views(self._services.relays(key)),
                self._slices.views(self._services.frontends(key)),
            )
            pool = imported_pool(key, relays, frontends, self._services.frontend_port)
            self._show(key, self._join.imported(key, pool), cause)

    def listed_anew(self, *, empty: bool) -> None:
        """A view without a pool is told as such: whoever watches must not have to conclude it."""
        self._begin_empty(again=empty)

    def trust_changed(self) -> None:
        """The slices are exact now, or no longer."""
        self._settle()

    # -- told by the registrations

    def _registration_changed(self, event: str, name: bytes) -> None:
        key = model.key_of(name)
        match event:
            case "pool.registered" | "pool.changed":
                registered = None if self._store is None else self._store.registered(key)
                if registered is not None:
                    self._show(key, self._join.registered(registered), f"its registration {event.partition('.')[2]}")
            case "pool.expired":
                self._show(key, self._join.lapsed(key), "its registration has lapsed")
            case "pool.deregistered":
                self.forget(key)
            case _:
                pass

    def forget(self, key: PoolKey) -> bool:
        """Drops what a registration said of `key`, also where it has outlived its lease; False where nothing did."""
        known = self._join.deregistered(key)
        self._show(key, self._join.listing(key), "its registration was taken out by a DELETE")
        return known

    # -- how

    def _show(self, key: PoolKey, listing: PoolListing | None, cause: str) -> None:
        name = sort_key(key)
        if listing is None:
            if self._remove(name):
                self._history.record("removed", name, f"no PoolRelay is Ready any more: {cause}")
                self._tell("removed", name)
            return
        encoded = model.encode_listing(listing)
        before = self._index.encoding(name)
        facets = Facets(listing.model, listing.location.region if listing.location else None)
        outcome = self._put(name, encoded, facets)
        if outcome == NEW:
            self._history.record("listed", name, cause)
            self._tell("listed", name)
        elif outcome != UNCHANGED and before is not None:
            self._history.record("changed", name, f"{cause} ({difference(before, encoded)})")
            self._tell("changed", name)

    def _settle(self) -> None:
        """Brings completeness up to what both sides say."""
        slices = Completeness.EXACT if self._slices.exact else Completeness.ESTIMATED
        self._complete_as(completeness(slices, self._registrations()))

    def _registrations(self) -> Completeness | None:
        """How complete the registrations are; None where they are not joined."""
        if self._store is None:
            return None
        try:
            return self._store.view()[1]
        except Unavailable:  # a shared store that has not been read yet: what the slices show is there all the same
            return Completeness.ESTIMATED


class McsReplicaDirectory(IndexedDirectory[RouterReplica, str]):
    """ReplicaDirectory; a Reader of `slices`. `router` None: no Service is the router's, so nothing is listed."""

    def __init__(self, slices: ImportedSlices, router: RouterService | None, on_change: OnChange = ignore) -> None:
        super().__init__(ROUTERS, on_change)
        self._slices = slices
        self._router = router
        self._table = None if router is None else RouterTable(router)
        self._listed: frozenset[str] = frozenset()
        slices.add(self)

    def view(self) -> tuple[int, Completeness]:
        """Revision and completeness. Raises Unavailable before the first sync."""
        self._slices.check_synced()
        return self._index.revision, self._completeness

    def sources(self) -> tuple[Source, ...]:
        """The slices alone."""
        return (self._slices.source(),)

    def services_changed(self, services: Services, cause: str) -> None:
        """Looks at the replicas again, where the router's Service of some cluster is among `services`."""
        del cause
        if self._table is None or self._router is None:
            return
        covered = sorted(filter(self._router.covers, services))
        for service in covered:
            for remark in self._table.update(service, self._slices.views(service)):
                self._slices.say(remark)
        if covered:
            self._show(self._table.replicas().values())

    def listed_anew(self, *, empty: bool) -> None:
        """A view without a replica is told as such."""
        self._begin_empty(again=empty)

    def trust_changed(self) -> None:
        """The slices are exact now, or no longer."""
        self._complete_as(Completeness.EXACT if self._slices.exact else Completeness.ESTIMATED)

    def _show(self, replicas: Iterable[RouterReplica]) -> None:
        listed: set[str] = set()
        for replica in replicas:
            key = replica.id.encode()
            listed.add(replica.id)
            outcome = self._put(key, model.encode(replica))
            if outcome != UNCHANGED:
                self._tell("listed" if outcome == NEW else "changed", key)
        for gone in sorted(self._listed - listed):
            self._remove(gone.encode())
            self._tell("removed", gone.encode())
        self._listed = frozenset(listed)


class JoinedRegistrar:
    """PoolRegistrar over `store` for a joined directory: a DELETE drops also what has outlived its lease."""

    def __init__(self, store: RegistrationStore, directory: McsPoolDirectory) -> None:
        self._store = store
        self._directory = directory
        self.renew = store.renew
        self.register = store.register

    @property
    def lease(self) -> Lease:
        """What every registration is granted."""
        return self._store.lease

    async def deregister(self, key: PoolKey, source: str | None = None) -> bool:
        """Drops the registration's facts, not the pool; False where there were none."""
        registered = await self._store.deregister(key, source)
        return self._directory.forget(key) or registered


class NoRegistrar:
    """Registrar where nothing registers: every call raises NotOffered, which says `why`."""

    def __init__(self, lease: Lease, why: str) -> None:
        self.lease = lease
        self._why = why

    async def renew(self, body: bytes, source: str | None = None) -> bool:
        """Raises NotOffered."""
        del body, source
        raise NotOffered(self._why)

    async def register(self, payload: object, body: bytes | None = None, source: str | None = None) -> Lease:
        """Raises NotOffered."""
        del payload, body, source
        raise NotOffered(self._why)

    async def deregister(self, key: object, source: str | None = None) -> bool:
        """Raises NotOffered."""
        del key, source
        raise NotOffered(self._why)
