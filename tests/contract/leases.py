"""Replicas over Leases on a scripted API server, and stands of the contract suite made of one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from gdsvc import model
from gdsvc.backends.kubernetes.storage import LeaseStorage
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
    """One replica of the service over an API server: its storage, on the clock `time` that the test moves."""

    def __init__(self, api: LeaseServer, time: list[float], fraction: float = 0.0) -> None:
        self.api = api
        self.time = time
        self.clock = LeaseClock(LEASE.lease_duration_secs, lambda: time[0])
        self.told: list[tuple[str, bytes]] = []
        self.storage = LeaseStorage(
            LEASE,
            self.clock,
            STARTED_AT,
            lambda event, name: self.told.append((event, name)),
            renew_fraction=fraction,
            monotonic=lambda: time[0],
        )
        self.pools = self.storage.pools

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LeaseReplica"]:
        async with self.storage.running(Credentials(self.api.host), "n", first_pause_secs=0.01):
            await self.catch_up()
            yield self

    def advance(self) -> None:
        """As a Pulse does."""
        self.clock.tick()
        for advancing in self.storage.advancing:
            advancing.advance()

    async def catch_up(self) -> None:
        """Until all that was written before now is seen."""
        view, beacon = self.storage.view, self.storage.beacon
        assert beacon is not None
        await beacon.flash()
        await until(lambda: not view.echoes.pending(beacon.name))
        self.advance()

    def names(self) -> list[str]:
        """The pools listed. Raises Unavailable."""
        self.pools.view()
        return [model.decode_listing(encoded).key.dgd_name for encoded in self.pools.index.listings()]


async def pass_time(secs: float, *replicas: LeaseReplica, blind: bool = False) -> None:
    """As their Pulses and beacons let it pass; `blind`: without what they write being seen, or written."""
    time = replicas[0].time
    target = time[0] + secs
    while time[0] < target:
        before = time[0]
        time[0] = min(target, before + STEP_SECS)
        for replica in replicas:
            replica.advance()
        if not blind and (int(before / FLASH_SECS) != int(time[0] / FLASH_SECS) or time[0] == target):
            for replica in replicas:
                await replica.catch_up()


class LeaseStand(Generic[Store]):
    """A replica alone, by the store of one kind of member."""

    def __init__(self, replica: LeaseReplica, store: Store) -> None:
        self.directory = self.registrar = store
        self.settle = replica.catch_up
        self._replica = replica

    async def pass_time(self, secs: float) -> None:
        await pass_time(secs, self._replica)


@asynccontextmanager
async def lease_stand(store_of: Callable[[LeaseStorage], Store]) -> AsyncIterator[LeaseStand[Store]]:
    async with lease_server() as api, LeaseReplica(api, [0.0]).running() as replica:
        yield LeaseStand(replica, store_of(replica.storage))
