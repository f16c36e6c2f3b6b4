"""Registrations in Leases of a real API server: what it refuses, what replicas share, what an outage does to them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle
from typing import Any

import pytest

from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.leases import ANNOTATION_BYTES, Member, Wanted, Written
from gdsvc.backends.kubernetes.writer import Writer
from gdsvc.errors import DoesNotFit
from gdsvc.kube.client import Client
from gdsvc.kube.credentials import Credentials
from tests.cluster.api import Api, Document, Refused
from tests.cluster.cluster import Cluster
from tests.cluster.imported import standard
from tests.cluster.programs import stopped, wait_until
from tests.cluster.watching import is_complete, synced
from tests.e2e.process import Serve, Service
from tests.e2e.watcher import Watcher
from tests.event_stream import Event

pytestmark = [pytest.mark.cluster, pytest.mark.loops("uvloop")]

LEASE_SECS = 3
FLAGS = (
    *("--pool-discovery", "registrations", "--registration-storage", "kubernetes", "--kubernetes-namespace", "gdsvc"),
    *("--heartbeat-interval-secs", "1", "--lease-duration-secs", str(LEASE_SECS)),
)


def pool(name: str, model: str = "m") -> Document:
    return {"key": {"site_id": "s", "namespace": "n", "dgd_name": name}, "model": model}


def models(service: Service) -> dict[str, str | None]:
    """The models of GET /pools by name."""
    return {item["key"]["dgd_name"]: item["model"] for item in service.get("/pools").json()["pools"]}


def becomes(service: Service, expected: Mapping[str, str | None]) -> None:
    wait_until(lambda: models(service) == expected, lambda: (models(service), expected, service.log))


@pytest.fixture
def pair(serve: Serve) -> tuple[Service, Service]:
    """Two replicas that are ready."""
    one, other = serve(*FLAGS), serve(*FLAGS)
    synced(one)
    synced(other)
    return one, other


# ----------------------------------------------------------------------------------------------- what it refuses


class Book:
    """A ledger that knows what it is told to know."""

    def __init__(self, known: Written | None = None) -> None:
        self._known = known

    def known(self, name: str) -> Written | None:
        return self._known

    def sending(self, name: str, renewed: str) -> None: ...
    def written(self, written: Written) -> None:
        self._known = written

    def not_written(self, name: str) -> None: ...
    def taken_out(self, name: str) -> None:
        self._known = None


def wanted(registration: bytes) -> Wanted:
    return Wanted(Member.POOL, "pool-v1-ab", registration, 15, "replica-0")


async def test_the_ways_of_a_write_end_as_they_should(cluster: Cluster) -> None:
    credentials = await Credentials.load(str(cluster.kubeconfig))
    async with Client(credentials) as client:
        book = Book()
        async with Writer(client, "gdsvc", book, budget_secs=10.0) as writer:
            first = await writer.put(wanted(b"one"))
            assert await writer.look("pool-v1-ab") == first
            renewed = await writer.put(wanted(b"one"))
            assert (renewed.version, renewed.renewed > first.renewed) == (first.version, True)
            changed = await writer.put(wanted(b"two"))
            assert (changed.registration, changed.changes) == (b"two", 2)
            async with Writer(client, "gdsvc", Book(first), budget_secs=10.0) as late:
                assert (await late.put(wanted(b"old"))).registration == b"two"  # 422 by its test, then a look
            async with Writer(client, "gdsvc", Book(), budget_secs=10.0) as unaware:
                assert (await unaware.put(wanted(b"two"))).version == changed.version  # 409, a look, a renewal
                with pytest.raises(DoesNotFit):
                    await unaware.put(wanted(b"x" * ANNOTATION_BYTES))
            await writer.clear_away(changed)  # renewed since, so it stays
            assert await writer.look("pool-v1-ab") is not None
            assert await writer.take_out("pool-v1-ab")
            assert not await writer.take_out("pool-v1-ab")
            assert (await writer.put(wanted(b"two"))).uid != first.uid


def created(size: int) -> Document:
    document: Document = json.loads(leases.creation(wanted(b"x" * size), f"{10**17}.00ff00ff", leases.stamp(0.0)))
    document["metadata"]["namespace"] = "gdsvc"
    return document


def test_what_we_take_the_server_takes_and_what_it_refuses_it_calls_too_long(cluster: Cluster) -> None:
    most = next(size for size in range(ANNOTATION_BYTES, 0, -1) if fits(size))
    cluster.api.put(created(most))
    with pytest.raises(Refused, match=r"422: .*Too long"):
        cluster.api.put(created(ANNOTATION_BYTES))


def fits(size: int) -> bool:
    try:
        leases.check_fits(b"x" * size)
    except DoesNotFit:
        return False
    return True


# ---------------------------------------------------------------------------------------------- what replicas share


def test_a_pool_registered_changed_and_taken_out_through_either_is_the_same_for_both(
    pair: tuple[Service, Service],
) -> None:
    one, other = pair
    assert one.post("/pools", pool("p")).status == 200
    becomes(other, {"p": "m"})
    assert other.post("/pools", pool("p", "n")).status == 200
    becomes(one, {"p": "n"})
    with one.connect() as connection:
        assert connection.request("DELETE", "/pools/s/n/p").status == 204
    becomes(other, {})
    assert other.post("/pools", pool("p", "o")).status == 200
    becomes(one, {"p": "o"})
    becomes(one, {})  # a lease later
    becomes(other, {})


class Relays:
    """Relays of some pools, whose heartbeats a balancer spreads over the replicas."""

    def __init__(self, names: list[str], replicas: tuple[Service, ...]) -> None:
        self._names = names
        self._turn: Iterator[Service] = cycle(replicas)
        self.refused = 0

    def beat_for(self, secs: float) -> None:
        """A heartbeat a second of each; the replicas take turns pool by pool."""
        until = time.monotonic() + secs
        while time.monotonic() < until:
            begun_at = time.monotonic()
            for name in self._names:
                self.refused += next(self._turn).post("/pools", pool(name)).status != 200
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun_at)))  # the pace of a relay


@pytest.mark.parametrize("fraction", ["0", "0.5"])
def test_pools_that_beat_round_the_replicas_never_flap(serve: Serve, fraction: str) -> None:
    replicas = tuple(serve(*FLAGS, "--kubernetes-renew-fraction", fraction) for _ in range(3))
    for replica in replicas:
        synced(replica)
    names = [f"p{number:02}" for number in range(20)]
    with ExitStack() as stack:
        watchers = [stack.enter_context(Watcher(replica.port)) for replica in replicas]
        relays = Relays(names, replicas)
        relays.beat_for(12.0)
        assert relays.refused == 0
        assert replicas[0].post("/pools", pool("zz-last")).status == 200
        for watcher in watchers:
            events: list[Event] = []
            while not events or events[-1].name != "upserted" or "zz-last" not in events[-1].data:
                events.append(watcher.next())
            kinds = {event.name for event in events}
            assert kinds == {"resync", "upserted"}
            assert len([event for event in events if event.name == "upserted"]) == len(names) + 1
    assert [sorted(models(replica)) for replica in replicas] == [[*names, "zz-last"]] * 3
    unwritten = sum(replica.samples()["gdsvc_store_unwritten_total"] for replica in replicas)
    assert (unwritten > 50) == (fraction != "0")


def test_registrations_in_leases_are_joined_with_slices_on_every_replica(cluster: Cluster, serve: Serve) -> None:
    cluster.api.put(standard("s", "qwen-pool-relay", "10.0.0.1"))
    joined = ("--pool-discovery", "mcs", *FLAGS[2:])
    one, other = serve(*joined), serve(*joined)
    synced(one)
    synced(other)
    assert models(other) == {"qwen": None}
    registration = {"key": {"site_id": "east", "namespace": "relay", "dgd_name": "qwen"}, "model": "m"}
    assert one.post("/pools", registration).status == 200
    becomes(other, {"qwen": "m"})
    with other.connect() as connection:
        assert connection.request("DELETE", "/pools/east/relay/qwen").status == 204
    becomes(one, {"qwen": None})
    cluster.api.delete(standard("s", "qwen-pool-relay"))
    becomes(one, {})


# ------------------------------------------------------------------------------------------------------------ outages


def test_while_the_server_is_away_nothing_expires_and_every_heartbeat_is_refused(
    cluster: Cluster, pair: tuple[Service, Service]
) -> None:
    one, other = pair
    relays = Relays(["p", "q"], pair)
    relays.beat_for(2 * LEASE_SECS)
    is_complete(one)
    is_complete(other)
    with Watcher(other.port) as watcher:
        assert watcher.next().name == "resync"
        with stopped(cluster.server):
            assert one.post("/pools", pool("p")).status == 503
            time.sleep(3 * LEASE_SECS)  # in which leases would end, were they to
            assert models(one) == models(other) == {"p": "m", "q": "m"}
        wait_until(lambda: one.post("/pools", pool("p")).status == 200, lambda: one.log)
        relays.beat_for(2 * LEASE_SECS)
        assert other.post("/pools", pool("last")).status == 200
        assert [watcher.next().name] == ["upserted"]
        assert other.complete()


def test_while_etcd_is_away_and_the_watch_is_not_nothing_expires(
    cluster: Cluster, pair: tuple[Service, Service]
) -> None:
    one, other = pair
    relays = Relays(["p", "q"], pair)
    relays.beat_for(2 * LEASE_SECS)
    with stopped(cluster.etcd):
        assert one.post("/pools", pool("p")).status == 503
        time.sleep(3 * LEASE_SECS)  # in which leases would end, were they to
        assert models(one) == models(other) == {"p": "m", "q": "m"}
    wait_until(lambda: one.post("/pools", pool("p")).status == 200, lambda: one.log)
    relays.beat_for(LEASE_SECS)
    assert models(one) == models(other) == {"p": "m", "q": "m"}


def test_a_lease_deleted_by_hand_takes_the_pool_out_everywhere(cluster: Cluster, pair: tuple[Service, Service]) -> None:
    one, other = pair
    assert one.post("/pools", pool("p")).status == 200
    becomes(other, {"p": "m"})
    for document in leases_of(cluster.api):
        if document["metadata"]["labels"][leases.MEMBER_LABEL] == "pool":
            cluster.api.delete(document)
    becomes(one, {})
    becomes(other, {})


def leases_of(api: Api) -> list[Document]:
    """All Leases there are."""
    items: list[Any] = json.loads(api._ask("GET", "/apis/coordination.k8s.io/v1/leases"))["items"]
    return [item | {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"} for item in items]


def test_replicas_leave_no_lease_of_their_own_behind(cluster: Cluster, pair: tuple[Service, Service]) -> None:
    assert len(leases_of(cluster.api)) == 2
    for service in pair:
        assert service.stop() == 0
    assert leases_of(cluster.api) == []
