"""How a registration is written into a coordination.k8s.io/v1 Lease, and how it is read back.

Names, labels, annotations and patches live here only. Upstream's layout is not public, so this one is ours. Decides
neither when to write nor what a Lease that was seen means for a list.
"""

from datetime import UTC, datetime
from enum import Enum
from typing import Final

import msgspec
from blake3 import blake3
from msgspec import Struct

from gdsvc.errors import DoesNotFit
from gdsvc.kube import objects

MEMBER_LABEL: Final = "gdsvc/member"  # `pool` or `router`; what a watch selects by
REGISTRATION: Final = "gdsvc/registration"  # the annotation that holds the registration, as JSON
VERSION: Final = "gdsvc/version"  # the annotation that is another after every change of the registration
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "gdsvc"}
ANNOTATION_BYTES: Final = 256 << 10  # what the API server lets all annotations of an object have together, names too
JSON_PATCH: Final = "application/json-patch+json"  # the one kind of patch that can be made conditional on a value

_ROUTER_HASHER: Final = blake3(derive_key_context="gdsvc router lease name v1")
_REPLICA_HASHER: Final = blake3(derive_key_context="gdsvc replica lease name v1")
_ENCODER: Final = msgspec.json.Encoder()


class Member(Enum):
    """What a Lease stands for; the value is that of its label. A replica's shows it that its watch still tells."""

    POOL = "pool"
    ROUTER = "router"
    REPLICA = "replica"


class Written(Struct, frozen=True):
    """What is known of a member's Lease. `version` names this registration and no other that the member ever had.

    `uid` is the Lease's own, another one after it was deleted; `revision` the API server's name for just this content;
    `renewed` the stamp of its last renewal, of the writer's wall clock; `granted_secs` for how long a reader lists the
    member after it saw the stamp change.
    """

    member: Member
    name: str
    uid: str
    revision: str
    registration: bytes
    version: str
    renewed: str
    granted_secs: int

    @property
    def changes(self) -> int:
        """How many changes led to this registration since the Lease was created, from 1."""
        return _count(self.version) or 1

    @property
    def renewed_at(self) -> float:
        """Unix seconds by the writer's wall clock; 0 where the stamp is none."""
        try:
            return datetime.fromisoformat(self.renewed).timestamp()
        except (ValueError, OverflowError):
            return 0.0


class Unreadable(Struct, frozen=True):
    """A Lease that says nothing we understand; its `uid` is empty where not even that is known."""

    name: str
    uid: str
    reason: str


def router_lease_name(router_id: str) -> str:
    """The name of the Lease of a router replica, whose id may be any text. That of a pool is its pool id."""
    hasher = _ROUTER_HASHER.copy()
    hasher.update(router_id.encode())
    return "router-v1-" + hasher.digest().hex()


def replica_lease_name(holder: str) -> str:
    """The name of the Lease of a replica of this service, whose name may be any text."""
    hasher = _REPLICA_HASHER.copy()
    hasher.update(holder.encode())
    return "replica-v1-" + hasher.digest().hex()


def stamp(unix_secs: float) -> str:
    """A MicroTime: the API server takes six decimals and nothing else."""
    return datetime.fromtimestamp(unix_secs, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check_fits(registration: bytes) -> None:
    """Raises DoesNotFit where the annotations of a Lease cannot hold it."""
    most = ANNOTATION_BYTES - _OVERHEAD
    if len(registration) > most:
        raise DoesNotFit(
            f"the registration takes {len(registration)} bytes, and a Kubernetes Lease holds one of at most {most}"
        )


def read(lease: objects.Lease) -> Written | Unreadable:
    """What a Lease with our label says; never raises."""
    metadata, spec = lease.metadata, lease.spec or objects.LeaseSpec()
    annotations = metadata.annotations or {}
    label = (metadata.labels or {}).get(MEMBER_LABEL)
    member = next((member for member in Member if member.value == label), None)
    granted_secs = spec.lease_duration_seconds or 0
    if member is None:
        return Unreadable(
            metadata.name,
            metadata.uid,
            f"its label {MEMBER_LABEL} says none of {', '.join(each.value for each in Member)}",
        )
    if REGISTRATION not in annotations or not annotations.get(VERSION):
        return Unreadable(metadata.name, metadata.uid, f"it lacks the annotation {REGISTRATION} or {VERSION}")
    if not spec.renew_time or granted_secs < 1:
        return Unreadable(metadata.name, metadata.uid, "it lacks spec.renewTime or spec.leaseDurationSeconds")
    registration = annotations[REGISTRATION].encode(errors="surrogatepass")
    return Written(
        member,
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        registration,
        annotations[VERSION],
        spec.renew_time,
        granted_secs,
    )


def decode(body: bytes) -> Written | Unreadable:
    """What the API server answers to a write or to the question for one Lease; never raises."""
    try:
        return read(objects.LEASE.decode(body))
    except (ValueError, RecursionError) as error:
        return Unreadable("", "", f"the API server's answer is no Lease: {str(error)[:200]}")


# ----------------------------------------------------------------------------------------------- what is sent


class Wanted(Struct, frozen=True):
    """What a member is to be registered with, by whom (`holder`, the replica that writes)."""

    member: Member
    name: str
    registration: bytes
    granted_secs: int
    holder: str


def creation(wanted: Wanted, version: str, renewed: str) -> bytes:
    """The body of the POST that creates the Lease."""
    return _ENCODER.encode(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": wanted.name,
                "labels": _labels(wanted),
                "annotations": _annotations(wanted, version),
            },
            "spec": _spec(wanted, renewed),
        }
    )


