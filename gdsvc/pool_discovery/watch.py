"""What a watch tells: a Resync replaces everything before it, then come single changes."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Generic, TypeVar, overload

from msgspec import Struct

Item = TypeVar("Item")
Key = TypeVar("Key")


class Completeness(Enum):
    """How sure a directory is that it shows every member there is."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class Items(Sequence[Item]):
    """The members of a snapshot in key order, kept as encoded bytes and decoded when they are looked at."""

    def __init__(self, encodings: Sequence[bytes], decode: Callable[[bytes], Item]) -> None:
        self._encodings = encodings
        self._decode = decode

    def __len__(self) -> int:
        return len(self._encodings)

    @overload
    def __getitem__(self, position: int) -> Item: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Item]: ...
    def __getitem__(self, position: int | slice) -> Item | Sequence[Item]:
        if isinstance(position, slice):
            return Items(self._encodings[position], self._decode)
        return self._decode(self._encodings[position])

    def __iter__(self) -> Iterator[Item]:
        return map(self._decode, self._encodings)


class Snapshot(Struct, Generic[Item], frozen=True):
    """Everything a directory shows at one revision."""

    items: Sequence[Item]
    completeness: Completeness
    revision: int


class Upserted(Struct, Generic[Item], frozen=True):
    """A member is new or has changed."""

    item: Item


class Removed(Struct, Generic[Key], frozen=True):
    """A member has left."""

    key: Key


class Resync(Struct, Generic[Item], frozen=True):
    """The whole view again: what is not in it is gone."""

    snapshot: Snapshot[Item]


class Facets(Struct, frozen=True, gc=False):
    """What a member is filtered by, beside its key; a router replica has neither."""

    model: str | None = None
    region: str | None = None


class EncodedUpsert(Struct, frozen=True, gc=False):
    """An Upserted as publishers keep it: the encoding of the item, made once for the list and for all watchers.

    `key` is its sort key; `was` what it was filtered by before, None where it is new.
    """

    key: bytes
    encoded: bytes
    facets: Facets = Facets()
    was: Facets | None = None


class EncodedRemoval(Struct, frozen=True, gc=False):
    """A Removed as publishers keep it: the sort key of the item, and what it was filtered by."""

    key: bytes
    was: Facets = Facets()


EncodedEvent = EncodedUpsert | EncodedRemoval
Event = Upserted[Item] | Removed[Key] | Resync[Item]
