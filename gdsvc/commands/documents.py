"""The answers of a discovery service as far as they are shown: what is read here, and nothing else, is relied on.

Looser than gdsvc.model on purpose: a service that is newer, or hostile, is shown rather than refused.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class Key(Struct, frozen=True):
    """A pool's key, unchecked."""

    site_id: str
    namespace: str
    dgd_name: str


class Location(Struct, frozen=True):
    """Where a pool runs."""

    region: str | None = None
    availability_zone: str | None = None


class Capacity(Struct, frozen=True):
    """What a pool can take."""

    max_concurrency: int | None = None
    live_workers: int | None = None


class Pool(Struct, frozen=True):
    """One pool of a list."""

    key: Key
    location: Location | None = None
    model: str | None = None
    frontends: tuple[str, ...] | None = None
    capacity: Capacity | None = None
    relay_identities: tuple[str, ...] | None = None


class Router(Struct, frozen=True):
    """One router replica of a list."""

    id: str
    url: str


class Source(Struct, frozen=True):
    """What a list rests on; `as_of` is RFC 3339."""

    name: str
    complete: bool = True
    as_of: str | None = None
    detail: str | None = None


class PoolList(Struct, frozen=True):
    """The body of GET /pools. `sources` are those that are not complete."""

    complete: bool
    pools: tuple[Pool, ...]
    sources: tuple[Source, ...] = ()


class RouterList(Struct, frozen=True):
    """The body of GET /routers."""

    complete: bool
    routers: tuple[Router, ...]
    sources: tuple[Source, ...] = ()


class Removed(Struct, frozen=True):
    """The data of a `removed` event: the key of a pool, or the id of a router."""

    key: Key | None = None
    id: str | None = None


class Lease(Struct, frozen=True):
    """What a registration is granted, in seconds."""

    heartbeat_interval_secs: int
    lease_duration_secs: int


class LeaseState(Struct, frozen=True):
    """Seconds since the last registration, and until the lease ends."""

    age_secs: float
    remaining_secs: float


class Registrations(Struct, frozen=True):
    """What was heard of a pool."""

    count: int = 0
    last_from: str | None = None
    conflicts: int = 0


class Happening(Struct, frozen=True):
    """One entry of a pool's history; `at` is RFC 3339."""

    at: str
    event: str
    cause: str | None = None


class Explanation(Struct, frozen=True):
    """The body of the explain endpoint; the history's newest entry is its last."""

    key: Key
    listed: bool
    reason: str
    lease: LeaseState | None = None
    registrations: Registrations | None = None
    sources: tuple[Source, ...] = ()
    history: tuple[Happening, ...] = ()


class Problem(Struct, frozen=True):
    """What the service says of a request that it does not follow."""

    message: str
    field: str | None = None


class ProblemBody(Struct, frozen=True):
    """The body of every error of the service."""

    error: Problem


def decode(body: bytes, kind: type[T]) -> T | None:
    """`body` as the document `kind`; None where it is something else."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
