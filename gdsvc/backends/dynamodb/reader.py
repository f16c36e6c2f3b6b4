"""Reads the table for the stores: every renewal of every shard each poll, and registrations where they have changed.

A pass shows what it finds page by page; it counts as read once all of it was. Retries within a pass, and then waits a
little longer, until it can read again. A renewal that hides a change from others is made to name it after the pass.
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
NAMING_SECS: Final = 1.0  # for that, once; what fails the next pass does
NAMED_AT_ONCE: Final = 100  # renewals of one pass that are made to name a later registration; the next does the rest

log = logs.get("gdsvc.dynamodb")

Store: TypeAlias = SharedStore[Any, Any, Any]
NameOf: TypeAlias = tuple[Kind, bytes]


class _Pass:
    """What one pass has found so far."""

    def __init__(self, place: Place, kinds: Iterable[Kind]) -> None:
        self.place = place
        self.present: dict[Kind, set[bytes]] = {kind: set() for kind in kinds}
        self.unreadable: set[NameOf] = set()
        self.outdated: list[tuple[Found, int]] = []  # and which version each ought to name


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
        found = _Pass(place, self._stores)
        limit = asyncio.Semaphore(SHARDS_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for shard in shards(place.shards):
                    group.create_task(self._read_shard(limit, shard, found))
        except* Failed as failures:
            raise _first(failures) from None
        for kind, store in self._stores.items():
            store.prune(found.present[kind])
            store.read(began_at[kind])
        self._went_well(found.unreadable)
        await asyncio.gather(*(self._name_later(*each) for each in found.outdated[:NAMED_AT_ONCE]))

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

    async def _name_later(self, found: Found, version: int) -> None:
        """For the replicas that have not read that version; where it fails, the next pass finds the renewal again."""
        try:
            async with asyncio.timeout(min(self._call_secs, NAMING_SECS)):
                await self._engines[found.kind].name_later(found.name, found.renewal, version)
        except TimeoutError:
            self._writer.noted("slow")
        except Failed as failed:
            self._writer.noted(failed.kind)

    async def _read_shard(self, limit: asyncio.Semaphore, shard: str, found: _Pass) -> None:
        async with limit:
            after: Item | None = None
            while True:
                page = await self._page(shard, after)
                renewals = [each for item in page.items if (each := codec.found_in(item)) and each.kind in self._stores]
                await self._show(await self._passed(renewals, found), found)
                if page.after is None:
                    return
                after = page.after

    async def _page(self, shard: str, after: Item | None) -> Page:
        return await patiently(
            lambda: self._writer.table.renewals(shard, after), self._call_secs, self._writer.noted, what="query"
        )

    async def _passed(self, renewals: Sequence[Found], found: _Pass) -> Sequence[Found]:
        """Those that say more than that what is known was renewed."""
        left: list[Found] = []
        for start in range(0, len(renewals), STEP):
            step = renewals[start : start + STEP]
            for kind, store in self._stores.items():
                of_kind = [each for each in step if each.kind is kind]
                found.present[kind].update(each.name for each in of_kind)
                left += store.renewed(of_kind)
            await asyncio.sleep(0)
        return left

    async def _show(self, renewals: Sequence[Found], found: _Pass) -> None:
        lacking = [each for each in renewals if self._stores[each.kind].lacks(each.name, each.renewal)]
        registrations = await self._registrations(found.place, lacking)
        for start in range(0, len(renewals), STEP):
            for each in renewals[start : start + STEP]:
                whose, store = (each.kind, each.name), self._stores[each.kind]
                if store.show(each.name, each.renewal, registrations.get(whose)) is Shown.UNREADABLE:
                    found.unreadable.add(whose)
                if version := store.outdates(each.name, each.renewal):
                    found.outdated.append((each, version))
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
