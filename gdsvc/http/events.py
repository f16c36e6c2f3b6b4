"""Changes of a directory as server-sent events: how one is written, how it is numbered, what a filter makes of it."""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import LAGGED, Fanout, Lagged
from gdsvc.pool_discovery.watch import EncodedEvent, EncodedUpsert

EVENTS_A_WRITE: Final = 512  # at most; a loop that writes to hundreds must not be held long by one
WRITE_BYTES: Final = 32 * 1024  # from which on a write takes no more events
BATCHES_KEPT: Final = 32  # watchers that are at the same place, as most are, share what is written,
BATCH_BYTES_KEPT: Final = 8 * 1024 * 1024  # but for the newest at most so much, since one event may have megabytes

_ID = re.compile(rb"([0-9a-f]{16})-([0-9]{1,18})(?:-([0-9a-f]{16}))?")


class EventId(Struct, frozen=True):
    """An `id:` line taken apart; `filter_hash` is empty where there is no filter."""

    epoch: str
    revision: int
    filter_hash: str


def parse_id(text: bytes) -> EventId | None:
    """What a caller says it has seen last; None where that is no id of ours."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        return None
    epoch, revision, filter_hash = match.groups(b"")
    return EventId(epoch.decode(), int(revision), filter_hash.decode())


class Batch(Struct, frozen=True):
    """Events as they are written, and the revision that whoever got them is at; no bytes where none concerns them."""

    data: bytes
    events: int
    revision: int


class Events:
    """The events of one directory, each encoded once for all watchers.

    `removal(key)` encodes the data of a `removed`; `epoch` (16 hex digits) tells this process from others. `encodings`
    counts changes, not the removals that filters make of them.
    """

    def __init__(self, changes: Fanout[EncodedEvent], epoch: str, removal: Callable[[bytes], bytes]) -> None:
        self._changes = changes
        self._epoch = epoch.encode()
        self._removal = removal
        self._parts: OrderedDict[int, bytes] = OrderedDict()  # by revision: an event without its id
        self._batches: OrderedDict[tuple[Filter, int], Batch] = OrderedDict()  # by what they hold, not by a hash of it
        self._batch_bytes = 0
        self.encodings = 0

    def is_of_this_process(self, seen: EventId) -> bool:
        """Whether the revision in `seen` is one of ours."""
        return seen.epoch.encode() == self._epoch

    def id_line(self, revision: int, filter_hash: bytes) -> bytes:
        """`id: EPOCH-REVISION` or, with a filter, `id: EPOCH-REVISION-HASH`."""
        tail = b"-" + filter_hash if filter_hash else b""
        return b"id: %b-%d%b\n" % (self._epoch, revision, tail)

    def since(self, revision: int, where: Filter, filter_hash: bytes) -> Batch | Lagged:
        """The next events behind `revision`, as many as go into one write; LAGGED where they are no longer there."""
        place = where, revision
        known = self._batches.get(place)
        if known is not None and (known.revision == self._changes.published or _is_full(known, revision)):
            return known
        events = self._changes.since(revision, EVENTS_A_WRITE)
        if isinstance(events, Lagged):
            return LAGGED
        batch = self._batch(revision, events, where, filter_hash)
        self._keep(place, batch)
        return batch

    def _keep(self, place: tuple[Filter, int], batch: Batch) -> None:
        before = self._batches.pop(place, None)
        self._batches[place] = batch
        self._batch_bytes += len(batch.data) - (len(before.data) if before is not None else 0)
        while len(self._batches) > 1 and (len(self._batches) > BATCHES_KEPT or self._batch_bytes > BATCH_BYTES_KEPT):
            _, dropped = self._batches.popitem(last=False)
            self._batch_bytes -= len(dropped.data)

    def _batch(self, revision: int, events: list[EncodedEvent], where: Filter, filter_hash: bytes) -> Batch:
        written: list[bytes] = []
        size = 0
        for event in events:
            revision += 1
            part = self._part(revision, event, where)
            if part is None:
                continue
            written += (part, self.id_line(revision, filter_hash), b"\n")
            size += len(part)
            if size >= WRITE_BYTES:
                break
        return Batch(b"".join(written), len(written) // 3, revision)

    def _part(self, revision: int, event: EncodedEvent, where: Filter) -> bytes | None:
        """The event as watchers of `where` see it: an item that leaves the filter is removed; None: not at all."""
        if isinstance(event, EncodedUpsert):
            if where is EVERYTHING or where.matches(event.key, event.facets):
                return self._kept(revision, b"event: upserted\ndata: %b\n", event.encoded)
            if event.was is None or not where.matches(event.key, event.was):
                return None
            return b"event: removed\ndata: %b\n" % self._removal(event.key)
        if where is EVERYTHING or where.matches(event.key, event.was):
            known = self._parts.get(revision)
            return known or self._kept(revision, b"event: removed\ndata: %b\n", self._removal(event.key))
        return None

    def _kept(self, revision: int, form: bytes, data: bytes) -> bytes:
        part = self._parts.get(revision)
        if part is None:
            oldest = self._changes.oldest
            while self._parts and next(iter(self._parts)) <= oldest:
                self._parts.popitem(last=False)
            part = self._parts[revision] = form % data
            self.encodings += 1
        return part


def _is_full(batch: Batch, after: int) -> bool:
    """Whether the batch behind the revision `after` is all that one write takes, so that nothing can be added to it."""
    return len(batch.data) >= WRITE_BYTES or batch.revision - after >= EVENTS_A_WRITE
