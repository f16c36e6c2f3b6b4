"""--pool-discovery registrations: what registers is listed."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from gdsvc import metrics
from gdsvc.backends.indexed import OnChange
from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.model import Lease, RouterReplica
from gdsvc.modes.discovery import registration_readings
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.settings import Settings


class Registrations:
    """Discovery over two stores, each of which is directory and registrar in one."""

    def __init__(self, settings: Settings, clock: LeaseClock, started_at: str, on_change: OnChange) -> None:
        lease = Lease(settings.heartbeat_interval_secs, settings.lease_duration_secs)
        fixed = [RouterReplica(router_id, url) for router_id, url in settings.routers]
        pools = MemoryPoolStore(lease, clock, started_at, on_change, max_pools=settings.max_pools)
        routers = MemoryReplicaStore(lease, clock, started_at, on_change, fixed)
        self.pools = self.pool_registrar = pools
        self.routers = self.replica_registrar = routers
        self.advancing = (pools, routers)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Needs nothing from outside."""
        yield

    def not_ready(self) -> tuple[str, ...]:
        """There is always something to show."""
        return ()

    def readings(self) -> Iterator[metrics.Reading]:
        """What is counted of registrations."""
        yield from registration_readings(self.pools)
