"""A table in this process that answers as a test says: throttled, slow, with an answer that is lost."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.codec import Item, Key
from gdsvc.backends.dynamodb.keys import LAYOUT_KEY
from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import Page, Table


def _at(key: Key | Item) -> tuple[str, str]:
    return key["pk"]["S"], key["sk"]["S"]


class Gate:
    """Where a call waits: `reached` once it has come, until `opened`."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


class ScriptedTable(Table):
    """What was called is in `calls`; `fails`, `loses` and `hangs` say what becomes of the next, `hold` delays one."""

    def __init__(self) -> None:
        super().__init__(None, "scripted")
        self.items: dict[tuple[str, str], Item] = {}
        self.calls: list[tuple[str, int]] = []
        self.unprocessed: Callable[[Sequence[Item]], list[Item]] = lambda items: []
        self.fails: list[Failed] = []  # one for each call, from the first on
        self.loses: list[Failed] = []  # the same, once the call has done its work
        self.spoils: dict[str, Failed] = {}  # for the next call of that operation
        self.description: dict[str, Any] | None = None
        self.ttl: dict[str, Any] = {}
        self.begun = asyncio.Event()
        self.hangs = 0  # calls that never end
        self._gates: dict[str, Gate] = {}

    def hold(self, operation: str) -> "Gate":
        """Holds back the next call of that operation, before it does anything."""
        gate = self._gates[operation] = Gate()
        return gate

    async def _begin(self, operation: str, size: int = 1) -> None:
        self.calls.append((operation, size))
        self.begun.set()
        if (gate := self._gates.pop(operation, None)) is not None:
            gate.reached.set()
            await gate.opened.wait()
        await asyncio.sleep(0)
        if self.hangs:
            self.hangs -= 1
            await asyncio.Event().wait()
        if operation in self.spoils:
            raise self.spoils.pop(operation)
        if self.fails:
            raise self.fails.pop(0)

    def _end(self) -> None:
        if self.loses:
            raise self.loses.pop(0)

    async def layout(self) -> Item | None:
        await self._begin("layout")
        return self.items.get(LAYOUT_KEY)

    async def put(self, item: Item, before: int | None = None) -> bool:
        await self._begin("put")
        there = self.items.get(_at(item))
        version = None if there is None else int(there["v"]["N"])
        if version == before:
            self.items[_at(item)] = item
        self._end()
        return version == before

    async def put_renewals(self, items: Sequence[Item]) -> list[Item]:
        await self._begin("put_renewals", len(items))
        left = self.unprocessed(items)
        self.items |= {_at(item): item for item in items if item not in left}
        self._end()
        return left

    async def get(self, key: Key) -> Item | None:
        await self._begin("get")
        return self.items.get(_at(key))

    async def get_all(self, keys: Sequence[Key]) -> tuple[list[Item], list[Key]]:
        await self._begin("get_all", len(keys))
        return [self.items[_at(key)] for key in keys if _at(key) in self.items], []

    async def renewals(self, shard: str, after: Item | None) -> Page:
        await self._begin("renewals")
        return Page([item for (pk, sk), item in self.items.items() if pk == shard and sk.startswith("h")], None)

    async def name_later(self, key: Key, stamp: str, version: int) -> bool:
        await self._begin("name_later")
        there = self.items.get(_at(key))
        if there is None or there["r"]["S"] != stamp or int(there["v"]["N"]) >= version:
            return False
        self.items[_at(key)] = there | {"v": {"N": str(version)}}
        return True

    async def keep(self, key: Key, version: int, unix_now: float) -> bool:
        await self._begin("keep")
        there = self.items.get(_at(key))
        if there is None or int(there["v"]["N"]) != version:
            return False
        there["ttl"] = {"N": str(codec.kept_until(unix_now))}
        return True

    async def describe(self) -> dict[str, Any]:
        await self._begin("describe")
        if self.description is None:
            raise Failed("absent", "describe_table: ResourceNotFoundException")
        return self.description

    async def time_to_live(self) -> dict[str, Any]:
        await self._begin("time_to_live")
        return self.ttl

    async def create(self, definition: Mapping[str, Any]) -> None:
        await self._begin("create")
        self.description = {**definition, "TableStatus": "ACTIVE"}

    async def enable_time_to_live(self) -> None:
        await self._begin("enable_time_to_live")
        self.ttl = {"TimeToLiveStatus": "ENABLING", "AttributeName": "ttl"}

    async def delete(self, key: Key) -> None:
        await self._begin("delete")
        self.items.pop(_at(key), None)

    async def date(self) -> str | None:
        await self._begin("date")
        return "Fri, 15 Jan 2027 08:00:00 GMT"

    def of(self, sort_key: str) -> dict[str, Any]:
        """The one item of that sort key."""
        return next(item for (_, sk), item in self.items.items() if sk == sort_key)
