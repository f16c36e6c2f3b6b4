"""Writes for one kind of member: registrations under a condition, renewals in batches. An Engine of the shared stores.

Of two writers that change a registration at one time the later wins without a clock: each reads what is there when its
heartbeat has come, and replaces just that. Who finds another's change there since then was the earlier of the two.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.codec import Place
from gdsvc.backends.dynamodb.keys import Kind, Part
from gdsvc.backends.dynamodb.patience import Failed, Noted, patiently
from gdsvc.backends.dynamodb.table import Table
from gdsvc.backends.dynamodb.turns import Turns
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration, Written
from gdsvc.errors import DoesNotFit, Unavailable

T = TypeVar("T")

LARGEST_BYTES = 400 * 1024 - 4096  # of a payload: an item takes 400 KiB, its keys and names included
RETRY_SECS = 1  # of a heartbeat that could not be written: it is due again well within its lease


class Writer:
    """What the engines of all kinds share: the table, its layout once that is known, and stamps.

    `secs` is the time that a heartbeat has. Nothing can be written before `open`.
    """

    def __init__(self, noted: Noted, *, secs: float, lease_secs: float) -> None:
        self.noted = noted
        self.secs = secs
        self.lease_secs = lease_secs
        self.place: Place | None = None
        self._table: Table | None = None
        self._batches: Batches | None = None
        self.turns = Turns()  # of calls for one item
        self._name = secrets.token_hex(4)
        self._numbers = count(1)

    def open(self, table: Table, batches: Batches) -> None:
        """From now on it writes there."""
        self._table, self._batches = table, batches

    @property
    def table(self) -> Table:
        """Raises Unavailable."""
        if self._table is None:
            raise _unreached()
        return self._table

    @property
    def calls(self) -> int:
        """Batches written."""
        return self._batches.calls if self._batches else 0

    @property
    def puts(self) -> int:
        """Renewals in them."""
        return self._batches.puts if self._batches else 0

    def known_place(self) -> Place:
        """The layout. Raises Unavailable before it was read."""
        if self.place is None:
            raise _unreached()
        return self.place

    async def put(self, kind: Kind, name: bytes, version: int, unix_now: float, *, gone: bool = False) -> Renewal:
        """Writes a renewal that nobody has written yet. Raises Failed, Unavailable."""
        if self._batches is None:
            raise _unreached()
        stamp = codec.stamp(unix_now, self._name, next(self._numbers))
        renewal = Renewal(stamp, unix_now, self.lease_secs, version, gone)
        await self._batches.put(self.known_place().renewal_item(kind, name, renewal))
        return renewal


def _unreached() -> Unavailable:
    return Unavailable("the table of registrations has not been reached yet", RETRY_SECS)


class DynamoEngine:
    """An Engine. `unix_now` is read for stamps, versions and for how long items are kept; none of it is compared."""

    def __init__(self, writer: Writer, kind: Kind, unix_now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._kind = kind
        self._unix_now = unix_now
        self._writing: dict[tuple[bytes, bytes], asyncio.Task[Written]] = {}
        self._kept_until: dict[bytes, int] = {}  # until when the table keeps a registration, as far as is known

    def kept(self, name: bytes, until: int) -> None:
        """Told by the reader: until when the registration of `name` is kept, in Unix seconds."""
        self._kept_until[name] = until

    async def write(self, name: bytes, payload: bytes) -> Written:
        """As Engine says. Relays that say the same at one time share one write. Raises DoesNotFit."""
        if len(payload) > LARGEST_BYTES:
            raise DoesNotFit(
                f"expected a registration of at most {LARGEST_BYTES} bytes: an item of DynamoDB takes no more"
            )
        same = (name, payload)
        task = self._writing.get(same)
        if task is None:
            task = self._writing[same] = asyncio.create_task(self._write(name, payload))
            task.add_done_callback(lambda ended: self._written(same, ended))
        async with self._answering():
            return await asyncio.shield(task)

    async def renew(self, name: bytes, version: int) -> Renewal | None:
        """As Engine says; once a day it keeps the registration too, and finds out whether that is there."""
        async with self._answering():
            kept_secs = self._kept_until.get(name, 0) - self._unix_now()
            if kept_secs < codec.KEPT_SECS - codec.KEEP_AGAIN_SECS and not await self._keep(name, version):
                return None
            return await self._put(name, version)

    async def find(self, name: bytes) -> Renewal | None:
        """As Engine says."""
        place = self._writer.known_place()
        async with self._answering():
            key = place.key(Part.RENEWAL, self._kind, name)
            item = await self._patiently(lambda: self._writer.table.get(key), "get_item")
        found = None if item is None else codec.found_in(item)
        return None if found is None else found.renewal

    async def deregister(self, name: bytes, version: int) -> Renewal | None:
        """Puts a renewal that says so, so that readers see it however late they read what was there before."""
        async with self._answering():
            return await self._put(name, max(version, 1), gone=True)

    async def name_later(self, name: bytes, renewal: Renewal, version: int) -> None:
        """Has `renewal`, if it still is the last, name the registration of `version`; one attempt. Raises Failed."""
        key = self._writer.known_place().key(Part.RENEWAL, self._kind, name)
        await self._writer.table.name_later(key, renewal.stamp, version)

    def _written(self, same: tuple[bytes, bytes], ended: "asyncio.Task[Written]") -> None:
        del self._writing[same]
        if not ended.cancelled():
            ended.exception()  # whoever waits is told of it; perhaps nobody waits any more

    async def _write(self, name: bytes, payload: bytes) -> Written:
        async with asyncio.timeout(self._writer.secs):
            registration = await self._register(name, payload)
            return Written(await self._put(name, registration.version), registration)

    async def _register(self, name: bytes, payload: bytes) -> Registration:
        """What the table holds in the end: `payload`, or what another wrote since this began."""
        place, table = self._writer.known_place(), self._writer.table
        before = await self._stored(name)
        if before is None or before.payload != payload:
            unix_now = self._unix_now()
            later = Registration(codec.later_version(before.version if before else 0, unix_now), payload)
            item = place.registration_item(self._kind, name, later, unix_now)
            expected = None if before is None else before.version
            if await self._patiently(lambda: table.put(item, expected), "put_item"):
                self._kept_until[name] = codec.kept_until(unix_now)
                before = later
            else:  # another's, or ours, of an attempt whose answer was lost
                before = await self._stored(name)
        if before is None:
            raise Failed("server", "get_item: a registration came and went")
        return before

    async def _stored(self, name: bytes) -> Registration | None:
        key = self._writer.known_place().key(Part.REGISTRATION, self._kind, name)
        item = await self._patiently(lambda: self._writer.table.get(key), "get_item")
        if item is None:
            return None
        found = codec.registration_in(item)
        if found is None:
            raise Failed("refused", "get_item: an item stands where a registration would, and is none")
        self._kept_until[name] = found[1]
        return found[0]

    async def _keep(self, name: bytes, version: int) -> bool:
        key = self._writer.known_place().key(Part.REGISTRATION, self._kind, name)
        unix_now = self._unix_now()
        kept = await self._patiently(lambda: self._writer.table.keep(key, version, unix_now), "update_item")
        if kept:
            self._kept_until[name] = codec.kept_until(unix_now)
        return kept

    async def _put(self, name: bytes, version: int, *, gone: bool = False) -> Renewal:
        return await self._writer.put(self._kind, name, version, self._unix_now(), gone=gone)

    async def _patiently(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        writer = self._writer
        return await patiently(call, writer.secs, writer.noted, what=what, turns=writer.turns)

    @asynccontextmanager
    async def _answering(self) -> AsyncGenerator[None]:
        """What a heartbeat is told of a call that failed, once its time is over."""
        try:
            async with asyncio.timeout(self._writer.secs):
                yield
        except TimeoutError:
            self._writer.noted("slow")
            raise Unavailable("the registration could not be written in time", RETRY_SECS) from None
        except Failed as failed:
            raise Unavailable(f"the registration could not be written: {failed}", RETRY_SECS) from None
