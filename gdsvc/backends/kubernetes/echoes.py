"""Up to when the watch has told everything: to the moment before we sent the last write of our own that it told.

A watch tells in the order of writing, so whatever was written before a write of ours was told before it. An open
watch alone proves nothing: it may be silent since it is dead, or since nobody can write. Compares no clocks.
"""

from math import inf

from msgspec import Struct


class Moment(Struct, frozen=True, order=True):
    """One moment by two clocks, in float seconds: a monotonic one that goes on while the process stands still, and the
    one that leases are judged by."""

    monotonic: float
    lease_time: float


NEVER = Moment(-inf, -inf)


class Echoes:
    """Our last write of each Lease, and whether the watch has told of it."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[str, Moment]] = {}
        self._pending: set[str] = set()
        self.told_until: Moment = NEVER

    def sending(self, name: str, renewed: str, at: Moment) -> None:
        """A write of the Lease `name` with the stamp `renewed` is about to be sent."""
        self._sent[name] = (renewed, at)
        self._pending.add(name)

    def sent_at(self, name: str, renewed: str) -> Moment | None:
        """When this write was about to be sent, if it is our last of the Lease; None where it is not."""
        stamp, sent_at = self._sent.get(name, ("", NEVER))
        return sent_at if stamp == renewed else None

    def pending(self, name: str) -> bool:
        """Whether our last write of the Lease is still to be told, if it was done at all."""
        return name in self._pending

    def seen(self, name: str, renewed: str) -> Moment | None:
        """As `sent_at`, of a write that the API server now tells of."""
        sent_at = self.sent_at(name, renewed)
        if sent_at is not None:
            self._pending.discard(name)
        return sent_at

    def told(self, until: Moment) -> None:
        """Everything written until then has been told."""
        self.told_until = max(self.told_until, until)

    def forget(self, name: str) -> None:
        """The Lease was deleted."""
        self._sent.pop(name, None)
        self._pending.discard(name)
