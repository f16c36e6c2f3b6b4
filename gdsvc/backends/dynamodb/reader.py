"""Reads the table for the stores: every renewal of every shard each poll, and registrations where they have changed.

A pass shows what it finds page by page; it counts as read once all of it was. Retries within a pass, and then waits a
little longer, until it can read again.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, TypeAlias

from gdsvc import logs, tasks
from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.codec import Found, Item, Key, Place
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import Kind, Part, name_in, name_of, shards
from gdsvc.backends.dynamodb.patience import Failed, patiently
from gdsvc.backends.dynamodb.table import GETS, Page
from gdsvc.backends.shared.store import Registration, SharedStore, Shown

SHARDS_AT_ONCE: Final = 8
CALL_SECS: Final = 5.0  # for one page or batch, its repetitions included; less where a pass is due more often
LONGEST_WAIT_SECS: Final = 10.0  # between two passes that fail
STEP: Final = 200  # renewals shown before others get their turn

log = logs.get("gdsvc.dynamodb")

Store: TypeAlias = SharedStore[Any, Any, Any]
NameOf: TypeAlias = tuple[Kind, bytes]


class Reader:
    """`async with Reader(writer, stores, engines, every_secs)`: polls until it is left.

    `stores` must share one lease clock. `polls` and `unreadable` items are counted.
    """

    def __init__(
        self,
        writer: Writer,
        stores: Mapping[Kind, Store],
        engines: Mapping[Kind, DynamoEngine],
        every_secs: float,
        unix_now: Callable[[], float] = time.time,
    ) -> None:
        self._writer = writer
        self._stores = stores
        self._engines = engines
        self._every_secs = every_secs
        self._call_secs = min(2 * every_secs, CALL_SECS)
        self._unix_now = unix_now
        self._task: asyncio.Task[None] | None = None
        self._failures = 0  # in a row
        self._unreadable: set[NameOf] = set()  # of the last pass
        self.polls = 0

    @property
    def unreadable(self) -> int:
        """Items that the last pass found and could not read."""
        return len(self._unreadable)

    async def __aenter__(self) -> "Reader":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            await tasks.cancelled([self._task])

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            began_at = now()
            since = {store: store.begin() for store in self._stores.values()}
            try:
                await self.poll()
            except Failed as failed:
                self._failed(failed, since)
            except Exception:  # whatever it is, the next pass may go well
                log.exception("dynamodb.poll_failed")
                self._failed(Failed("server", "a fault of ours, which is in the log"), since)
            due_secs = self._every_secs
            if self._failures:
                due_secs = min(self._every_secs * 2 ** (self._failures - 1), max(LONGEST_WAIT_SECS, self._every_secs))
                due_secs *= random.uniform(0.75, 1.0)  # noqa: S311 - spreads load, guards nothing
            await asyncio.sleep(max(0.0, began_at + due_secs - now()))

    def _failed(self, failed: Failed, since: Mapping[Store, float]) -> None:
        self._failures += 1
        if self._failures == 1:
            log.warning("dynamodb.unread", fault=str(failed), kind=failed.kind)
        for store, began_at in since.items():
            store.unread(began_at)

    # -- one pass

    async def poll(self) -> None:
        """One pass over the table. Raises Failed."""
        began_at = {kind: store.begin() for kind, store in self._stores.items()}
        self.polls += 1
        place = self._writer.place
        if place is None:
            place = self._writer.place = await self.layout()
        present: dict[Kind, set[bytes]] = {kind: set() for kind in self._stores}
        unreadable: set[NameOf] = set()
        limit = asyncio.Semaphore(SHARDS_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for shard in shards(place.shards):
                    group.create_task(self._read_shard(limit, place, shard, present, unreadable))
        except* Failed as failures:
            raise _first(failures) from None
        for kind, store in self._stores.items():
            store.prune(present[kind])
            store.read(began_at[kind])
        self._went_well(unreadable)

    async def layout(self) -> Place:
        """How the table is laid out. Raises Failed, also where this version cannot read it."""
        item = await patiently(self._writer.table.layout, self._call_secs, self._writer.noted, what="get_item")
        if item is None:
            raise Failed("absent", "there is no layout in it")
        place = codec.place_in(item)
        if place is None:
            raise Failed("refused", "the table has a layout that this version of gdsvc does not know")
        return place

    def _went_well(self, unreadable: set[NameOf]) -> None:
        if self._failures:
            log.info("dynamodb.read_again", after=self._failures)
        self._failures = 0
        for kind, name in sorted(unreadable - self._unreadable, key=lambda of: of[1])[:10]:
            log.warning("dynamodb.unreadable", kind=kind.name.lower(), key=name.decode(errors="replace"))
        self._unreadable = unreadable

    async def _read_shard(
        self,
        limit: asyncio.Semaphore,
        place: Place,
        shard: str,
        present: Mapping[Kind, set[bytes]],
        unreadable: set[NameOf],
    ) -> None:
        async with limit:
            after: Item | None = None
            while True:
                page = await self._page(shard, after)
                found = [each for item in page.items if (each := codec.found_in(item)) and each.kind in self._stores]
                for each in found:
                    present[each.kind].add(each.name)
                await self._show(place, found, unreadable)
                if page.after is None:
                    return
                after = page.after

    async def _page(self, shard: str, after: Item | None) -> Page:
        return await patiently(
            lambda: self._writer.table.renewals(shard, after), self._call_secs, self._writer.noted, what="query"
        )

    async def _show(self, place: Place, found: Sequence[Found], unreadable: set[NameOf]) -> None:
        lacking = [each for each in found if self._stores[each.kind].lacks(each.name, each.renewal)]
        registrations = await self._registrations(place, lacking)
        for start in range(0, len(found), STEP):
            for each in found[start : start + STEP]:
                whose = (each.kind, each.name)
                registration = registrations.get(whose)
                if self._stores[each.kind].show(each.name, each.renewal, registration) is Shown.UNREADABLE:
                    unreadable.add(whose)
            await asyncio.sleep(0)

    async def _registrations(self, place: Place, lacking: Sequence[Found]) -> dict[NameOf, Registration]:
        """Those that are there."""
        keys = [place.key(Part.REGISTRATION, each.kind, each.name) for each in lacking]
        registrations: dict[NameOf, Registration] = {}
        for start in range(0, len(keys), GETS):
            for item in await self._all_of(keys[start : start + GETS]):
                whose, read = name_in(item["sk"]["S"]), codec.registration_in(item)
                if whose is not None and read is not None:
                    whose = (whose[0], whose[1] or name_of(item["n"]["S"]))
                    registrations[whose], until = read
                    self._engines[whose[0]].kept(whose[1], until)
        return registrations

    async def _all_of(self, keys: Sequence[Key]) -> Iterable[Item]:
        left, items = list(keys), list[Item]()

        async def get() -> None:
            nonlocal left
            got, left = await self._writer.table.get_all(left)
            items.extend(got)
            if left:
                raise Failed("throttled", "batch_get_item: some items were not read")

        await patiently(get, self._call_secs, self._writer.noted, what="batch_get_item")
        return items


def _first(failures: BaseExceptionGroup[Failed]) -> Failed:
    """One of several that say much the same."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
