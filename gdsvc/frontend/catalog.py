"""The pools that requests can go to, as one immutable value; a change gives another one.

Decides what a directory's events make of it, and who serves a model. The rule for lists that are not complete is the
directory's: its view has applied it already, so what it shows is taken as it stands.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Struct

from gdsvc.model import PoolKey, PoolListing, base_url_fault
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Upserted

EVERY_MODEL: Final = ""  # the one set of a catalog whose pools serve whatever is asked for


class Pool(Struct, frozen=True):
    """One pool. `key` is None where it was given on the command line; `model` then counts for nothing.

    Without a frontend it is not selectable, and it is still said to serve its model. `max_concurrency` is what it says
    it can take, None where it does not say. `unusable` counts the frontends of its listing that have no bare base URL.
    """

    id: str
    frontends: tuple[str, ...]  # base URLs
    key: PoolKey | None = None
    model: str | None = None
    region: str | None = None
    max_concurrency: int | None = None
    unusable: int = 0


class Catalog(Struct, frozen=True):
    """Pools by id, and by the model that they serve. `unusable` are the ids of those that listed URLs of no use.

    `complete` says whether a model that nobody serves is unknown, or only not known yet; `known` whether there was any
    list at all. Sets that a change leaves alone are the same objects in the next catalog, so that `is` tells.
    """

    pools: MappingProxyType[str, Pool] = MappingProxyType({})
    sets: MappingProxyType[str, tuple[Pool, ...]] = MappingProxyType({})  # those without a frontend are in them too
    complete: bool = False
    known: bool = False
    serves_every_model: bool = False
    unusable: frozenset[str] = frozenset()

    def models(self) -> tuple[str, ...]:
        """The models of the pools, sorted; those of pools from the command line are not known."""
        return () if self.serves_every_model else tuple(sorted(self.sets))

    @property
    def selectable(self) -> bool:
        """Whether any request could be served."""
        return any(pool.frontends for pools in self.sets.values() for pool in pools)


NOTHING_YET: Final = Catalog()


def static(pools: Iterable[tuple[str, tuple[str, ...]]]) -> Catalog:
    """The catalog of pools from the command line, (id, frontends) each: complete, and every pool serves every model."""
    made = {pool_id: Pool(pool_id, urls) for pool_id, urls in pools}
    sets = {EVERY_MODEL: tuple(made.values())} if made else {}
    return Catalog(MappingProxyType(made), MappingProxyType(sets), complete=True, known=True, serves_every_model=True)


def after(catalog: Catalog, events: Iterable[Event[PoolListing, PoolKey]]) -> Catalog:
    """The catalog that the events, in their order, make of this one; this very one where they change nothing.

    A Resync replaces everything, also where it is Estimated: a remote directory then still shows whom it knew, with the
    facts that it knew, less those who were removed. To keep here who is missing there would bring the removed back.
    """
    draft = _Draft(catalog)
    for event in events:
        match event:
            case Resync(snapshot):
                draft.take_list(snapshot.items, complete=snapshot.completeness is Completeness.EXACT)
            case Upserted(item):
                draft.put(pool_of(item))
            case Removed(key):
                draft.remove(key)
            case _:
                assert_never(event)
    return draft.catalog()


class _Draft:
    """What becomes of a catalog while events are taken in."""

    def __init__(self, base: Catalog) -> None:
        self._base = base
        self._pools = base.pools.copy()  # dict() of it would be ten times slower
        self._touched: dict[str, None] = {}  # ids, in the order of the changes
        self._complete, self._known = base.complete, base.known
        self._ids: dict[PoolKey | None, str] | None = None

    def take_list(self, items: Iterable[PoolListing], *, complete: bool) -> None:
        self._complete, self._known = complete, True
        told = [pool_of(item) for item in items]
        for pool_id in self._pools.keys() - {pool.id for pool in told}:
            del self._pools[pool_id]
            self._touched[pool_id] = None
        for pool in told:
            self.put(pool)

    def put(self, pool: Pool) -> None:
        if pool == self._pools.get(pool.id):
            return  # and the object stays the same
        self._pools[pool.id] = pool
        self._touched[pool.id] = None
        if self._ids is not None:
            self._ids[pool.key] = pool.id

    def remove(self, key: PoolKey) -> None:
        if self._ids is None:
            self._ids = {pool.key: pool.id for pool in self._pools.values()}
        pool_id = self._ids.get(key)
        if pool_id is not None and self._pools.pop(pool_id, None) is not None:
            self._touched[pool_id] = None

    def catalog(self) -> Catalog:
        base = self._base
        changed = [pool_id for pool_id in self._touched if base.pools.get(pool_id) != self._pools.get(pool_id)]
        if not changed and (self._complete, self._known) == (base.complete, base.known):
            return base
        bad = {pool_id for pool_id in changed if (pool := self._pools.get(pool_id)) is not None and pool.unusable}
        return Catalog(
            MappingProxyType(self._pools),
            self._sets(changed),
            self._complete,
            self._known,
            unusable=base.unusable.difference(changed).union(bad),
        )

    def _sets(self, changed: Iterable[str]) -> MappingProxyType[str, tuple[Pool, ...]]:
        """The sets of the base, those made anew that a changed pool left, entered or is in."""
        moved: defaultdict[str, dict[str, Pool | None]] = defaultdict(dict)
        for pool_id in changed:
            before, now = self._base.pools.get(pool_id), self._pools.get(pool_id)
            if before is not None and before.model:
                moved[before.model][pool_id] = None
            if now is not None and now.model:
                moved[now.model][pool_id] = now
        sets = self._base.sets.copy()
        for model, members in moved.items():
            by_id = {pool.id: pool for pool in sets.pop(model, ())} | members
            if left := tuple(pool for pool in by_id.values() if pool is not None):
                sets[model] = left
        return MappingProxyType(sets)


def pool_of(listing: PoolListing) -> Pool:
    """What selection needs of a listing. Its URLs are judged here, since not every service that lists pools does."""
    listed = tuple(dict.fromkeys(listing.frontends))
    frontends = tuple(url for url in listed if _fault(url) is None)
    return Pool(
        listing.id,
        frontends,
        listing.key,
        listing.model,
        listing.location.region if listing.location is not None else None,
        listing.capacity.max_concurrency if listing.capacity is not None else None,
        len(listed) - len(frontends),
    )


_fault: Final[Callable[[str], str | None]] = lru_cache(65536)(base_url_fault)  # a list names all of them again
