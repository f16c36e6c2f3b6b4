"""Judges a run: what was asked of the service against what watchers and lists showed. No I/O, no clock.

Watchers get the same bytes for the same event, so each event is read once, by whoever gets it first.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from bench.fleet.latencies import Latencies
from bench.fleet.pools import Pool
from bench.fleet.stream import Block, Broken, block_of
from bench.fleet.track import Track

GONE: Final = 0  # the version of a pool that is taken out
EVENTS_KEPT: Final = 20_000  # twice, at most: a watcher that is further behind has its events read again


class _Key(Struct):
    site_id: str
    dgd_name: str


class _Capacity(Struct):
    max_concurrency: int | None = None


class _Item(Struct):
    """What is looked at of an upserted pool, or of a removal."""

    key: _Key
    capacity: _Capacity | None = None


class _Listed(Struct):
    complete: bool
    pools: list[_Item]


_ITEM_DECODER = msgspec.json.Decoder(_Item)
_LIST_DECODER = msgspec.json.Decoder(_Listed)


def is_complete(document: bytes) -> bool:
    """Whether a list says that it is complete. Raises DecodeError."""
    return _LIST_DECODER.decode(document).complete


class Change(Struct):
    """Something that was asked of the service: `settled` once it said yes, `seen` once a watcher has heard of it."""

    sent_at: float
    settled: bool = False
    seen: bool = False


class Seen(Struct, frozen=True):
    """An event as a watcher has to know it; `sent_at` where its way is to be timed."""

    event: bytes
    id: bytes
    epoch: bytes
    revision: int
    sent_at: float | None = None


class Ledger:
    """What was asked and seen. `site` tells this run's pools from others that the service has."""

    def __init__(self, site: str, lease_secs: float) -> None:
        self.site = site
        self.lease_secs = lease_secs
        self.pools: dict[str, Pool] = {}
        self.changes: dict[tuple[str, int], Change] = {}
        self.known: dict[bytes, array[int]] = {}  # by epoch the revisions of all events, in order
        self.newest: tuple[bytes, int] | None = None
        self.latencies = Latencies()  # from change to event, over all watchers
        self.heard_of = 0  # changes that watchers heard of
        self.received = 0
        self.expired = 0
        self.false_expiries = 0
        self._events: dict[bytes, Seen] = {}
        self._older_events: dict[bytes, Seen] = {}

    # -- what is asked

    def asked(self, pool: Pool, version: int, now: float) -> Change:
        """A change that is sent now and that watchers have to hear of."""
        change = self.changes[pool.name, version] = Change(now)
        return change

    def settled(self, pool: Pool, version: int) -> None:
        """The service has said yes to a change."""
        change = self.changes.get((pool.name, version))
        if change is not None:
            change.settled = True
            self._close(pool, version, change)

    def forget(self, pool: Pool) -> None:
        """A pool that was to be taken out was gone already."""
        self.changes.pop((pool.name, GONE), None)
        self.pools.pop(pool.name, None)

    def answered(self, pool: Pool, asked_at: float, sent_at: float) -> None:
        """A beat was answered 200."""
        self.false_expiries += pool.answered(asked_at, sent_at, self.lease_secs)

    # -- what is seen

    def received_by(self, track: Track, block: bytes, now: float) -> bytes:
        """A watcher got `block`; the id to resume from, where it has one. Raises Broken."""
        seen = self._events.get(block) or self._older_events.get(block) or self._read(block, now)
        if seen.event == b"resync":
            track.resync(seen.epoch, seen.revision)
        elif seen.event:
            track.event(seen.epoch, seen.revision)
            self.received += 1
            if seen.sent_at is not None:
                self.latencies.add(now - seen.sent_at)
        return seen.id

    def listed(self, document: bytes, expected: Mapping[str, float], now: float) -> None:
        """Judges a list that was asked for when `expected` had to be in it. Raises DecodeError."""
        listed = _LIST_DECODER.decode(document)
        if not listed.complete:
            return
        names = {item.key.dgd_name for item in listed.pools if item.key.site_id == self.site}
        for name, heard_at in expected.items():
            pool = self.pools.get(name)
            if pool is None or pool.leaving:
                continue
            if name in names:
                pool.gone = False
            elif now - heard_at < self.lease_secs and not pool.gone:
                pool.gone = True
                self.false_expiries += 1

    def expected(self, now: float) -> dict[str, float]:
        """What a list that is asked for now has to hold, and when each was heard."""
        pools = self.pools.values()
        return {pool.name: pool.heard_at for pool in pools if pool.must_be_listed(now, self.lease_secs)}

    def lost(self, tracks: Collection[Track]) -> int:
        """Changes that the service took and no watcher ever heard of, though one of them had no resync instead."""
        if all(track.resyncs for track in tracks):
            return 0
        return sum(change.settled and not change.seen for change in self.changes.values())

    def up_to_date(self, track: Track) -> bool:
        """Whether a watcher has heard of everything that any has heard of."""
        return self.newest is None or track.is_at(*self.newest)

    # -- one event, read once

    def _read(self, raw: bytes, now: float) -> Seen:
        block = block_of(raw)
        if block.event in (b"upserted", b"removed"):
            sent_at = self._judge(block, now) if self._is_new(block.epoch, block.revision) else None
            seen = Seen(block.event, block.id, block.epoch, block.revision, sent_at)
            self._keep(raw, seen)
            return seen
        return Seen(block.event, block.id, block.epoch, block.revision)

    def _is_new(self, epoch: bytes, revision: int) -> bool:
        revisions = self.known.setdefault(epoch, array("q"))
        if not revisions or revision > revisions[-1]:
            revisions.append(revision)
            self.newest = (epoch, revision)
            return True
        at = bisect_left(revisions, revision)
        if revisions[at] == revision:
            return False
        revisions.insert(at, revision)
        return True

    def _keep(self, raw: bytes, seen: Seen) -> None:
        if len(self._events) >= EVENTS_KEPT:
            self._older_events, self._events = self._events, {}
        self._events[raw] = seen

    def _judge(self, block: Block, now: float) -> float | None:
        """Counts what an event says of a pool; when it was asked for, where it was."""
        try:
            item = _ITEM_DECODER.decode(block.data)
        except msgspec.DecodeError as error:
            raise Broken(f"expected a pool or its key with {block.event!r}: {error}") from None
        pool = self.pools.get(item.key.dgd_name)
        if pool is None or item.key.site_id != self.site:
            return None
        version = GONE
        if block.event == b"upserted":
            pool.gone = False
            version = (item.capacity and item.capacity.max_concurrency) or GONE
        change = self.changes.get((pool.name, version))
        if change is None or change.seen:
            if version == GONE:
                self._removed(pool, now)
            return None
        change.seen = True
        self.heard_of += 1
        self._close(pool, version, change)
        return change.sent_at

    def _close(self, pool: Pool, version: int, change: Change) -> None:
        """Forgets a change of which there is nothing more to hear, and a pool that is gone for good."""
        if change.settled and change.seen:
            del self.changes[pool.name, version]
            if version == GONE:
                del self.pools[pool.name]

    def _removed(self, pool: Pool, now: float) -> None:
        if pool.removed(now, self.lease_secs) and not pool.gone:
            pool.gone = True
            self.false_expiries += 1
        else:
            self.expired += 1
