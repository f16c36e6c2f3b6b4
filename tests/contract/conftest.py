"""The backends that the contract suite runs over: one entry in POOLS or REPLICAS adds one.

A backend is an async context manager that gives a stand: a directory, a registrar, and lease time that passes when
the test says so. What a stand shows after `pass_time` or `settle` is all that has happened until then.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar

import pytest

from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.model import Lease
from gdsvc.pool_discovery.directory import PoolDirectory, ReplicaDirectory
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.registrar import PoolRegistrar, ReplicaRegistrar
from tests.contract.leases import lease_stand
from tests.contract.remote import Driven, driven_services, remote_pools, remote_replicas
from tests.dynamodb.tables import Replica as DynamoDbReplica
from tests.dynamodb.tables import replica, table
from tests.unit.backends.shared.shelf import Replica, Shelf, Store, pool_store, replica_store

LEASE = Lease(5, 15)
STARTED_AT = "2026-01-01T00:00:00.000Z"

Directory_co = TypeVar("Directory_co", covariant=True)
Registrar_co = TypeVar("Registrar_co", covariant=True)


class Stand(Protocol[Directory_co, Registrar_co]):
    """What the suite needs of a backend."""

    @property
    def directory(self) -> Directory_co: ...
    @property
    def registrar(self) -> Registrar_co: ...
    async def pass_time(self, secs: float) -> None: ...
    async def settle(self) -> None: ...


class Advancing(Protocol):
    """What time alone moves."""

    def advance(self) -> float: ...


class MemoryStand(Generic[Directory_co, Registrar_co]):
    """A memory store and its clock."""

    def __init__(
        self, time: list[float], clock: LeaseClock, store: Advancing, directory: Directory_co, registrar: Registrar_co
    ):
        self.directory = directory
        self.registrar = registrar
        self._time = time
        self._clock = clock
        self._store = store

    async def pass_time(self, secs: float) -> None:
        """Beats as a Pulse does, so that no step is taken for a stall."""
        until = self._time[0] + secs
        while self._time[0] < until:
            self._time[0] = min(until, self._time[0] + 0.0625)
            self._clock.tick()
            self._store.advance()

    async def settle(self) -> None:
        """A memory store shows at once what it was told."""


PoolStand = Stand[PoolDirectory, PoolRegistrar]
ReplicaStand = Stand[ReplicaDirectory, ReplicaRegistrar]


@asynccontextmanager
async def memory_pools() -> AsyncIterator[PoolStand]:
    time = [0.0]
    clock = LeaseClock(LEASE.lease_duration_secs, lambda: time[0])
    store = MemoryPoolStore(LEASE, clock, STARTED_AT)
    yield MemoryStand(time, clock, store, store, store)


@asynccontextmanager
async def memory_replicas() -> AsyncIterator[ReplicaStand]:
    time = [0.0]
    clock = LeaseClock(LEASE.lease_duration_secs, lambda: time[0])
    store = MemoryReplicaStore(LEASE, clock, STARTED_AT)
    yield MemoryStand(time, clock, store, store, store)


class SharedStand(Generic[Store, Directory_co, Registrar_co]):
    """A replica over a shared store that is read at every step of time."""

    def __init__(self, replica: "Replica[Store]", directory: Directory_co, registrar: Registrar_co) -> None:
        self.directory = directory
        self.registrar = registrar
        self._replica = replica
        replica.poll()

    async def pass_time(self, secs: float) -> None:
        """Reads as time passes, and at its end."""
        time = self._replica.time
        until = time[0] + secs
        while time[0] < until:
            time[0] = min(until, time[0] + 0.0625)
            self._replica.clock.tick()
            self._replica.poll()

    async def settle(self) -> None:
        """What this replica wrote it shows at once."""


@asynccontextmanager
async def shared_pools() -> AsyncIterator[PoolStand]:
    replica = Replica(Shelf(), [0.0], pool_store)
    yield SharedStand(replica, replica.store, replica.store)


@asynccontextmanager
async def shared_replicas() -> AsyncIterator[ReplicaStand]:
    replica = Replica(Shelf(), [0.0], replica_store())
    yield SharedStand(replica, replica.store, replica.store)


class DynamoDbStand(Generic[Directory_co, Registrar_co]):
    """A replica over a table, which is read every second of its time."""

    def __init__(self, over: DynamoDbReplica, directory: Directory_co, registrar: Registrar_co) -> None:
        self.directory = directory
        self.registrar = registrar
        self.pass_time = over.pass_time

    async def settle(self) -> None:
        """What this replica wrote it shows at once."""


@asynccontextmanager
async def dynamodb_pools(endpoint: str) -> AsyncIterator[PoolStand]:
    async with table(endpoint) as made, replica(made) as over:
        yield DynamoDbStand(over, over.pools, over.pools)


@asynccontextmanager
async def dynamodb_replicas(endpoint: str) -> AsyncIterator[ReplicaStand]:
    async with table(endpoint) as made, replica(made) as over:
        yield DynamoDbStand(over, over.routers, over.routers)


THOUSANDS_OF_WRITES = (
    "test_a_slow_watcher_costs_the_others_nothing",
    "test_a_watcher_further_behind_gets_one_fresh_resync_and_no_gap",
    "test_a_watcher_exactly_as_far_behind_as_is_allowed_gets_every_event",
)

OpenPools = Callable[[], AbstractAsyncContextManager[PoolStand]]
OpenReplicas = Callable[[], AbstractAsyncContextManager[ReplicaStand]]

POOLS: dict[str, Callable[[pytest.FixtureRequest], OpenPools]] = {
    "memory": lambda _request: memory_pools,
    "shared": lambda _request: shared_pools,
    "kubernetes": lambda _request: lambda: lease_stand(lambda storage: storage.pools),
    "remote": lambda request: lambda: remote_pools(request.getfixturevalue("driven")),
    "dynamodb": lambda request: lambda: dynamodb_pools(request.getfixturevalue("ministack")),
}
REPLICAS: dict[str, Callable[[pytest.FixtureRequest], OpenReplicas]] = {
    "memory": lambda _request: memory_replicas,
    "shared": lambda _request: shared_replicas,
    "kubernetes": lambda _request: lambda: lease_stand(lambda storage: storage.routers),
    "remote": lambda request: lambda: remote_replicas(request.getfixturevalue("driven")),
    "dynamodb": lambda request: lambda: dynamodb_replicas(request.getfixturevalue("ministack")),
}


@pytest.hookimpl(tryfirst=True)  # before what is marked is left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Stands behind real sockets run on one loop, since those take their time; thousands of writes count as load."""
    once = ("[remote-asyncio", "[dynamodb-asyncio", "[kubernetes-asyncio")
    twice = [item for item in items if any(stand in item.name for stand in once)]
    for item in items:
        if "[kubernetes-" in item.name and any(test in item.name for test in THOUSANDS_OF_WRITES):
            item.add_marker(pytest.mark.load)
    items[:] = [item for item in items if item not in twice]
    config.hook.pytest_deselected(items=twice)


@pytest.fixture(scope="session")
def driven() -> Iterator[Driven]:
    """The process of the services that remote stands follow."""
    with driven_services() as process:
        yield process


NEEDS = {"dynamodb": (pytest.mark.dynamodb, pytest.mark.timeout(180))}


@pytest.fixture(params=[pytest.param(name, marks=NEEDS.get(name, ())) for name in POOLS])
def open_pools(request: pytest.FixtureRequest) -> OpenPools:
    """Opens a pool backend."""
    return POOLS[request.param](request)


@pytest.fixture(params=[pytest.param(name, marks=NEEDS.get(name, ())) for name in REPLICAS])
def open_replicas(request: pytest.FixtureRequest) -> OpenReplicas:
    """Opens a backend of router replicas."""
    return REPLICAS[request.param](request)
