"""What every directory of ours has in common: an index of encodings, a journal of what changed, readers of both.

One step from what arrives to what watchers hear: nothing awaits between a change of the index and its event, so a
view and its deltas cannot disagree, and an event's number is the revision it leads to.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from msgspec import Struct

from gdsvc import model
from gdsvc._listed import Listed
from gdsvc._pool_index import UNCHANGED, PoolIndex
from gdsvc.model import PoolKey, PoolListing, RouterReplica
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedList, Filter
from gdsvc.pool_discovery.fanout import Fanout, Lagged, Subscription
from gdsvc.pool_discovery.watch import (
    Completeness,
    EncodedEvent,
    EncodedRemoval,
    EncodedUpsert,
    Event,
    Facets,
    Items,
    Removed,
    Resync,
    Snapshot,
    Upserted,
)

Item = TypeVar("Item")
Key = TypeVar("Key")

NO_FACETS = Facets()

OnChange = Callable[[str, bytes], None]  # told the log event and the sort key of the member, such as a ChangeLog


def ignore(event: str, key: bytes) -> None:
    """The OnChange of who does not care."""
    del event, key


class Members(Struct, Generic[Item, Key], frozen=True):
    """A kind of member: the word for one, and what its encoding and its sort key stand for."""

    name: str
    decode: Callable[[bytes], Item]
    key_of: Callable[[bytes], Key]


POOLS: Members[PoolListing, PoolKey] = Members("pool", model.decode_listing, model.key_of)
ROUTERS: Members[RouterReplica, str] = Members("router", model.decode_router, bytes.decode)


class IndexedDirectory(ABC, Generic[Item, Key]):
    """Directory and EncodedDirectory over an index, which subclasses fill."""

    def __init__(self, members: Members[Item, Key], on_change: OnChange = ignore) -> None:
        self._members = members
        self._on_change = on_change
        self._index = PoolIndex(secrets.randbits(64))
        self._fanout: Fanout[EncodedEvent] = Fanout()
        self._completeness = Completeness.ESTIMATED
        self._begun_at: int | None = None  # the revision of the whole view that every watcher was last given

    # -- reading

    @abstractmethod
    def view(self) -> tuple[int, Completeness]:
        """Revision and completeness, brought up to now. Raises Unavailable before the first sync."""

    @property
    def index(self) -> PoolIndex:
        """For counters only."""
        return self._index

    @property
    def changes(self) -> Fanout[EncodedEvent]:
        """What is published; the number of an event is the revision that it leads to."""
        return self._fanout

    @property
    def completeness(self) -> Completeness:
        """As of the last step in time."""
        return self._completeness

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        """The members that match, encoded."""
        sites = None if where.site_ids is None else frozenset(site.encode() for site in where.site_ids)
        return self._index.parts(sites, where.models, where.regions)

    async def list(self) -> Snapshot[Item]:
        """Every member. Raises Unavailable."""
        return self._snapshot()

    async def list_and_watch(self) -> AsyncIterator[Event[Item, Key]]:
        """A Resync, then every change. Raises Unavailable."""
        subscription, resync = self._resync()
        yield resync
        while True:
            match await subscription.next():
                case EncodedUpsert(encoded=encoded):
                    yield Upserted(self._members.decode(encoded))
                case EncodedRemoval(key=key):
                    yield Removed(self._members.key_of(key))
                case Lagged():
                    subscription, resync = self._resync()
                    yield resync

    def _resync(self) -> tuple[Subscription[EncodedEvent], Resync[Item]]:
        """The whole view, and a place behind all that taking it has published."""
        snapshot = self._snapshot()
        return self._fanout.subscribe(), Resync(snapshot)

    def _snapshot(self) -> Snapshot[Item]:
        revision, completeness = self.view()
        return Snapshot(Items(self._index.listings(), self._members.decode), completeness, revision)

    # -- writing

    def listen(self, on_change: OnChange) -> None:
        """Tells `on_change` too, from now on: once the index and the journal have what happened."""
        before = self._on_change

        def both(event: str, key: bytes) -> None:
            before(event, key)
            on_change(event, key)

        self._on_change = both

    def _put(self, key: bytes, encoded: bytes, facets: Facets = NO_FACETS) -> int:
        """Lists a member or changes what is listed of it; UNCHANGED, CHANGED or NEW."""
        listed = self._index.find(key)
        was = None if listed is None else Facets(listed.model, listed.region)
        outcome = self._index.put(key, encoded, facets.model, facets.region)
        if outcome != UNCHANGED:
            self._fanout.publish(EncodedUpsert(key, encoded, facets, was), len(encoded))
        return outcome

    def _remove(self, key: bytes) -> bool:
        """Takes a member out; False where it is not listed."""
        listed = self._index.remove(key)
        if listed is None:
            return False
        self._publish_removal(listed)
        return True

    def _publish_removal(self, listed: Listed) -> None:
        self._fanout.publish(EncodedRemoval(listed.item, Facets(listed.model, listed.region)), len(listed.item))

    def _begin_anew(self) -> None:
        """Has every watcher start from the whole view; a revision of its own."""
        self._index.bump()
        self._fanout.resync()
        self._begun_at = self._index.revision

    def _begin_empty(self, *, again: bool) -> None:
        """Begins anew where there is no member and watchers were told something since they last did; or `again`."""
        if not len(self._index) and (again or self._index.revision != self._begun_at):
            self._begin_anew()

    def _complete_as(self, completeness: Completeness) -> None:
        """From now on the view is this complete; a change begins anew, whatever the members did."""
        if completeness is not self._completeness:
            self._completeness = completeness
            self._begin_anew()

    def _tell(self, happened: str, key: bytes) -> None:
        self._on_change(f"{self._members.name}.{happened}", key)
