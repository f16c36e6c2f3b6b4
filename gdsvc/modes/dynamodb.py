"""--registration-storage dynamodb: two stores, one table, one reader. Import this module only where it is asked for."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from gdsvc import logs, metrics
from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.dynamodb.patience import FAULT_KINDS, Failed, FaultKind
from gdsvc.backends.dynamodb.reader import Reader
from gdsvc.backends.dynamodb.table import opened
from gdsvc.backends.indexed import OnChange
from gdsvc.backends.shared.reading import Trust
from gdsvc.backends.shared.store import Shared, SharedPoolStore, SharedReplicaStore, SharedStore
from gdsvc.errors import GdsvcError
from gdsvc.modes.storage import fixed_routers, lease_of
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.settings import DynamoDbSettings, Settings

HEARTBEAT_SHARE: Final = 0.8  # of its interval, within which a heartbeat is answered
LONGEST_HEARTBEAT_SECS: Final = 4.0  # whoever sends it waits no longer than about five

log = logs.get("gdsvc.dynamodb")


class NoTable(GdsvcError):
    """The table cannot be used, and will not be without somebody's doing."""


class DynamoDb:
    """Registrations in one table."""

    def __init__(
        self,
        settings: Settings,
        dynamodb: DynamoDbSettings,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange,
    ) -> None:
        self._settings = dynamodb
        self._errors: dict[FaultKind, int] = dict.fromkeys(FAULT_KINDS, 0)
        lease = lease_of(settings)
        secs = min(HEARTBEAT_SHARE * settings.heartbeat_interval_secs, LONGEST_HEARTBEAT_SECS)
        self._writer = Writer(self._noted, secs=secs, lease_secs=lease.lease_duration_secs)
        self._engines = {kind: DynamoEngine(self._writer, kind) for kind in Kind}
        every_secs = float(dynamodb.dynamodb_poll_interval_secs)
        pools, routers = (Shared(self._engines[kind], every_secs) for kind in (Kind.POOL, Kind.ROUTER))
        self.pools = SharedPoolStore(lease, clock, started_at, pools, on_change, max_pools=settings.max_pools)
        self.routers = SharedReplicaStore(lease, clock, started_at, routers, on_change, fixed=fixed_routers(settings))
        self.advancing = (self.pools, self.routers)
        stores: dict[Kind, SharedStore[Any, Any, Any]] = {Kind.POOL: self.pools, Kind.ROUTER: self.routers}
        self._reader = Reader(self._writer, stores, self._engines, every_secs)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Reads and writes. Raises GdsvcError where there is no such table, or it refuses us."""
        settings = self._settings
        try:
            table = opened(settings.dynamodb_table, settings.dynamodb_region, settings.dynamodb_endpoint_url)
            async with table as opened_table, Batches(opened_table, self._writer.secs, self._noted) as batches:
                self._writer.open(opened_table, batches)
                await self._first_reading()
                log.info("dynamodb.reading", table=settings.dynamodb_table)
                async with self._reader:
                    yield
        except Failed as failed:
            hint = "; `gdsvc dynamodb create-table` makes it" if failed.kind == "absent" else ""
            raise NoTable(f"--dynamodb-table {settings.dynamodb_table}: {failed}{hint}") from None

    async def _first_reading(self) -> None:
        """A table that cannot be reached now may be later; one that is not there is told at once. Raises Failed."""
        try:
            await self._reader.poll()
        except Failed as failed:
            if not failed.passing:
                raise

    def not_ready(self) -> tuple[str, ...]:
        """The table has not been read yet."""
        return ("the table of registrations has not been read yet",) if self.pools.trust is Trust.UNREAD else ()

    def readings(self) -> Iterator[metrics.Reading]:
        """What is counted of the table."""
        yield metrics.STORE_POLLS, self._reader.polls
        yield metrics.STORE_UNREADABLE, self._reader.unreadable
        for kind, count in self._errors.items():
            yield metrics.STORE_ERRORS, count, kind
        yield metrics.STORE_BATCHES, self._writer.calls
        yield metrics.STORE_RENEWALS, self._writer.puts

    def _noted(self, kind: FaultKind) -> None:
        self._errors[kind] += 1
