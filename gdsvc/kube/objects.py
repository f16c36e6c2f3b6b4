"""The Kubernetes objects, as far as they are read: every other member is skipped by the decoder.

Names are Kubernetes' own (`rename`), absent and null members read the same, and no Struct takes part in the garbage
collection: a view of 100,000 endpoints would make each full collection a pause.
"""

from typing import Final

import msgspec

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"  # annotation of the bookmark that ends a streaming list

Key = tuple[str, str]  # namespace, name


class _Read(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of all: immutable, camelCase on the wire."""


class ObjectMeta(_Read, frozen=True):
    """What names an object and its version. `resource_version` is opaque: compared for equality at most."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Conditions(_Read, frozen=True):
    """Each None where the member is absent; what absence means is the reader's to decide. `serving` nobody asks for."""

    ready: bool | None = None
    terminating: bool | None = None


class TargetRef(_Read, frozen=True):
    """The object behind an endpoint, a Pod as a rule."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class Endpoint(_Read, frozen=True):
    """One endpoint: all its addresses lead to the same place. A list may hold a million: no member without a reader."""

    addresses: list[str] | None = None
    conditions: Conditions | None = None
    target_ref: TargetRef | None = None
    hostname: str | None = None


class Port(_Read, frozen=True):
    """A port of every endpoint of its slice; `protocol` None means TCP."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(_Read, frozen=True):
    """discovery.k8s.io/v1 EndpointSlice."""

    metadata: ObjectMeta
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[Port, ...] | None = None


class LeaseMeta(ObjectMeta, frozen=True):
    """With what tells a Lease from one of the same name that was deleted."""

    uid: str = ""


class LeaseSpec(_Read, frozen=True):
    """What a Lease says of its holder. `renew_time` is the holder's wall clock: compared for equality at most."""

    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(_Read, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    metadata: LeaseMeta
    spec: LeaseSpec | None = None


class StatusCause(_Read, frozen=True):
    """One cause of a failure."""

    reason: str | None = None


class StatusDetails(_Read, frozen=True):
    """What a Status says for programs."""

    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: float | None = None


class Status(_Read, frozen=True):
    """What the API server says instead of an answer, as a body or as the object of an ERROR event."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None


class ListMeta(_Read, frozen=True):
    """The metadata of a list. `more` is not empty where the list is only a part."""

    resource_version: str = ""
    more: str = msgspec.field(name="continue", default="")


class ListEnvelope(_Read, frozen=True):
    """A list, its items left as bytes."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class WatchEvent(_Read, frozen=True):
    """One line of a watch; what `object` is depends on `type`."""

    type: str
    object: msgspec.Raw


class Bookmark(_Read, frozen=True):
    """The object of a BOOKMARK event."""

    metadata: ObjectMeta


ENDPOINT_SLICE: Final = msgspec.json.Decoder(EndpointSlice)
LEASE: Final = msgspec.json.Decoder(Lease)
LIST_ENVELOPE: Final = msgspec.json.Decoder(ListEnvelope)
WATCH_EVENT: Final = msgspec.json.Decoder(WatchEvent)
BOOKMARK: Final = msgspec.json.Decoder(Bookmark)
STATUS: Final = msgspec.json.Decoder(Status)

ENDPOINT_SLICES_PATH: Final = "/apis/discovery.k8s.io/v1/endpointslices"  # of all namespaces


def leases_path(namespace: str) -> str:
    """Where the Leases of one namespace are."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def key_of(metadata: ObjectMeta) -> Key:
    """The key under which a view keeps an object."""
    return metadata.namespace, metadata.name
