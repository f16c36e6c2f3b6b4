"""What stands in the table that is read: pools as a replica would have written them; and what they are charged."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from http.client import HTTPConnection
from typing import Any

import msgspec

from bench.stores.items import items
from bench.stores.places import HEARTBEATS_TABLE, READINGS_TABLE, REGION, Tables
from bench.stores.units import item_bytes, query_units, write_units
from gdsvc.backends.dynamodb.codec import Item
from gdsvc.backends.dynamodb.creation import SHARDS, create
from gdsvc.backends.dynamodb.keys import shards
from gdsvc.backends.dynamodb.table import PUTS, Table, opened
from tests.dynamodb.ministack import CREDENTIALS

AT_ONCE = 4  # batches that are written together: the engine does one after the other
PATIENT_SECS = 30.0


class Charge(msgspec.Struct, frozen=True):
    """What one heartbeat writes and one poll reads, in bytes as DynamoDB counts them, and in its units."""

    renewal_bytes: int
    registration_bytes: int
    write_units: int
    read_units: float
    queries: int


class Check(msgspec.Struct, frozen=True):
    """The units of one call, by the rule and as the engine said."""

    what: str
    by_rule: float
    said: float


def laid_out(tables: Tables) -> None:
    """Makes both tables. Raises Failed."""
    asyncio.run(_lay_out(tables))


def filled(tables: Tables, first: int, pools: int) -> None:
    """Adds the pools from number `first` up to `pools`. Raises Failed."""
    asyncio.run(_fill(tables, first, pools))


def charged(tables: Tables) -> Charge:
    """Reads all that is there, as a poll does. The proxy so learns the answers, which take the engine long."""
    return asyncio.run(_charged(tables))


def check(tables: Tables, name: str) -> list[Check]:
    """Units that the engine says a page and a batch of renewals took, beside those by the rules."""
    shard = shards(SHARDS)[0]
    query = {
        "TableName": name,
        "KeyConditionExpression": "pk = :shard AND begins_with(sk, :part)",
        "ExpressionAttributeValues": {":shard": {"S": shard}, ":part": {"S": "h"}},
        "Limit": 200,
    }
    page = _asked(tables, "Query", query)
    batch = {name: [{"PutRequest": {"Item": item}} for item in page["Items"][:PUTS]]}
    written = _asked(tables, "BatchWriteItem", {"RequestItems": batch})
    sizes = [item_bytes(item) for item in page["Items"]]
    return [
        Check(f"Query of {len(sizes)} renewals", query_units([sum(sizes)]), page["ConsumedCapacity"]["CapacityUnits"]),
        Check(
            f"BatchWriteItem of {len(sizes[:PUTS])} renewals",
            write_units(sizes[:PUTS]),
            written["ConsumedCapacity"][0]["CapacityUnits"],
        ),
    ]


def _asked(tables: Tables, operation: str, request: dict[str, Any]) -> Any:
    """The engine's answer, without the client: it looks at no signature."""
    connection = HTTPConnection(tables.endpoint.rpartition("/")[2], timeout=PATIENT_SECS)
    try:
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/dynamodb/aws4_request",
        }
        body = msgspec.json.encode({**request, "ReturnConsumedCapacity": "TOTAL"})
        connection.request("POST", "/", body, headers)
        return msgspec.json.decode(connection.getresponse().read())
    finally:
        connection.close()


async def _lay_out(tables: Tables) -> None:
    for name in (HEARTBEATS_TABLE, READINGS_TABLE):
        async with _opened(tables, name) as table:
            async for _ in create(table, SHARDS):
                pass


async def _fill(tables: Tables, first: int, pools: int) -> None:
    written = list(items(first, pools))
    batches = [written[start : start + PUTS] for start in range(0, len(written), PUTS)]
    gate = asyncio.Semaphore(AT_ONCE)

    async def put(table: Table, batch: list[Item]) -> None:
        async with gate:
            while batch:
                batch = await table.put_renewals(batch)

    async with _opened(tables, READINGS_TABLE) as table, asyncio.TaskGroup() as group:
        for batch in batches:
            group.create_task(put(table, batch))


async def _charged(tables: Tables) -> Charge:
    pages: list[Sequence[Item]] = []
    async with _opened(tables, READINGS_TABLE) as table:
        for shard in shards(SHARDS):
            after: Item | None = None
            while True:
                page = await table.renewals(shard, after)
                pages.append(page.items)
                if (after := page.after) is None:
                    break
    renewal, registration = (item_bytes(item) for item in items(0, 1))
    read = query_units(sum(map(item_bytes, page)) for page in pages)
    return Charge(renewal, registration, write_units([renewal]), read, len(pages))


def _opened(tables: Tables, name: str) -> AbstractAsyncContextManager[Table]:
    """Through the proxy, as a service."""
    os.environ.update(CREDENTIALS)
    return opened(name, REGION, tables.url)
