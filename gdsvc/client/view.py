"""What a follower holds of a remote list, and the one rule for lists that are not complete.

An incomplete list adds and updates. It removes nothing, since who is missing may only not have registered yet, and a
fact that is known is not replaced by null. Only an explicit removal or a complete list takes a member out.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from gdsvc.client.kinds import Kind
from gdsvc.pool_discovery.fanout import CAPACITY, Fanout
from gdsvc.pool_discovery.watch import Completeness, Removed, Snapshot, Upserted

Item = TypeVar("Item")
Key = TypeVar("Key")


class Difference(Struct, Generic[Item], frozen=True):
    """What a list changes in a view: the keys that leave, and the members that are new or have changed."""

    complete: bool
    gone: list[bytes]
    changed: list[tuple[bytes, Item]]


class View(Generic[Item, Key]):
    """The members, and a Fanout that hears of every change. `revision` is the view's own: it moves with what it shows.

    `synced` is False until the first list. Methods that change the view return whether it moved.
    """

    def __init__(self, kind: Kind[Item, Key]) -> None:
        self.fanout: Fanout[Upserted[Item] | Removed[Key]] = Fanout(journal=CAPACITY)  # nobody resumes here
        self.revision = 0
        self.synced = False
        self._kind = kind
        self._members: dict[bytes, Item] = {}
        self._said_complete = False
        self._stale = False
        self._snapshot: Snapshot[Item] | None = None

    @property
    def completeness(self) -> Completeness:
        """EXACT where the service said so of its list and still vouches for it."""
        return Completeness.EXACT if self._said_complete and not self._stale else Completeness.ESTIMATED

    def snapshot(self) -> Snapshot[Item]:
        """The members in key order; made once a revision."""
        if self._snapshot is None or self._snapshot.revision != self.revision:
            self._members = {key: self._members[key] for key in sorted(self._members)}  # nearly sorted the next time
            self._snapshot = Snapshot(tuple(self._members.values()), self.completeness, self.revision)
        return self._snapshot

    def difference(self, items: Iterable[Item], *, complete: bool) -> "Difference[Item]":
        """What a whole list changes. Only reads: it may run in a thread, as long as nobody moves the view meanwhile."""
        members = self._members
        told = {self._sort_key(item): self._merged(item, complete=complete) for item in items}
        gone = [key for key in members if key not in told] if complete else []
        changed = [(key, item) for key, item in told.items() if members.get(key) != item]
        return Difference(complete, gone, changed)

    def replace(self, difference: "Difference[Item]") -> bool:
        """Takes in a whole list. Watchers hear each change, or a Resync where completeness changes or many did."""
        first, before = not self.synced, self.completeness
        gone, changed = difference.gone, difference.changed
        self.synced, self._said_complete, self._stale = True, difference.complete, False
        if first or before is not self.completeness or len(gone) + len(changed) > CAPACITY:
            for key in gone:
                del self._members[key]
            self._members.update(changed)
            self._resync()
            return True
        for key in gone:
            self._remove(key)
        for key, item in changed:
            self._put(key, item, 0)
        return bool(gone or changed)

    def upsert(self, item: Item, size: int) -> bool:
        """A member is new or has changed; `size` bytes are what watchers who lag are charged for it."""
        key = self._sort_key(item)
        item = self._merged(item, complete=self._said_complete)
        if self._members.get(key) == item:
            return False
        self._put(key, item, size)
        return True

    def remove(self, key: Key) -> bool:
        """A member has left: the service says so, complete or not."""
        sort_key = self._kind.sort_key(key)
        if sort_key not in self._members:
            return False
        self._remove(sort_key)
        return True

    def vouched(self, *, fresh: bool) -> bool:
        """The service vouches for what it said before; or, not `fresh`, has been out of reach for too long to do so."""
        before = self.completeness
        self._stale = not fresh
        if before is self.completeness:
            return False
        self._resync()
        return True

    def _merged(self, item: Item, *, complete: bool) -> Item:
        held = None if complete else self._members.get(self._sort_key(item))
        return item if held is None else self._kind.keep_known(held, item)

    def _sort_key(self, item: Item) -> bytes:
        return self._kind.sort_key(self._kind.key(item))

    def _put(self, key: bytes, item: Item, size: int) -> None:
        self._members[key] = item
        self.revision += 1
        self.fanout.publish(Upserted(item), size)

    def _remove(self, key: bytes) -> None:
        item = self._members.pop(key)
        self.revision += 1
        self.fanout.publish(Removed(self._kind.key(item)))

    def _resync(self) -> None:
        self.revision += 1
        self.fanout.resync()
