"""A table in this process that answers a poll from bytes, as the client hands them over; and the poll of an afternoon.

What a poll costs beside its calls: from the JSON of a page to leases that go on.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from bench.stores.items import LEASE_SECS, items, renewed
from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.codec import Item, Key
from gdsvc.backends.dynamodb.creation import SHARDS
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.dynamodb.reader import Reader
from gdsvc.backends.dynamodb.table import PAGE, Page, Table
from gdsvc.backends.shared.store import Shared, SharedPoolStore
from gdsvc.model import Lease
from gdsvc.pool_discovery.lease_clock import LeaseClock

POLL_SECS: Final = 2.0
BEGUN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class CannedTable(Table):
    """Of so many pools. After `renew` everything that is read is renewed."""

    def __init__(self, pools: int) -> None:
        super().__init__(None, "canned")
        self._registrations: dict[str, Item] = {}
        renewals: dict[str, list[Item]] = {}
        for item in items(0, pools):
            if "d" in item:
                self._registrations[item["sk"]["S"]] = item
            else:
                renewals.setdefault(item["pk"]["S"], []).append(item)
        self._pages = {shard: pages_of(found) for shard, found in renewals.items()}
        self._renewals = 0

    def renew(self) -> None:
        """Every pool, once more."""
        self._renewals += 1

    async def layout(self) -> Item | None:
        return codec.layout_item(SHARDS)

    async def renewals(self, shard: str, after: Item | None) -> Page:
        number = int(after["page"]["N"]) if after else 0
        pages = self._pages.get(shard, pages_of([]))
        answer: Mapping[str, Any] = msgspec.json.decode(renewed(pages[number], self._renewals))
        more = {"page": {"N": str(number + 1)}} if number + 1 < len(pages) else None
        return Page(answer["Items"], more)

    async def get_all(self, keys: Sequence[Key]) -> tuple[list[Item], list[Key]]:
        return [self._registrations[key["sk"]["S"]] for key in keys], []


class Polled:
    """The service's reader and store over a CannedTable; `poll` renews every pool and reads all."""

    def __init__(self, table: CannedTable, reader: Reader, store: SharedPoolStore) -> None:
        self.table = table
        self.reader = reader
        self.store = store

    async def poll(self) -> None:
        """One poll in which every pool is renewed."""
        self.table.renew()
        await self.reader.poll()


@asynccontextmanager
async def polled(pools: int) -> AsyncGenerator[Polled]:
    """Once it has read the table, and lists all pools."""
    table = CannedTable(pools)
    writer = Writer(lambda kind: None, secs=POLL_SECS, lease_secs=LEASE_SECS)
    engine = DynamoEngine(writer, Kind.POOL)
    store = SharedPoolStore(
        Lease(5, LEASE_SECS), LeaseClock(LEASE_SECS), "2026-01-01T00:00:00Z", Shared(engine, POLL_SECS)
    )
    async with Batches(table, POLL_SECS, writer.noted) as batches:
        writer.open(table, batches)
        made = Polled(table, Reader(writer, {Kind.POOL: store}, {Kind.POOL: engine}, POLL_SECS), store)
        await made.poll()
        if len(store.index) != pools:
            raise AssertionError(f"{len(store.index)} pools of {pools} are listed")
        yield made


def pages_of(found: Sequence[Item]) -> list[bytes]:
    """The answers to the queries of a shard; at least one."""
    starts = range(0, len(found), PAGE) or range(1)
    return [json.dumps({"Items": found[start : start + PAGE]}).encode() for start in starts]


# --------------------------------------------------------------------------------------------- of an afternoon


class NaiveReader:
    """A poll as one writes it with a table's documentation open: values to Python's, instants to datetime.

    It believes the writers' clocks and forgets nothing, so it decides less than the service does.
    """

    def __init__(self, pools: int) -> None:
        rows = [_naive_item(item) for item in items(0, pools) if "d" not in item]
        self._pages = pages_of(rows)
        self.expires_at: dict[tuple[str, str], datetime] = {}
        self._polls = 0

    def poll(self) -> None:
        """One poll in which every pool is renewed."""
        self._polls += 1
        now = BEGUN + timedelta(seconds=self._polls)
        old, new = (f"{BEGUN + timedelta(seconds=secs):%H:%M:%S}".encode() for secs in (0, self._polls))
        for page in self._pages:
            for item in json.loads(page.replace(old, new))["Items"]:
                row = {name: _plain(value) for name, value in item.items()}
                renewed_at = datetime.fromisoformat(row["renewed_at"])
                self.expires_at[row["pk"], row["sk"]] = renewed_at + timedelta(seconds=float(row["l"]))
        self.expires_at = {key: at for key, at in self.expires_at.items() if at > now}


def _naive_item(item: Item) -> Item:
    """Of the same size or so, with an instant that people can read in place of the stamp."""
    kept = {name: value for name, value in item.items() if name != "r"}
    return {**kept, "renewed_at": {"S": BEGUN.isoformat()}}


def _plain(value: Mapping[str, Any]) -> Any:
    """As boto3's deserialiser does."""
    kind, content = next(iter(value.items()))
    match kind:
        case "S":
            return content
        case "N":
            return Decimal(content)
        case "BOOL":
            return bool(content)
        case "L":
            return [_plain(each) for each in content]
        case "M":
            return {name: _plain(each) for name, each in content.items()}
    raise TypeError(f"an attribute of kind {kind}")
