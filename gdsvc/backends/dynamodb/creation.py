"""What a table must be: its definition, how it is made, and what may be wrong with one. Prints nothing."""

import asyncio
import email.utils
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.codec import TTL_ATTRIBUTE, Place
from gdsvc.backends.dynamodb.keys import Kind, Part
from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import Table
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration

SHARDS: Final = 8  # 40,000 pools at a heartbeat of 5 s, and a poll still is eight small queries
ACTIVE_AFTER_SECS: Final = 120.0
LOOK_AGAIN_SECS: Final = 0.5
SKEW_SECS: Final = 60.0  # of ours to the table's clock: nothing breaks before ten minutes, but it is a sign
TRIAL: Final = b"gdsvc-check"  # the router id of the items that a check writes and deletes

DEFINITION: Final[Mapping[str, Any]] = {
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}


T = TypeVar("T")


class Finding(Struct, frozen=True):
    """One thing that was looked at; `fault` says what is wrong with it, None where nothing is."""

    what: str
    fault: str | None = None


# ------------------------------------------------------------------------------------------------------ making


async def create(table: Table, shards: int) -> AsyncGenerator[str]:
    """Makes the table as far as it is not there; says each step that was taken. Raises Failed."""
    try:
        await table.describe()
    except Failed as failed:
        if failed.kind != "absent":
            raise
        await table.create(DEFINITION)
        yield f"created the table {table.name}"
    await _active(table)
    if (await table.time_to_live()).get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        await table.enable_time_to_live()
        yield f"enabled time to live on the attribute {TTL_ATTRIBUTE}"
    if await table.put(codec.layout_item(shards)):
        yield f"laid it out in {shards} shards"
        return
    item = await table.layout()
    place = None if item is None else codec.place_in(item)
    if place is None:
        raise Failed("refused", "the table has a layout that this version of gdsvc does not know")
    if place.shards != shards:
        yield f"it has {place.shards} shards, not {shards}, which cannot be changed any more"


async def _active(table: Table) -> None:
    now = asyncio.get_running_loop().time
    until = now() + ACTIVE_AFTER_SECS
    while (await table.describe()).get("TableStatus") != "ACTIVE":
        if now() >= until:
            raise Failed("slow", f"the table is not active after {ACTIVE_AFTER_SECS:g} s")
        await asyncio.sleep(LOOK_AGAIN_SECS)


# ---------------------------------------------------------------------------------------------------- checking


async def check(table: Table, unix_now: Callable[[], float] = time.time) -> AsyncGenerator[Finding]:
    """Looks at everything that the service needs of the table, by trying it. What it writes it deletes again."""
    shape, description = await _tried("the table is there", table.describe)
    yield shape
    if description is None:
        return
    yield _shape(description)
    ttl, kept = await _tried(f"old items are dropped by their {TTL_ATTRIBUTE}", table.time_to_live)
    yield _time_to_live(ttl, kept)
    yield await _clock(table, unix_now)
    layout, item = await _tried("its layout can be read", table.layout)
    place = None if item is None else codec.place_in(item)
    if layout.fault is None and place is None:
        fault = (
            "there is none; run `gdsvc dynamodb create-table`" if item is None else "another version of gdsvc made it"
        )
        layout = Finding(layout.what, fault)
    yield layout
    if place is not None:
        async for finding in _permissions(table, place, unix_now()):
            yield finding


async def _tried(what: str, call: Callable[[], Awaitable[T]]) -> tuple[Finding, T | None]:
    try:
        return Finding(what), await call()
    except Failed as failed:
        return Finding(what, str(failed)), None


def _shape(description: Mapping[str, Any]) -> Finding:
    wanted = {(key["AttributeName"], key["KeyType"]) for key in DEFINITION["KeySchema"]}
    found = {(key.get("AttributeName"), key.get("KeyType")) for key in description.get("KeySchema", [])}
    types = {
        each.get("AttributeName"): each.get("AttributeType") for each in description.get("AttributeDefinitions", [])
    }
    what = "its keys are the strings pk and sk"
    if found != wanted or any(types.get(name) != "S" for name, _ in wanted):
        return Finding(what, f"they are {', '.join(sorted(str(name) for name, _ in found))}")
    return Finding(what)


def _time_to_live(tried: Finding, description: Mapping[str, Any] | None) -> Finding:
    if description is None:
        return tried
    if description.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        return Finding(tried.what, "time to live is off; run `gdsvc dynamodb create-table`")
    if description.get("AttributeName") != TTL_ATTRIBUTE:
        return Finding(
            tried.what, f"time to live looks at the attribute {str(description.get('AttributeName'))[:80]!r}"
        )
    return tried


async def _clock(table: Table, unix_now: Callable[[], float]) -> Finding:
    what = f"its clock and ours differ by less than {SKEW_SECS:g} s"
    tried, date = await _tried(what, table.date)
    if tried.fault is not None or date is None:
        return Finding(what, tried.fault or "its answers bear no date")
    skew = unix_now() - email.utils.parsedate_to_datetime(date).timestamp()
    return Finding(what, None if abs(skew) < SKEW_SECS else f"ours is {skew:+.0f} s off")


async def _permissions(table: Table, place: Place, unix_now: float) -> AsyncGenerator[Finding]:
    """What the service does, done once to a router replica that is none."""
    renewal = Renewal(codec.stamp(unix_now, "check", 1), unix_now, 1.0, 1, gone=True)
    registration = Registration(1, b"{}")
    key = place.key(Part.REGISTRATION, Kind.ROUTER, TRIAL)
    shard, renewal_key = key["pk"]["S"], place.key(Part.RENEWAL, Kind.ROUTER, TRIAL)
    item = place.registration_item(Kind.ROUTER, TRIAL, registration, unix_now)
    calls: Mapping[str, Callable[[], Awaitable[object]]] = {
        "dynamodb:PutItem": lambda: table.put(item),
        "dynamodb:UpdateItem": lambda: table.keep(key, 1, unix_now),
        "dynamodb:GetItem": lambda: table.get(key),
        "dynamodb:BatchGetItem": lambda: table.get_all([key]),
        "dynamodb:BatchWriteItem": lambda: table.put_renewals([place.renewal_item(Kind.ROUTER, TRIAL, renewal)]),
        "dynamodb:Query": lambda: table.renewals(shard, None),
        "dynamodb:DeleteItem (for this check alone)": lambda: _deleted(table, key, renewal_key),
    }
    for action, call in calls.items():
        finding, _ = await _tried(f"{action} is allowed", call)
        yield finding


async def _deleted(table: Table, *keys: codec.Key) -> None:
    for key in keys:
        await table.delete(key)
