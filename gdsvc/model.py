"""The wire types and their rules: what a registration may hold, how a listing is written. Wire names live here only.

Decides validity, the pool id and the one normalised encoding. Knows no clock, no store, no HTTP.
"""

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv6Address
from typing import Any, TypeVar, cast

import msgspec
from blake3 import blake3
from msgspec import UNSET, Struct, UnsetType

from gdsvc import _wire
from gdsvc.errors import Invalid, NotJson

MAX_NAME_BYTES = 253  # the longest DNS name, which bounds every Kubernetes object name
MAX_NESTING = 32  # levels of arrays and objects, the top one included
MAX_COUNT = 2**64 - 1  # counts are unsigned 64-bit integers on the relay's side

T = TypeVar("T")
Extra = dict[str, Any] | UnsetType  # members we do not know, kept for the programs that do

# ------------------------------------------------------------------------------------------------ texts and URLs

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BIDI_CONTROL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}", re.ASCII)
_BASE_URL = re.compile(r"https?://(?:\[([0-9a-f:.]+)\]|([a-z0-9][a-z0-9._-]*))(?::([0-9]{1,5}))?/?", re.ASCII | re.I)


def text_fault(text: str) -> str | None:
    """What was expected where `text` is no name (a member of a key, a router's id); None where it is one."""
    if text.isascii() and _wire.plain_name(text):
        return None
    if not text:
        return "expected a non-empty string"
    if len(text.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        return f"expected at most {MAX_NAME_BYTES} bytes of UTF-8"
    if _CONTROL.search(text):
        return "expected no control characters"
    if _BIDI_CONTROL.search(text):
        return "expected no bidirectional-control characters"
    return None if text == text.strip() else "expected no surrounding white space"


def base_url_fault(text: str) -> str | None:
    """What was expected where `text` is no bare base URL (scheme, host, optional port); None where it is one."""
    match = _BASE_URL.fullmatch(text)
    if match is None:
        return "expected a bare base URL: http or https, a host, optionally a port; no path, query, fragment or user"
    ipv6, host, port = match.groups()
    if port is not None and not 1 <= int(port) <= 65535:
        return "expected a port from 1 to 65535"
    valid = _is_ipv6(ipv6) if ipv6 else host.strip("0123456789.") or _IPV4.fullmatch(host)
    return None if valid else "expected a valid IP address or a host name"


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------- types


class PoolKey(Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """Names one pool: the site it runs in, its Kubernetes namespace and its deployment. Raises Invalid."""

    site_id: str
    namespace: str
    dgd_name: str

    __post_init__ = _wire.check_key  # type: ignore[misc]  # compiled: a frame less for each new body

    def look_closely(self) -> None:
        """Raises Invalid where a name is none."""
        if fault := text_fault(self.site_id):
            raise Invalid(fault, "site_id")
        if fault := text_fault(self.namespace):
            raise Invalid(fault, "namespace")
        if fault := text_fault(self.dgd_name):
            raise Invalid(fault, "dgd_name")


class PoolLocation(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a pool runs; `region` is not blank. Raises Invalid."""

    region: str
    availability_zone: str | None = None
    cluster: str | None = None
    datacenter: str | None = None
    extra: Extra = UNSET

    __post_init__ = _wire.check_location  # type: ignore[misc]  # compiled: a frame less for each new body

    def look_closely(self) -> None:
        """Raises Invalid where the region is blank."""
        if not self.region.strip():
            raise Invalid("expected a region that is not blank", "region")


class PoolCapacity(Struct, frozen=True, forbid_unknown_fields=True):
    """What a pool can take; every count is an integer from 0 to 2^64-1, or None where not known. Raises Invalid."""

    max_concurrency: int | None = None
    live_workers: int | None = None
    kv_capacity_blocks: int | None = None
    expected_ranks: int | None = None
    observed_ranks: int | None = None
    extra: Extra = UNSET

    __post_init__ = _wire.check_capacity  # type: ignore[misc]  # compiled: a frame less for each new body

    def look_closely(self) -> None:
        """Raises Invalid where a count is out of range."""
        for name in _CAPACITY_COUNTS:
            count = getattr(self, name)
            if count is not None and not 0 <= count <= MAX_COUNT:
                raise Invalid(f"expected an integer from 0 to {MAX_COUNT}", name)


_CAPACITY_COUNTS = ("max_concurrency", "live_workers", "kv_capacity_blocks", "expected_ranks", "observed_ranks")


class PoolRegistration(Struct, frozen=True, forbid_unknown_fields=True):
    """What a PoolRelay says of its pool. `frontends` are bare base URLs. Raises Invalid."""

    key: PoolKey
    location: PoolLocation | None = None
    model: str | None = None
    frontends: tuple[str, ...] = ()
    capacity: PoolCapacity | None = None
    capabilities: tuple[str, ...] = ()
    extra: Extra = UNSET

    __post_init__ = _wire.check_registration  # type: ignore[misc]  # compiled: a frame less for each new body

    def look_closely(self) -> None:
        """Raises Invalid where a frontend is no bare base URL."""
        for position, url in enumerate(self.frontends):
            if fault := base_url_fault(url):
                raise Invalid(fault, f"frontends[{position}]")


class PoolListing(Struct, frozen=True):
    """What a directory shows of a pool: the registration, the pool id and the addresses of its Ready PoolRelays."""

    key: PoolKey
    id: str
    location: PoolLocation | None = None
    model: str | None = None
    frontends: tuple[str, ...] = ()
    capacity: PoolCapacity | None = None
    capabilities: tuple[str, ...] = ()
    relay_identities: tuple[str, ...] = ()
    extra: Extra = UNSET


class Lease(Struct, frozen=True):
    """What a registration is granted: beat every `heartbeat_interval_secs`, be gone after `lease_duration_secs`."""

    heartbeat_interval_secs: int
    lease_duration_secs: int


class RouterReplica(Struct, frozen=True, order=True):
    """One replica of the router: its id and the base URL under which PoolRelays reach it. Raises Invalid."""

    id: str
    url: str

    def __post_init__(self) -> None:
        if fault := text_fault(self.id):
            raise Invalid(fault, "id")
        if fault := base_url_fault(self.url):
            raise Invalid(fault, "url")


# ----------------------------------------------------------------------------------------------------- pool id

_ID_HASHER = blake3(derive_key_context="dynamo.global_view.pool_id.v1")


def pool_id(key: PoolKey) -> str:
    """`pool-v1-` and the hex BLAKE3 derived key of the three names, each behind its length as 8 big-endian bytes."""
    hasher = _ID_HASHER.copy()  # the context is hashed once, at import
    hasher.update(_wire.id_material(key))
    return "pool-v1-" + hasher.digest().hex()  # which is twice as fast as its hexdigest()


sort_key: Callable[[PoolKey], bytes] = _wire.sort_key
"""The names in UTF-8 with NUL between them; sorts as PoolKey does, and tells pools apart."""


def key_of(sort_key: bytes) -> PoolKey:
    """The PoolKey that `sort_key` was made of."""
    return PoolKey(*sort_key.decode().split("\0"))


def listing_of(registration: PoolRegistration, relay_identities: tuple[str, ...] = ()) -> PoolListing:
    """The listing that a registration gives on its own."""
    return PoolListing(
        registration.key,
        pool_id(registration.key),
        registration.location,
        registration.model,
        registration.frontends,
        registration.capacity,
        registration.capabilities,
        relay_identities,
        registration.extra,
    )


# ---------------------------------------------------------------------------------------------------- decoding

_DECODER = msgspec.json.Decoder()
_REGISTRATION_DECODER = msgspec.json.Decoder(PoolRegistration)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_AT_PATH = re.compile(r" - at `(\$[^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")

_KEY_MEMBERS = frozenset(PoolKey.__struct_fields__)
_LOCATION_MEMBERS = frozenset(PoolLocation.__struct_fields__) - {"extra"}
_CAPACITY_MEMBERS = frozenset(_CAPACITY_COUNTS)
_REGISTRATION_MEMBERS = frozenset(PoolRegistration.__struct_fields__) - {"extra"}
_LISTING_MEMBERS = frozenset(PoolListing.__struct_fields__) - {"extra"}
_OUR_MEMBERS = frozenset({"id", "relay_identities", "sources"})  # a registration cannot set what we add


def nested_beyond(body: bytes, levels: int) -> bool:
    """Whether arrays and objects nest deeper than `levels`. Linear; a wrong answer needs a body that is no JSON."""
    if body.count(b"[") + body.count(b"{") <= levels:
        return False
    outside_strings = b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside_strings.translate(_BRACKETS, delete=_NO_BRACKETS)
    for _ in range(levels):  # each round takes the innermost level away
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def decode_json(body: bytes) -> Any:
    """The document in `body`, every byte of it checked, also below members that we do not know. Raises NotJson."""
    if nested_beyond(body, MAX_NESTING):
        raise NotJson(f"the body is no JSON that nests at most {MAX_NESTING} levels")
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        reason = str(error) if body else "it is empty"
        raise NotJson(f"the body is no JSON: {reason}") from None


def _set_extra_aside(
    document: Any, known: frozenset[str], dropped: frozenset[str] = frozenset(), *, drop_all: bool = False
) -> None:
    """Moves the members outside `known` into one member `extra`, which is where the Structs keep them."""
    if not isinstance(document, dict):
        return
    members = cast(dict[str, Any], document)
    if members.keys() <= known:
        return
    extra = {name: members.pop(name) for name in members.keys() - known}
    for name in dropped & extra.keys():
        del extra[name]
    if extra and not drop_all:
        members["extra"] = extra


def _prepare(document: Any, known: frozenset[str], dropped: frozenset[str] = frozenset()) -> None:
    """Makes of a decoded document what the Structs are converted from."""
    if not isinstance(document, dict):
        return
    members = cast(dict[str, Any], document)
    _set_extra_aside(members, known, dropped)
    _set_extra_aside(members.get("key"), _KEY_MEMBERS, drop_all=True)
    _set_extra_aside(members.get("location"), _LOCATION_MEMBERS)
    _set_extra_aside(members.get("capacity"), _CAPACITY_MEMBERS)
    for name in ("frontends", "capabilities"):
        if members.get(name, ()) is None:  # null is how an absent list may be written
            del members[name]


def _convert(document: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: msgspec.ValidationError) -> Invalid:
    """msgspec's report as ours: the path of the member at fault, and what was expected there."""
    text = str(error)
    at = _AT_PATH.search(text)
    path = at.group(1) if at else "$"
    if isinstance(error.__cause__, Invalid):
        return Invalid(error.__cause__.expectation, f"{path}.{error.__cause__.field}")
    said = text[: at.start()] if at else text
    if missing := _MISSING.fullmatch(said):
        return Invalid("expected this member, which is missing", f"{path}.{missing.group(1)}")
    return Invalid(said[:1].lower() + said[1:], path)


def decode_registration(body: bytes) -> PoolRegistration:
    """The registration in the body of `POST /pools`. Raises NotJson, Invalid.

    One typed pass is enough where every member is known and right. What it does not take is decoded untyped, which
    checks every byte of it, tells JSON that is wrong from what is no JSON, and keeps the members that we do not know.
    """
    try:
        registration = _REGISTRATION_DECODER.decode(body)
        if not _has_extra(registration):
            return registration
    except (msgspec.DecodeError, RecursionError):
        pass
    document = decode_json(body)
    _prepare(document, _REGISTRATION_MEMBERS, _OUR_MEMBERS)
    return _convert(document, PoolRegistration)


def decode_router(body: bytes) -> RouterReplica:
    """The router replica in the body of `POST /routers`. Raises NotJson, Invalid."""
    return _convert(decode_json(body), RouterReplica)


def decode_listing(encoded: bytes) -> PoolListing:
    """A listing as `encode_listing` wrote it, or as another directory shows it. Raises NotJson, Invalid."""
    document = decode_json(encoded)
    _prepare(document, _LISTING_MEMBERS)
    return _convert(document, PoolListing)


# ---------------------------------------------------------------------------------------------------- encoding

_ENCODER = msgspec.json.Encoder()
_SORTING_ENCODER = msgspec.json.Encoder(order="deterministic")


def _has_extra(item: PoolRegistration | PoolListing) -> bool:
    """Whether members that we do not know came with `item`, at any of the places where they are kept."""
    location, capacity = item.location, item.capacity
    return (
        item.extra is not UNSET
        or (location is not None and location.extra is not UNSET)
        or (capacity is not None and capacity.extra is not UNSET)
    )


def _spliced(item: PoolListing | PoolRegistration | PoolLocation | PoolCapacity, **encoded: Any) -> bytes:
    """The members of `item`, those in `encoded` as they are there; the unknown ones behind them, by name."""
    members = msgspec.structs.asdict(item) | encoded
    extra = members.pop("extra")
    known = _ENCODER.encode(members)
    return known if extra is UNSET else known[:-1] + b"," + _SORTING_ENCODER.encode(extra)[1:]


def encode_listing(listing: PoolListing | PoolRegistration) -> bytes:
    """The one encoding of a listing or registration: what says the same, in whatever order, gives the same bytes."""
    if not _has_extra(listing):
        return _ENCODER.encode(listing)
    location, capacity = listing.location, listing.capacity
    return _spliced(
        listing,
        location=msgspec.Raw(_spliced(location)) if location else None,
        capacity=msgspec.Raw(_spliced(capacity)) if capacity else None,
    )


def encode_registered(registration: PoolRegistration) -> bytes:
    """`encode_listing(listing_of(registration))`; written out, since it runs for every new or changed payload.

    What it gives is kept for as long as the pool is listed, so it takes no more memory than it must.
    """
    key = registration.key
    hasher = _ID_HASHER.copy()
    hasher.update(_wire.id_material(key))
    listing = PoolListing(
        key,
        "pool-v1-" + hasher.digest().hex(),
        registration.location,
        registration.model,
        registration.frontends,
        registration.capacity,
        registration.capabilities,
        (),
        registration.extra,
    )
    return _wire.exact(encode_listing(listing) if _has_extra(registration) else _ENCODER.encode(listing))


def encode(item: Lease | RouterReplica | PoolKey | str) -> bytes:
    """The encoding of a type without unknown members."""
    return _ENCODER.encode(item)
