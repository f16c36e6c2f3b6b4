"""Pools of imported slices joined with registrations: the slices decide membership, a registration adds its facts.

Holds no clock, on purpose: whether a lease holds is for the store of registrations to say, on its own lease clock. It
says so by `registered`, `lapsed` and `deregistered`; a second clock here would one day disagree with it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from msgspec import UNSET, Struct

from gdsvc.backends.mcs.pools import ImportedPool
from gdsvc.model import Extra, PoolCapacity, PoolKey, PoolListing, PoolLocation, PoolRegistration, pool_id
from gdsvc.pool_discovery.watch import Completeness


class Facts(Struct, frozen=True):
    """What a registration adds to a pool. Its frontends count only where the slices have none."""

    location: PoolLocation | None = None
    model: str | None = None
    frontends: tuple[str, ...] = ()
    capacity: PoolCapacity | None = None
    capabilities: tuple[str, ...] = ()
    extra: Extra = UNSET


NO_FACTS: Final = Facts()


class Leased(Struct, frozen=True, gc=False):
    """The registration's lease holds."""

    facts: Facts


class Outlived(Struct, frozen=True, gc=False):
    """The lease has ended while slices kept the pool live: so long its facts stay."""

    facts: Facts


Known = Leased | Outlived


class Join:
    """What is known of every pool from both sides. Every transition returns what it leaves listed: None for nothing.

    `locations` say where a cluster stands, for pools whose registration does not.
    """

    def __init__(self, locations: Mapping[str, PoolLocation] | None = None) -> None:
        self._locations = dict(locations or {})
        self._pools: dict[PoolKey, ImportedPool] = {}
        self._known: dict[PoolKey, Known] = {}

    # -- from the slices

    def imported(self, key: PoolKey, pool: ImportedPool | None) -> PoolListing | None:
        """The slices show `pool` now, or no live pool of this key."""
        if pool is None:
            self._pools.pop(key, None)
            if isinstance(self._known.get(key), Outlived):
                del self._known[key]
        else:
            self._pools[key] = pool
        return self.listing(key)

    # -- from the registrations

    def registered(self, registration: PoolRegistration | PoolListing) -> PoolListing | None:
        """A registration is new or says something new; what an older one said is forgotten."""
        self._known[registration.key] = Leased(facts_of(registration))
        return self.listing(registration.key)

    def lapsed(self, key: PoolKey) -> PoolListing | None:
        """The registration's lease has ended."""
        known = self._known.get(key)
        match known:
            case Leased(facts) if key in self._pools:
                self._known[key] = Outlived(facts)
            case Leased():
                del self._known[key]
            case Outlived() | None:
                pass
            case _:
                assert_never(known)
        return self.listing(key)

    def deregistered(self, key: PoolKey) -> bool:
        """Drops the facts of `key`, also those that outlived their lease, not the pool; False where there are none."""
        return self._known.pop(key, None) is not None

    def relisted(self, registrations: Iterable[PoolRegistration | PoolListing]) -> frozenset[PoolKey]:
        """The store's whole list: what it lacks has lapsed. Returns the keys whose facts have changed."""
        before = {key: known.facts for key, known in self._known.items()}
        leased = {each.key: Leased(facts_of(each)) for each in registrations}
        for key in self._known.keys() - leased.keys():
            self.lapsed(key)
        self._known.update(leased)
        return frozenset(key for key in before.keys() | leased.keys() if before.get(key) != self._facts(key))

    # -- reading

    def listing(self, key: PoolKey) -> PoolListing | None:
        """What a directory shows of `key`; None where the slices show no live pool of it."""
        pool = self._pools.get(key)
        if pool is None:
            return None
        return joined(pool, self._facts(key) or NO_FACTS, self._locations.get(key.site_id))

    def keys(self) -> list[PoolKey]:
        """The pools that are listed, sorted."""
        return sorted(self._pools)

    def reason(self, key: PoolKey) -> str | None:
        """Why `key` is listed or not, in one sentence; None where neither side knows of it."""
        pool, known = self._pools.get(key), self._known.get(key)
        if pool is None:
            return (
                None if known is None else "not listed: it is registered, but no imported slice has a Ready PoolRelay"
            )
        count = len(pool.relay_identities)
        live = f"listed: imported slices have {count} Ready PoolRelay address{'es' * (count > 1)}"
        match known:
            case Leased():
                return f"{live}, and its registration adds model, capacity and location"
            case Outlived():
                return f"{live}; its registration has lapsed, but what it said holds while they do"
            case None:
                return f"{live}; no registration of it holds"
            case _:
                assert_never(known)

    def _facts(self, key: PoolKey) -> Facts | None:
        known = self._known.get(key)
        return None if known is None else known.facts


def facts_of(item: PoolRegistration | PoolListing) -> Facts:
    """What a registration, or the listing that a store made of it, says beside the key."""
    return Facts(item.location, item.model, item.frontends, item.capacity, item.capabilities, item.extra)


def joined(pool: ImportedPool, facts: Facts, location: PoolLocation | None) -> PoolListing:
    """The listing: membership, relays and, where there are any, frontends of the slices; all else of the facts."""
    return PoolListing(
        pool.key,
        pool_id(pool.key),
        facts.location or location,
        facts.model,
        pool.frontends or facts.frontends,
        facts.capacity,
        facts.capabilities,
        pool.relay_identities,
        facts.extra,
    )


def completeness(slices: Completeness, registrations: Completeness | None) -> Completeness:
    """Of the joined list: Exact only where both sides are; `registrations` is None where they are not joined."""
    if registrations is None:
        return slices
    both = slices is Completeness.EXACT and registrations is Completeness.EXACT
    return Completeness.EXACT if both else Completeness.ESTIMATED
