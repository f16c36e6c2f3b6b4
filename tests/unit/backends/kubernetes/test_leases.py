import json
import re
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.leases import ANNOTATION_BYTES, Member, Unreadable, Wanted, Written
from gdsvc.errors import DoesNotFit
from gdsvc.model import PoolKey

DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
WANTED = Wanted(Member.POOL, "pool-v1-ab", b'{"key":"\xc3\xa9"}', 15, "replica-0")


def created(wanted: Wanted = WANTED, version: str = "1.00ff00ff") -> dict[str, Any]:
    """What the API server makes of a creation."""
    document: dict[str, Any] = json.loads(leases.creation(wanted, version, "2026-01-01T00:00:00.000001Z"))
    document["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    return document


def decoded(document: dict[str, Any]) -> Written | Unreadable:
    return leases.decode(json.dumps(document).encode())


def test_what_was_created_reads_back() -> None:
    assert decoded(created()) == Written(
        Member.POOL, "pool-v1-ab", "u-1", "7", WANTED.registration, "1.00ff00ff", "2026-01-01T00:00:00.000001Z", 15
    )


def test_a_lease_is_one_that_the_api_server_takes() -> None:
    document = created()
    assert (document["apiVersion"], document["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert document["spec"]["holderIdentity"] == "replica-0"
    assert document["metadata"]["labels"][leases.MEMBER_LABEL] == "pool"


@pytest.mark.parametrize("name", [model.pool_id(PoolKey("ü", "n", "x" * 253)), leases.router_lease_name("/ ü" * 80)])
def test_names_are_dns_names_whatever_the_key_holds(name: str) -> None:
    assert re.fullmatch(DNS_NAME, name)
    assert len(name) <= 253


def test_router_ids_that_differ_have_names_that_differ() -> None:
    assert leases.router_lease_name("a") != leases.router_lease_name("A")


@pytest.mark.parametrize(
    ("unix_secs", "text"),
    [(0.0, "1970-01-01T00:00:00.000000Z"), (1767225600.25, "2026-01-01T00:00:00.250000Z")],
)
def test_a_stamp_has_the_six_decimals_that_a_micro_time_needs(unix_secs: float, text: str) -> None:
    assert leases.stamp(unix_secs) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels"), None),
        (("metadata", "labels", leases.MEMBER_LABEL), "gateway"),
        (("metadata", "annotations"), None),
        (("metadata", "annotations", leases.VERSION), ""),
        (("spec",), None),
        (("spec", "renewTime"), None),
        (("spec", "leaseDurationSeconds"), 0),
        (("spec", "leaseDurationSeconds"), None),
    ],
)
def test_a_lease_that_lacks_something_is_unreadable_and_says_what(path: tuple[str, ...], value: object) -> None:
    document = created()
    *parents, last = path
    parent = document
    for name in parents:
        parent = parent[name]
    parent[last] = value
    read = decoded(document)
    assert isinstance(read, Unreadable)
    assert (read.name, read.uid) == ("pool-v1-ab", "u-1")
    assert read.reason


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"metadata": 1}', b"\xff", b'{"metadata": {"name": "\xff"}}'])
def test_an_answer_that_is_no_lease_is_unreadable(body: bytes) -> None:
    assert isinstance(leases.decode(body), Unreadable)


@pytest.mark.parametrize("version", ["1.00ff00ff", f"{10**17}.00ff00ff"])
def test_what_just_fits_is_within_the_bound_of_the_api_server_and_a_byte_more_is_refused(version: str) -> None:
    most = next(size for size in range(ANNOTATION_BYTES, 0, -1) if fits(size))
    annotations = created(Wanted(Member.POOL, "p", b"x" * most, 15, "r"), version)["metadata"]["annotations"]
    assert sum(len(name) + len(value) for name, value in annotations.items()) <= ANNOTATION_BYTES
    with pytest.raises(DoesNotFit, match="holds one of at most"):
        leases.check_fits(b"x" * (most + 1))


def fits(size: int) -> bool:
    try:
        leases.check_fits(b"x" * size)
    except DoesNotFit:
        return False
    return True


def test_versions_count_and_never_come_again() -> None:
    first = leases.next_version(None, "aa")
    known = decoded(created(version=first))
    assert isinstance(known, Written)
    assert (first, leases.next_version(known, "bb")) == ("1.aa", "2.bb")


@pytest.mark.parametrize("version", ["", "x", "-1.aa", "٣.aa", "9" * 30])
def test_a_version_that_is_none_of_ours_is_followed_by_the_first(version: str) -> None:
    known = Written(Member.POOL, "p", "u", "7", b"", version, "t", 15)
    assert leases.next_version(known, "bb") == "1.bb"


def test_a_renewal_touches_the_stamp_alone() -> None:
    known = decoded(created())
    assert isinstance(known, Written)
    operations = json.loads(leases.renewal(known, WANTED, "t"))
    assert operations == [
        {"op": "test", "path": "/metadata/annotations/gdsvc~1version", "value": "1.00ff00ff"},
        {"op": "replace", "path": "/spec/renewTime", "value": "t"},
    ]


def test_a_renewal_under_another_grant_writes_it() -> None:
    known = decoded(created())
    assert isinstance(known, Written)
    longer = Wanted(Member.POOL, WANTED.name, WANTED.registration, 20, "replica-1")
    assert {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 20} in json.loads(
        leases.renewal(known, longer, "t")
    )
