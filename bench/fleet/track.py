"""What one watcher has received: whether its revisions came in order and once, and which it never got."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Stretch(Struct):
    """Events since a resync: its revision, that of the last event, how many there were."""

    epoch: bytes
    start: int
    last: int
    count: int = 0


class Track:
    """The stretches of one watcher, each begun by a resync. A reconnection that resumes continues its stretch."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.duplicates = 0
        self.disordered = 0

    @property
    def resyncs(self) -> int:
        """Those beyond the first, with which every watch begins."""
        return max(0, len(self.stretches) - 1)

    def resync(self, epoch: bytes, revision: int) -> None:
        """The whole view at `revision`."""
        if self.stretches and self.stretches[-1].epoch == epoch and revision < self.stretches[-1].last:
            self.disordered += 1
        self.stretches.append(Stretch(epoch, revision, revision))

    def event(self, epoch: bytes, revision: int) -> None:
        """A change. In an epoch that no resync began it is out of order."""
        stretch = self.stretches[-1] if self.stretches else None
        if stretch is None or stretch.epoch != epoch or revision < stretch.last:
            self.disordered += 1
        elif revision == stretch.last:
            self.duplicates += 1
        else:
            stretch.last = revision
            stretch.count += 1

    def is_at(self, epoch: bytes, revision: int) -> bool:
        """Whether it has heard of everything up to `revision`."""
        return bool(self.stretches) and self.stretches[-1].epoch == epoch and self.stretches[-1].last >= revision

    def missing(self, known: Mapping[bytes, Sequence[int]]) -> int:
        """Events that others got and this one did not; `known`: by epoch the revisions of all events, in order.

        A stretch that a resync ended may lack what came just before; the last one may lack nothing.
        """
        total = 0
        for number, stretch in enumerate(self.stretches, 1):
            revisions = known.get(stretch.epoch, ())
            is_last = number == len(self.stretches)
            end = len(revisions) if is_last else bisect_right(revisions, stretch.last)
            total += max(0, end - bisect_right(revisions, stretch.start) - stretch.count)
        return total
