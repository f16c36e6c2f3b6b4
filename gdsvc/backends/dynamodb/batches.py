"""Puts of renewals, those that come within a few milliseconds in one call; each is done when its caller goes on.

Of two for one key in one batch the newer is written, and both callers go on.
"""

import asyncio
from types import TracebackType

from msgspec import Struct

from gdsvc import tasks
from gdsvc.backends.dynamodb.codec import Item
from gdsvc.backends.dynamodb.patience import Failed, Noted, patiently
from gdsvc.backends.dynamodb.table import PUTS, Table
from gdsvc.backends.dynamodb.turns import Turns

LINGER_SECS = 0.005  # for others to come: nothing to a heartbeat, and a call, which takes 1 ms of CPU, serves more


class _Waiting(Struct):
    item: Item
    done: asyncio.Future[None]


class Batches:
    """`async with Batches(table, secs, noted)`; `secs` is how long one put may take. `calls` and `puts` are counted."""

    def __init__(self, table: Table, secs: float, noted: Noted) -> None:
        self._table = table
        self._secs = secs
        self._noted = noted
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._turns = Turns()  # beyond, batches fill up while they wait
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.calls = 0
        self.puts = 0

    async def __aenter__(self) -> "Batches":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await tasks.cancelled(self._calls)
        self._settle(list(self._waiting.values()), Failed("slow", "the service is stopping"))

    async def put(self, item: Item) -> None:
        """Returns once the item, or a newer one of its key, is in the table. Raises Failed."""
        key = (item["pk"]["S"], item["sk"]["S"])
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(item, asyncio.get_running_loop().create_future())
        else:
            waiting.item = item
        if len(self._waiting) >= PUTS:
            self._send()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECS, self._send)
        await asyncio.shield(waiting.done)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and len(self._calls) < self._turns.allowed:
            batch = [self._waiting.pop(key) for key in list(self._waiting)[:PUTS]]
            call = asyncio.create_task(self._write(batch))
            self._calls.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._waiting and self._timer is None:
            self._send()

    async def _write(self, batch: list[_Waiting]) -> None:
        left = batch

        async def put() -> None:
            nonlocal left
            self.calls += 1
            self.puts += len(left)
            unwritten = {item["sk"]["S"] for item in await self._table.put_renewals([each.item for each in left])}
            self._settle([each for each in left if each.item["sk"]["S"] not in unwritten])
            left = [each for each in left if each.item["sk"]["S"] in unwritten]
            if left:
                raise Failed("throttled", "batch_write_item: some items were not written")

        try:
            await patiently(put, self._secs, self._noted, what="batch_write_item", turns=self._turns)
        except Failed as failed:
            self._settle(left, failed)
        except asyncio.CancelledError:
            self._settle(left, Failed("slow", "the service is stopping"))
            raise

    def _settle(self, waiting: list[_Waiting], failed: Failed | None = None) -> None:
        for each in waiting:
            if each.done.done():
                continue
            if failed is None:
                each.done.set_result(None)
            else:
                each.done.set_exception(failed)
                each.done.exception()  # whoever waits hears of it; nobody may wait any more