def renewal(known: Written, wanted: Wanted, renewed: str) -> bytes:
    """The body of the PATCH that renews `known`, and does nothing where its registration is another by now."""
    operations = [_unchanged(known), _replace("/spec/renewTime", renewed)]
    if known.granted_secs != wanted.granted_secs:
        operations.append(_replace("/spec/leaseDurationSeconds", wanted.granted_secs))
    return _ENCODER.encode(operations)


def change(known: Written, wanted: Wanted, version: str, renewed: str) -> bytes:
    """The body of the PATCH that replaces the registration of `known`, unless somebody else has done so by now."""
    return _ENCODER.encode(
        [
            _unchanged(known),
            _replace(_annotation(REGISTRATION), wanted.registration.decode()),
            _replace(_annotation(VERSION), version),
            {"op": "add", "path": "/spec", "value": _spec(wanted, renewed)},
        ]
    )


def repair(uid: str, wanted: Wanted, version: str, renewed: str) -> bytes:
    """The body of the PATCH that makes a Lease that says nothing say `wanted`, whatever stands there."""
    return _ENCODER.encode(
        [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/metadata/labels", "value": _labels(wanted)},
            {"op": "add", "path": "/metadata/annotations", "value": _annotations(wanted, version)},
            {"op": "add", "path": "/spec", "value": _spec(wanted, renewed)},
        ]
    )


def deletion(written: Written) -> bytes:
    """The body of the DELETE that takes out this Lease as it is: none that came after it, none that was renewed."""
    preconditions = {"uid": written.uid, "resourceVersion": written.revision}
    return _ENCODER.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})


def next_version(known: Written | None, nonce: str) -> str:
    """A number that counts the changes, and `nonce`, which makes it no other's."""
    return f"{1 if known is None else _count(known.version) + 1}.{nonce}"


def _count(version: str) -> int:
    """The number in a version; 0 where it is none of ours."""
    count = version.partition(".")[0]
    return int(count) if count.isascii() and count.isdecimal() and len(count) < 18 else 0


def _labels(wanted: Wanted) -> dict[str, str]:
    return {**MANAGED_BY, MEMBER_LABEL: wanted.member.value}


def _annotations(wanted: Wanted, version: str) -> dict[str, str]:
    return {REGISTRATION: wanted.registration.decode(), VERSION: version}


def _spec(wanted: Wanted, renewed: str) -> dict[str, object]:
    return {
        "holderIdentity": wanted.holder,
        "leaseDurationSeconds": wanted.granted_secs,
        "renewTime": renewed,
    }


def _unchanged(known: Written) -> dict[str, object]:
    return {"op": "test", "path": _annotation(VERSION), "value": known.version}


def _replace(path: str, value: object) -> dict[str, object]:
    return {"op": "replace", "path": path, "value": value}


def _annotation(name: str) -> str:
    """Its path in a JSON patch, where a slash inside a name is written ~1."""
    return f"/metadata/annotations/{name.replace('/', '~1')}"


_OVERHEAD: Final = len(REGISTRATION) + len(VERSION) + 40  # the longest version has 18 digits, a full stop and a nonce
