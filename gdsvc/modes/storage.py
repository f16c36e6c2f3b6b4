"""Where registrations are kept, as --registration-storage says: what a mode knows of it, and which one is meant.

A further storage adds its class and a line in `storage_of`.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from gdsvc import metrics
from gdsvc.backends.indexed import OnChange
from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.backends.pulse import Advancing
from gdsvc.model import Lease, PoolKey, PoolListing, RouterReplica
from gdsvc.modes.discovery import Counts, Listed, ListedPools
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.registrar import PoolRegistrar, ReplicaRegistrar
from gdsvc.settings import Settings


class LeaseCounts(Counts, Protocol):
    """What an index counts of leases."""

    @property
    def renewed(self) -> int: ...
    @property
    def expired(self) -> int: ...


class PoolStore(ListedPools, PoolRegistrar, Advancing, Protocol):
    """Directory and registrar of pools in one."""

    new: int
    changed: int
    deregistered: int
    conflicts: int

    @property
    def index(self) -> LeaseCounts: ...
    def registered(self, key: PoolKey) -> PoolListing | None: ...
    def listen(self, on_change: OnChange) -> None: ...


class ReplicaStore(Listed, ReplicaRegistrar, Advancing, Protocol):
    """Directory and registrar of router replicas in one."""


class Storage(Protocol):
    """`running()` is entered before the service listens."""

    @property
    def pools(self) -> PoolStore: ...
    @property
    def routers(self) -> ReplicaStore: ...
    @property
    def advancing(self) -> Sequence[Advancing]:
        """What a Pulse drives, in this order."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Raises GdsvcError where what is needed from outside cannot be had."""
        ...

    def not_ready(self) -> tuple[str, ...]:
        """Why there is nothing to show yet."""
        ...

    def readings(self) -> Iterator[metrics.Reading]:
        """What only this storage counts."""
        ...


class Memory:
    """This process."""

    def __init__(self, settings: Settings, clock: LeaseClock, started_at: str, on_change: OnChange) -> None:
        lease = lease_of(settings)
        self.pools = MemoryPoolStore(lease, clock, started_at, on_change, max_pools=settings.max_pools)
        self.routers = MemoryReplicaStore(lease, clock, started_at, on_change, fixed_routers(settings))
        self.advancing = (self.pools, self.routers)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Needs nothing from outside."""
        yield

    def not_ready(self) -> tuple[str, ...]:
        """There is always something to show."""
        return ()

    def readings(self) -> Iterator[metrics.Reading]:
        """Nothing beside the registrations."""
        return iter(())


def storage_of(settings: Settings, clock: LeaseClock, started_at: str, on_change: OnChange) -> Storage:
    """The storage that the settings name."""
    if settings.dynamodb is not None:
        from gdsvc.modes.dynamodb import DynamoDb  # noqa: PLC0415  only who asks for it loads it

        return DynamoDb(settings, settings.dynamodb, clock, started_at, on_change)
    if settings.kubernetes is not None:
        from gdsvc.modes.kubernetes import Kubernetes  # noqa: PLC0415  it takes seconds to load

        return Kubernetes(settings, settings.kubernetes, clock, started_at, on_change)
    return Memory(settings, clock, started_at, on_change)


def lease_of(settings: Settings) -> Lease:
    """What this replica grants."""
    return Lease(settings.heartbeat_interval_secs, settings.lease_duration_secs)


def fixed_routers(settings: Settings) -> Sequence[RouterReplica]:
    """Those given by --router."""
    return [RouterReplica(router_id, url) for router_id, url in settings.routers]


def registration_readings(store: PoolStore) -> Iterator[metrics.Reading]:
    """What is counted of registrations, those rejected aside, which their route counts."""
    yield metrics.REGISTRATIONS, store.new, "new"
    yield metrics.REGISTRATIONS, store.changed, "changed"
    yield metrics.REGISTRATIONS, store.index.renewed, "renewed"
    yield metrics.EXPIRED, store.index.expired
    yield metrics.DEREGISTERED, store.deregistered
    yield metrics.CONFLICTS, store.conflicts
