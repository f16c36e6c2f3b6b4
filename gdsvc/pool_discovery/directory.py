"""What a directory of pools or of router replicas offers to those who read it."""

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from msgspec import Struct

from gdsvc.model import PoolKey, PoolListing, RouterReplica
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.watch import Completeness, EncodedEvent, Event, Facets, Snapshot

Item = TypeVar("Item")
Key = TypeVar("Key")


class Directory(Protocol[Item, Key]):
    """Reads of a set of members that come and go."""

    async def list(self) -> Snapshot[Item]:
        """Every member at one revision. Raises Unavailable before the first sync."""
        ...

    def list_and_watch(self) -> AsyncIterator[Event[Item, Key]]:
        """A Resync, then every change. Who falls behind by more than the fanout's buffer gets a Resync, never a gap."""
        ...


class PoolDirectory(Directory[PoolListing, PoolKey], Protocol):
    """Pools by PoolKey, sorted by it."""


class ReplicaDirectory(Directory[RouterReplica, str], Protocol):
    """Router replicas by id, sorted by it."""


class Filter(Struct, frozen=True):
    """Which pools a list is asked for: each set that is not None must hold the pool's value."""

    models: frozenset[str] | None = None
    regions: frozenset[str] | None = None
    site_ids: frozenset[str] | None = None

    def matches(self, key: bytes, facets: Facets) -> bool:
        """Whether a pool of this sort key and these facets is in the list."""
        return (
            (self.models is None or facets.model in self.models)
            and (self.regions is None or facets.region in self.regions)
            and (self.site_ids is None or key.partition(b"\0")[0].decode() in self.site_ids)
        )


EVERYTHING = Filter()


class EncodedList(Protocol):
    """The encodings of a list at one revision; `join` may run in any thread."""

    @property
    def size(self) -> int:
        """Bytes of the joined encodings."""
        ...

    def join(self, head: bytes, tail: bytes) -> bytes:
        """`head`, the encodings with a comma between two, `tail`."""
        ...


class Source(Struct, frozen=True):
    """Something that a directory knows its members from; `as_of` is RFC 3339, the instant its statement rests on."""

    name: str
    complete: bool
    as_of: str
    detail: str


class EncodedDirectory(Protocol):
    """What a face that writes lists byte by byte needs: no member is encoded again to be listed again."""

    def view(self) -> tuple[int, Completeness]:
        """Brings the directory up to now; its revision and completeness there. Both hold until the next await."""
        ...

    def sources(self) -> tuple[Source, ...]:
        """What the directory rests on, as of the last `view`; constant while revision and completeness are."""
        ...

    @property
    def changes(self) -> Fanout[EncodedEvent]:
        """Every change; the number of an event is the revision that it leads to."""
        ...

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        """The members that match, at the revision that `view` gave."""
        ...
