"""Tables for tests, and replicas over them whose clock and readings a test drives."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.creation import create
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.dynamodb.patience import FAULT_KINDS, FaultKind
from gdsvc.backends.dynamodb.reader import Reader
from gdsvc.backends.dynamodb.table import Table, opened
from gdsvc.backends.shared.store import Shared, SharedPoolStore, SharedReplicaStore, SharedStore
from gdsvc.model import Lease, RouterReplica
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.dynamodb.ministack import CREDENTIALS

STARTED_AT = "2026-01-01T00:00:00.000Z"
REGION = "us-east-1"
EVERY_SECS = 2.0
SHARDS = 2

_numbers = count(1)


@contextmanager
def credentials_for_tests() -> Iterator[None]:
    """The environment as the AWS client is to find it."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@asynccontextmanager
async def table(endpoint: str, name: str | None = None, shards: int = SHARDS) -> AsyncIterator[Table]:
    """A new table, laid out; or another client on the one of that name."""
    with credentials_for_tests():
        async with opened(name or f"pools-{os.getpid()}-{next(_numbers)}", REGION, endpoint) as made:
            if name is None:
                async for _ in create(made, shards):
                    pass
            yield made


class Replica:
    """One replica of the service over a table: its stores, its own clock, and a reader that reads when told to."""

    def __init__(self, made: Table, batches: Batches, writer: Writer, time: list[float], lease: Lease) -> None:
        self.time = time
        self.table = made
        self.wall_ahead_secs = 0.0
        self.clock = LeaseClock(lease.lease_duration_secs, lambda: self.time[0])
        self.errors: dict[FaultKind, int] = dict.fromkeys(FAULT_KINDS, 0)
        writer.open(made, batches)
        self.writer, self.batches = writer, batches
        self.engines = {kind: DynamoEngine(writer, kind, self.unix_now) for kind in Kind}
        shared = {kind: Shared(self.engines[kind], EVERY_SECS, self.unix_now) for kind in Kind}
        self.told: list[tuple[str, bytes]] = []
        self.pools = SharedPoolStore(lease, self.clock, STARTED_AT, shared[Kind.POOL], self._tell)
        self.routers = SharedReplicaStore(lease, self.clock, STARTED_AT, shared[Kind.ROUTER], self._tell)
        stores: Mapping[Kind, SharedStore[Any, Any, Any]] = {Kind.POOL: self.pools, Kind.ROUTER: self.routers}
        self.reader = Reader(writer, stores, self.engines, EVERY_SECS)

    def unix_now(self) -> float:
        return 1_800_000_000.0 + self.time[0] + self.wall_ahead_secs

    def _tell(self, event: str, name: bytes) -> None:
        self.told.append((event, name))

    async def pass_time(self, secs: float) -> None:
        """Beats as a Pulse does, and reads every second and at the end."""
        until = self.time[0] + secs
        while self.time[0] < until:
            self.time[0] = min(until, self.time[0] + 0.0625)
            self.clock.tick()
            self.pools.advance()
            self.routers.advance()
            if self.time[0] % 1 == 0 or self.time[0] == until:
                await self.reader.poll()


@asynccontextmanager
async def replica(
    made: Table, time: list[float] | None = None, lease: Lease | None = None, *, secs: float = 4.0
) -> AsyncIterator[Replica]:
    """A replica that has read the table once."""
    lease = lease or Lease(5, 15)
    noted: dict[FaultKind, int] = dict.fromkeys(FAULT_KINDS, 0)

    def note(kind: FaultKind) -> None:
        noted[kind] += 1

    writer = Writer(note, secs=secs, lease_secs=lease.lease_duration_secs)
    async with Batches(made, secs, note) as batches:
        opened_replica = Replica(made, batches, writer, [0.0] if time is None else time, lease)
        opened_replica.errors = noted
        await opened_replica.reader.poll()
        yield opened_replica


def router(name: str) -> RouterReplica:
    """Some router replica."""
    return RouterReplica(name, "http://10.0.0.1:8000")
