"""Items of the table to and from what the stores know: renewals, registrations, and the layout that replicas agree on.

Two items for each name. A heartbeat (about 90 bytes): `r` its stamp, `v` the version it renews, `l` the lease in
seconds, `g` where it says that the name is gone. A registration: `v` its version, `d` the payload. Both have `ttl`, in
Unix seconds, and `n`, the name in full, where the key holds a digest of it. Knows no clock and no client.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from gdsvc.backends.dynamodb.keys import LAYOUT_KEY, Kind, Part, name_in, name_of, shard_of, sort_key_of, text_of
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration

Item: TypeAlias = dict[str, Any]  # attributes as the low-level API writes them: {"v": {"N": "1"}}
Key: TypeAlias = dict[str, dict[str, str]]

TTL_ATTRIBUTE: Final = "ttl"
KEPT_SECS: Final = 7 * 86_400  # what nobody renewed for a week the table may drop
KEEP_AGAIN_SECS: Final = 86_400  # a registration is kept for another week once a day of the last has passed
LAYOUT_VERSION: Final = 1
MOST_SHARDS: Final = 256
LONGEST_LEASE_SECS: Final = 86_400.0


class Place(Struct, frozen=True):
    """How many shards the table has."""

    shards: int

    def key(self, part: Part, kind: Kind, name: bytes) -> Key:
        """The key of an item."""
        return {"pk": {"S": shard_of(kind, name, self.shards)}, "sk": {"S": sort_key_of(part, kind, name)}}

    def renewal_item(self, kind: Kind, name: bytes, renewal: Renewal) -> Item:
        """The item of a heartbeat."""
        item: Item = self._named(Part.RENEWAL, kind, name, renewal.renewed_at)
        item |= {
            "r": {"S": renewal.stamp},
            "v": {"N": str(renewal.version)},
            "l": {"N": f"{renewal.lease_secs:g}"},
        }
        return item | {"g": {"BOOL": True}} if renewal.gone else item

    def registration_item(self, kind: Kind, name: bytes, registration: Registration, unix_now: float) -> Item:
        """The item of a registration."""
        item = self._named(Part.REGISTRATION, kind, name, unix_now)
        return item | {"v": {"N": str(registration.version)}, "d": {"S": registration.payload.decode()}}

    def _named(self, part: Part, kind: Kind, name: bytes, unix_now: float) -> Item:
        item: Item = {**self.key(part, kind, name), TTL_ATTRIBUTE: {"N": str(kept_until(unix_now))}}
        return item if name_in(item["sk"]["S"]) == (kind, name) else item | {"n": {"S": text_of(name)}}


class Found(Struct, frozen=True):
    """A renewal in the table, and whose it is."""

    kind: Kind
    name: bytes
    renewal: Renewal


def kept_until(unix_now: float) -> int:
    """When the table may drop what is written now."""
    return int(unix_now) + KEPT_SECS


def stamp(unix_now: float, writer: str, number: int) -> str:
    """A stamp that no other renewal has, of any writer; begins with the writer's wall clock in milliseconds."""
    return f"{int(unix_now * 1000):x}-{writer}-{number:x}"


def later_version(before: int, unix_now: float) -> int:
    """A version behind `before`; of the clock, so that a table that was made anew does not begin behind itself."""
    return max(before + 1, int(unix_now * 1000))


def found_in(item: Mapping[str, Any]) -> Found | None:
    """The renewal in an item; None where it is none that we wrote."""
    try:
        whose = name_in(item["sk"]["S"])
        if whose is None:
            return None
        name = whose[1] or name_of(item["n"]["S"])
        text = item["r"]["S"]
        lease_secs, version = float(item["l"]["N"]), int(item["v"]["N"])
        if not 0 < lease_secs <= LONGEST_LEASE_SECS or version < 1:
            return None
        renewed_at = int(text.partition("-")[0], 16) / 1000
        return Found(whose[0], name, Renewal(text, renewed_at, lease_secs, version, "g" in item))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return None


def registration_in(item: Mapping[str, Any]) -> tuple[Registration, int] | None:
    """The registration in an item and until when it is kept (Unix seconds); None where it is none that we wrote."""
    try:
        version, until = int(item["v"]["N"]), int(item[TTL_ATTRIBUTE]["N"])
        return Registration(version, item["d"]["S"].encode()), until
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def layout_item(shards: int) -> Item:
    """The item that says how the table is laid out."""
    return {
        "pk": {"S": LAYOUT_KEY[0]},
        "sk": {"S": LAYOUT_KEY[1]},
        "v": {"N": str(LAYOUT_VERSION)},
        "shards": {"N": str(shards)},
    }


def place_in(item: Mapping[str, Any]) -> Place | None:
    """What a layout item says; None where this version of gdsvc cannot read such a table."""
    try:
        shards = int(item["shards"]["N"])
        known = int(item["v"]["N"]) == LAYOUT_VERSION and 1 <= shards <= MOST_SHARDS
        return Place(shards) if known else None
    except (KeyError, TypeError, ValueError):
        return None
