"""What an API server answers about one Lease, for tests of errands."""

import json

from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.leases import Member, Unreadable, Wanted, Written
from gdsvc.kube.client import Answer
from tests.unit.kube.events import status


def wanted(registration: bytes = b"ours", granted_secs: int = 15) -> Wanted:
    return Wanted(Member.POOL, "p", registration, granted_secs, "replica-0")


def lease(registration: bytes = b"ours", version: str = "1.aa", uid: str = "u-1") -> Answer:
    """The Lease, as 200."""
    document = json.loads(leases.creation(wanted(registration), version, "then"))
    document["metadata"]["uid"] = uid
    return Answer(200, json.dumps(document).encode(), None)


def known(registration: bytes = b"ours", version: str = "1.aa", uid: str = "u-1") -> Written:
    """The same, read."""
    read = leases.decode(lease(registration, version, uid).body)
    assert not isinstance(read, Unreadable)
    return read


def refused(code: int, message: str = "no", retry_after_secs: float | None = None) -> Answer:
    return Answer(code, status(code, "Reason", message), retry_after_secs)
