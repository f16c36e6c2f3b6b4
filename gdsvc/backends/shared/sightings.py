"""What is known of each item of a shared store: which renewal was seen last, and which version of its registration.

Decides whether a renewal is news. It compares no clocks: a stamp is news where it was not seen before. Only at first
sight does its age count, or a new replica would list everything that died within the last week.
"""

from enum import Enum, auto

from msgspec import Struct

FIRST_SIGHT_GRACE_SECS = 600.0  # by which wall clocks may differ before a pool alive is overlooked, until it renews
STAMPS_KEPT = 4  # of a name: what a read that is some seconds old may bring back is no news


class Renewal(Struct, frozen=True, gc=False):
    """That somebody renewed a registration, as a store keeps it.

    `stamp` differs between any two renewals of a name. `renewed_at` is its writer's wall clock (Unix seconds),
    `lease_secs` what its writer granted, `version` the registration it renews, from 1; a later change has a higher
    one. `gone`: its writer deregistered the name.
    """

    stamp: str
    renewed_at: float
    lease_secs: float
    version: int
    gone: bool = False


class News(Enum):
    """What a renewal says that was not known."""

    NOTHING = auto()
    TOO_OLD = auto()  # at first sight: dead long since, as far as anyone can tell
    VERSION = auto()  # seen before, but now it names a later registration
    RENEWED = auto()
    GONE = auto()


class _Sighting:
    __slots__ = ("lease_secs", "stamps", "version")

    def __init__(self) -> None:
        self.stamps: tuple[str, ...] = ()  # the newest last
        self.version = 0  # of the registration that was taken over; 0 before one was
        self.lease_secs = 0.0


class Sightings:
    """One table for a store's names; bounded by what the store holds, as long as `forget` is called now and then."""

    def __init__(self) -> None:
        self._seen: dict[bytes, _Sighting] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def news(self, name: bytes, renewal: Renewal, unix_now: float) -> News:
        """What `renewal` says; changes nothing."""
        known = self._seen.get(name)
        if known is None:
            too_old = unix_now - renewal.renewed_at > renewal.lease_secs + FIRST_SIGHT_GRACE_SECS
            return News.TOO_OLD if too_old or renewal.gone else News.RENEWED
        if renewal.stamp in known.stamps:
            later = renewal.version > known.version > 0 and renewal.stamp == known.stamps[-1] and not renewal.gone
            return News.VERSION if later else News.NOTHING
        return News.GONE if renewal.gone else News.RENEWED

    def saw(self, name: bytes, renewal: Renewal, version: int = 0) -> None:
        """Notes `renewal`, and that the registration of `version`, if any, was taken over with it."""
        known = self._seen.get(name)
        if known is None:
            known = self._seen[name] = _Sighting()
        if renewal.stamp not in known.stamps:
            known.stamps = (*known.stamps, renewal.stamp)[-STAMPS_KEPT:]
        known.lease_secs = renewal.lease_secs
        known.version = max(known.version, version)

    def version(self, name: bytes) -> int:
        """Of the registration that was taken over last; 0 where none was."""
        known = self._seen.get(name)
        return 0 if known is None else known.version

    def outdates(self, name: bytes, renewal: Renewal) -> int:
        """The later version that `renewal` ought to name, if it is the last one seen; 0 where it names the latest."""
        known = self._seen.get(name)
        if known is None or known.version <= renewal.version or renewal.gone:
            return 0
        return known.version if known.stamps[-1] == renewal.stamp else 0

    def lease_secs(self, name: bytes) -> float | None:
        """What the writer of the last renewal granted; None where none was seen."""
        known = self._seen.get(name)
        return None if known is None else known.lease_secs or None

    def forget(self, names: set[bytes]) -> None:
        """Drops what is known of `names`: the store holds nothing of them any more."""
        for name in names:
            self._seen.pop(name, None)

    def absent(self, present: set[bytes]) -> set[bytes]:
        """The names known that are not among `present`."""
        return self._seen.keys() - present
