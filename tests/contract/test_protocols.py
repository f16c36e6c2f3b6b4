"""Each backend is what it says it is: the assignments are checked by mypy, which a run of this file cannot replace."""

import inspect

from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.backends.pulse import Advancing
from gdsvc.backends.static import StaticReplicaDirectory
from gdsvc.client import Options, RemotePoolDirectory, RemoteReplicaDirectory
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, RouterReplica
from gdsvc.pool_discovery.directory import Directory, EncodedDirectory, EncodedList, PoolDirectory, ReplicaDirectory
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.registrar import PoolRegistrar, Registrar, ReplicaRegistrar
from tests.unit.backends.shared.shelf import Replica, Shelf, pool_store, replica_store

STARTED_AT = "2026-01-01T00:00:00.000Z"


def assert_has_members_of(backend: object, protocol: type) -> None:
    """That every member exists, with parameters of the same names and the same kind of call."""
    for name, declared in inspect.getmembers(protocol):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(type(backend), name)
        if callable(declared):
            assert [*inspect.signature(member).parameters] == [*inspect.signature(declared).parameters], name
            assert inspect.iscoroutinefunction(member) is inspect.iscoroutinefunction(declared), name


def test_the_memory_store_of_pools_is_a_directory_a_registrar_and_has_encodings() -> None:
    store = MemoryPoolStore(Lease(5, 15), LeaseClock(15), STARTED_AT)
    directory: PoolDirectory = store
    registrar: PoolRegistrar = store
    encoded: EncodedDirectory = store
    advancing: Advancing = store
    parts: EncodedList = encoded.encoded()
    wider: Directory[PoolListing, PoolKey] = directory
    wider_registrar: Registrar[PoolRegistration, PoolKey] = registrar
    assert (wider, wider_registrar, advancing.advance(), parts.size) == (store, store, float("inf"), 0)
    for protocol in (PoolDirectory, PoolRegistrar, EncodedDirectory, Advancing):
        assert_has_members_of(store, protocol)


def test_the_memory_store_of_replicas_is_a_directory_a_registrar_and_has_encodings() -> None:
    store = MemoryReplicaStore(Lease(5, 15), LeaseClock(15), STARTED_AT)
    directory: ReplicaDirectory = store
    registrar: ReplicaRegistrar = store
    encoded: EncodedDirectory = store
    advancing: Advancing = store
    assert (directory, registrar, advancing.advance()) == (store, store, float("inf"))
    assert encoded.encoded().join(b"[", b"]") == b"[]"
    for protocol in (ReplicaDirectory, ReplicaRegistrar, EncodedDirectory, Advancing):
        assert_has_members_of(store, protocol)


def test_the_stores_that_replicas_share_are_directories_and_registrars() -> None:
    shelf, time = Shelf(), [0.0]
    pools, replicas = Replica(shelf, time, pool_store).store, Replica(shelf, time, replica_store()).store
    directory: PoolDirectory = pools
    registrar: PoolRegistrar = pools
    replica_directory: ReplicaDirectory = replicas
    replica_registrar: ReplicaRegistrar = replicas
    encoded: tuple[EncodedDirectory, EncodedDirectory] = (pools, replicas)
    assert (directory, registrar, replica_directory, replica_registrar) == (pools, pools, replicas, replicas)
    for store in encoded:
        assert_has_members_of(store, EncodedDirectory)
    for protocol in (PoolDirectory, PoolRegistrar, Advancing):
        assert_has_members_of(pools, protocol)
    for replica_protocol in (ReplicaDirectory, ReplicaRegistrar, Advancing):
        assert_has_members_of(replicas, replica_protocol)


def test_static_replicas_are_a_directory() -> None:
    static = StaticReplicaDirectory([RouterReplica("a", "http://a")])
    directory: ReplicaDirectory = static
    assert directory is static
    assert_has_members_of(static, ReplicaDirectory)


def test_the_clients_directories_are_directories() -> None:
    options = Options(("http://127.0.0.1:1",))
    pools, replicas = RemotePoolDirectory(options), RemoteReplicaDirectory(options)
    directory: PoolDirectory = pools
    replica_directory: ReplicaDirectory = replicas
    assert (directory, replica_directory) == (pools, replicas)
    assert_has_members_of(pools, PoolDirectory)
    assert_has_members_of(replicas, ReplicaDirectory)
