"""A program that depends on gdsvc and uses it as it is meant to be used."""

from collections.abc import AsyncIterator

from gdsvc.backends.static import StaticReplicaDirectory
from gdsvc.errors import Unavailable
from gdsvc.model import Lease, PoolKey, PoolListing, PoolLocation, PoolRegistration, RouterReplica, pool_id
from gdsvc.pool_discovery.directory import PoolDirectory, ReplicaDirectory
from gdsvc.pool_discovery.registrar import PoolRegistrar
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted

ROUTERS: ReplicaDirectory = StaticReplicaDirectory([RouterReplica("ohio-0", "http://10.0.0.7:8000")])


class OnePool:
    """A directory of our own: it needs to inherit nothing."""

    def __init__(self, listing: PoolListing) -> None:
        self._snapshot = Snapshot([listing], Completeness.EXACT, 0)

    async def list(self) -> Snapshot[PoolListing]:
        return self._snapshot

    async def list_and_watch(self) -> AsyncIterator[Event[PoolListing, PoolKey]]:
        yield Resync(self._snapshot)


def directory() -> PoolDirectory:
    key = PoolKey(site_id="ohio", namespace="dynamo", dgd_name="mocker-1")
    return OnePool(PoolListing(key, pool_id(key), PoolLocation("us-east-2"), frontends=("http://10.0.0.7:8000",)))


async def names(pools: PoolDirectory) -> list[str]:
    snapshot = await pools.list()
    return [listing.key.dgd_name for listing in snapshot.items]


async def follow(pools: PoolDirectory) -> dict[PoolKey, PoolListing]:
    known: dict[PoolKey, PoolListing] = {}
    async for event in pools.list_and_watch():
        match event:
            case Resync(snapshot):
                known = {listing.key: listing for listing in snapshot.items}
            case Upserted(item):
                known[item.key] = item
            case Removed(key):
                known.pop(key, None)
    return known


async def register(registrar: PoolRegistrar, key: PoolKey) -> int:
    try:
        lease: Lease = await registrar.register(PoolRegistration(key, model="Qwen/Qwen3-0.6B"))
    except Unavailable as error:
        return error.retry_after_secs
    return lease.heartbeat_interval_secs
