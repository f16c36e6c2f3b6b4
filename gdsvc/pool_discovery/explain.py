"""Why a member is listed or not: what happened to it lately, kept within bounds, and the answer made of it.

It records and tells; what happens, and why, is decided by the stores.
"""

import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from msgspec import Struct

from gdsvc.model import PoolKey
from gdsvc.pool_discovery.conflicts import FREE_FLIPS
from gdsvc.pool_discovery.directory import Source

KEYS = 4096  # members whose history is kept, those with the newest; at least half of so many
ENTRIES = 16  # of a member's history: one that flaps pushes out its own, not that of the others

MEMBERS_NAMED, MEMBER_CHARACTERS = 8, 40  # of a payload that changed: a caller may have made up a thousand

_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])  # compared as written: 1 and 1.0 differ


class Happening(Struct, frozen=True):
    """Something that happened to a member; `at` is RFC 3339 in UTC, `cause` a sentence without a full stop."""

    at: str
    event: str
    cause: str


class LeaseState(Struct, frozen=True):
    """A lease now, in seconds since the last heartbeat and until it ends."""

    age_secs: float
    remaining_secs: float


class Registrations(Struct, frozen=True):
    """What has been heard of a member: registrations and renewals while listed, the last one's address, conflicts."""

    count: int = 0
    last_from: str | None = None
    conflicts: int = 0


NOTHING_HEARD = Registrations()


class Explanation(Struct, frozen=True):
    """The answer: `reason` is one sentence, `history` the newest last."""

    key: PoolKey
    listed: bool
    reason: str
    lease: LeaseState | None
    registrations: Registrations
    sources: tuple[Source, ...]
    history: tuple[Happening, ...]


class Explainer(Protocol):
    """A directory that can say why it lists a pool or not."""

    def explain(self, key: PoolKey) -> Explanation | None:
        """Why `key` is listed or not; None where nothing is known of it."""
        ...


def explanation(
    key: PoolKey,
    lease: LeaseState | None,
    registrations: Registrations,
    sources: tuple[Source, ...],
    history: tuple[Happening, ...],
) -> Explanation:
    """The answer made of what a store knows of `key`; it is listed where it has a lease."""
    if lease is not None:
        reason = (
            f"listed: its last heartbeat came {lease.age_secs:.1f} s ago, "
            f"and its lease holds for another {lease.remaining_secs:.1f} s"
        )
        if registrations.conflicts > FREE_FLIPS:
            reason += "; its relays disagree about its payload, so changes are shown once a second at most"
    elif history:
        reason = f"not listed since {history[-1].at}: {history[-1].cause}, and nothing was heard of it since"
    else:
        reason = "not listed"
    return Explanation(key, lease is not None, reason, lease, registrations, sources, history)


def difference(before: bytes, after: bytes) -> str:
    """Which members of a listing differ between two encodings, by name: at most MEMBERS_NAMED of them."""
    old, new = _DECODER.decode(before), _DECODER.decode(after)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    shown = ", ".join(name[:MEMBER_CHARACTERS] for name in names[:MEMBERS_NAMED])
    return shown if len(names) <= MEMBERS_NAMED else f"{shown} and {len(names) - MEMBERS_NAMED} more"


class _Entry(Struct, frozen=True, gc=False):
    """A link of a chain; lists, one for every new pool, would keep the garbage collector busy."""

    at: float
    event: str
    cause: str
    source: str | None
    parting: Registrations | None
    before: "_Entry | None"
    depth: int  # of entries before it


class History:
    """What happened to members by their sort key. `now()` gives Unix time in seconds.

    Two generations: a member to which something happens moves to the young one, and when that is full it becomes the
    old one, whose members are forgotten.
    """

    def __init__(self, now: Callable[[], float], keys: int = KEYS) -> None:
        self._now = now
        self._generation = keys // 2
        self._young: dict[bytes, _Entry] = {}
        self._old: dict[bytes, _Entry] = {}

    def record(
        self, event: str, key: bytes, cause: str, source: str | None = None, parting: Registrations | None = None
    ) -> None:
        """Notes that `event` happened to the member of `key`, by a request from `source` where there was one.

        `parting`: what was heard of a member that leaves.
        """
        before = self._young.get(key) or self._old.pop(key, None)
        if before is not None and before.depth >= 2 * ENTRIES:
            before = _shortened(before)
        depth = 0 if before is None else before.depth + 1
        self._young[key] = _Entry(self._now(), event, cause, source, parting, before, depth)
        if len(self._young) > self._generation:
            self._old, self._young = self._young, {}

    def of(self, key: bytes) -> tuple[Happening, ...]:
        """What is kept of `key`, the newest last; empty where nothing is."""
        return tuple(_happening(entry) for entry in reversed(self._newest(key)))

    def parting(self, key: bytes) -> Registrations:
        """What was heard of `key` until it left last."""
        return next((entry.parting for entry in self._newest(key) if entry.parting is not None), NOTHING_HEARD)

    def _newest(self, key: bytes) -> list[_Entry]:
        """The entries of `key`, the newest first."""
        return _chain(self._young.get(key) or self._old.get(key))


def _chain(entry: _Entry | None) -> list[_Entry]:
    entries: list[_Entry] = []
    while entry is not None and len(entries) < ENTRIES:
        entries.append(entry)
        entry = entry.before
    return entries


def _shortened(newest: _Entry) -> _Entry:
    """The same without what is older than ENTRIES."""
    before: _Entry | None = None
    for depth, entry in enumerate(reversed(_chain(newest))):
        before = msgspec.structs.replace(entry, before=before, depth=depth)
    return before or newest


def _happening(entry: _Entry) -> Happening:
    cause = f"{entry.cause} from {entry.source}" if entry.source else entry.cause
    return Happening(instant(entry.at), entry.event, cause)


def instant(unix_secs: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(unix_secs, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def address_text(address: bytes | None) -> str | None:
    """How an IPv6 address of 16 bytes is written; one that maps an IPv4 address as that."""
    if address is None:
        return None
    parsed = ipaddress.IPv6Address(address)
    return str(parsed.ipv4_mapped or parsed)
