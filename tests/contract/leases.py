"""Stands of the contract suite over Leases, on a scripted API server of their own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from gdsvc.backends.kubernetes.storage import LeaseOptions, LeaseStorage
from gdsvc.model import Lease
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.kube.lease_server import LeaseServer, lease_server
from tests.kube.stand import Credentials, until

LEASE = Lease(5, 15)
STARTED_AT = "2026-01-01T00:00:00.000Z"
STEP_SECS = 0.0625
FLASH_SECS = 1.0  # as often as a beacon shines

Store = TypeVar("Store")


class LeaseReplica:
    """One replica of the service over an API server: its storage, on a clock that the test moves."""

    def __init__(self, api: LeaseServer, options: LeaseOptions = LeaseOptions("n"), lease: Lease = LEASE) -> None:
        self.api = api
        self.time = 0.0
        self.clock = LeaseClock(lease.lease_duration_secs, lambda: self.time)
        self.storage = LeaseStorage(lease, self.clock, STARTED_AT, options, monotonic=lambda: self.time)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LeaseReplica"]:
        async with self.storage.running(Credentials(self.api.host), first_pause_secs=0.01):
            await self.catch_up()
            yield self

    def advance(self) -> None:
        self.clock.tick()
        for advancing in self.storage.advancing:
            advancing.advance()

    async def pass_time(self, secs: float) -> None:
        """As a Pulse and a beacon let it pass."""
        target = self.time + secs
        while self.time < target:
            before = self.time
            self.time = min(target, self.time + STEP_SECS)
            self.advance()
            if int(before / FLASH_SECS) != int(self.time / FLASH_SECS) or self.time == target:
                await self.catch_up()

    async def catch_up(self) -> None:
        """Until all that was written before now is seen."""
        now, view = self.time, self.storage.view
        assert self.storage.beacon is not None
        await self.storage.beacon.flash()
        await until(lambda: view.echoes.told_until.monotonic >= now)
        self.advance()


class LeaseStand(Generic[Store]):
    """A replica alone, by the store of one kind of member."""

    def __init__(self, replica: LeaseReplica, store: Store) -> None:
        self.directory = self.registrar = store
        self.pass_time = replica.pass_time
        self.settle = replica.catch_up


@asynccontextmanager
async def lease_stand(store_of: Callable[[LeaseStorage], Store]) -> AsyncIterator[LeaseStand[Store]]:
    async with lease_server() as api, LeaseReplica(api).running() as replica:
        yield LeaseStand(replica, store_of(replica.storage))
