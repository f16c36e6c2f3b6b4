"""Pools and routers of imported EndpointSlices: a scripted API server, a service as a process, callers on sockets.

Most tests share a server and two services over it; each has a source cluster of its own there.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.clusters import (
    FAST,
    Cluster,
    Document,
    Site,
    cluster,
    derived,
    dispatched,
    eventually,
    imported,
    pod,
)
from tests.e2e.process import Serve, Service, running
from tests.e2e.watcher import Watcher
from tests.kube.api_server import answer, reply
from tests.unit.kube.events import status

MCS = ("--pool-discovery", "mcs")
SLICES_ALONE = ("--registrations", "off")
KARMADA = ("--pool-discovery", "karmada", *SLICES_ALONE, "--relist-interval-secs", "1")
RELAY = "gw-pool-relay"
KEY = {"site_id": "east", "namespace": "relay", "dgd_name": "gw"}
EXPLAIN = "/pools/east/relay/gw/explain"
LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")


def _router(service: str) -> tuple[str, ...]:
    return ("--router-namespace", "relay", "--router-service", service, "--router-port-name", "http")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The server that most tests share. It has a slice of each style, since an empty list would be told otherwise."""
    with cluster(tmp_path_factory.mktemp("clusters")) as made:
        made.put(
            imported(RELAY, pod("10.9.9.9"), cluster="always"), dispatched(RELAY, pod("10.9.9.8"), cluster="always")
        )
        yield made


@pytest.fixture(scope="module")
def mcs(api: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service over it, of slices by the labels of the MCS API."""
    flags = (*MCS, *SLICES_ALONE, *_router("router"))
    with running(tmp_path_factory.mktemp("mcs"), *flags, environ=api.environ) as service:
        yield _synced(service)


@pytest.fixture(scope="module")
def karmada(api: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service over it, of Karmada's slices; it lists them again every second."""
    with running(tmp_path_factory.mktemp("karmada"), *KARMADA, *_router("r" * 55), environ=api.environ) as service:
        yield _synced(service)


def _synced(service: Service) -> Service:
    """The service, once it has taken in the first list."""
    eventually(lambda: service.get("/ready").status == 200)
    return service


def _started(serve: Serve, api: Cluster, *flags: str) -> Service:
    return _synced(serve(*flags, environ=api.environ))


def _only(service: Service) -> Document:
    (listing,) = service.get("/pools").json()["pools"]
    assert isinstance(listing, dict)
    return listing


def test_a_start_is_503_until_the_first_list_and_incomplete_until_a_lease_has_passed(
    serve: Serve, east: Cluster
) -> None:
    refusal = reply(answer(403, status(403, "Forbidden", "endpointslices is forbidden")))
    east.tell(lambda api: setattr(api, "always", refusal))
    service = serve(*MCS, environ=east.environ, command=FAST)
    eventually(lambda: b"forbidden" in service.get("/ready").body.lower())
    for target in ("/pools", "/routers", "/pools/watch", "/routers/watch", EXPLAIN, "/sd/prometheus?targets=frontends"):
        refused = service.get(target)
        assert (refused.status, refused.header("retry-after") is not None) == (503, True), target
        assert b"not been listed yet" in refused.body, target
    assert service.get("/health").status == 200
    assert service.samples()['gdsvc_source_complete{source="endpointslices"}'] == 0
    east.tell(lambda api: setattr(api, "always", None))
    listed = _synced(service).get("/pools").json()
    assert (listed["complete"], listed["pools"]) == (False, [])
    assert [source["name"] for source in listed["sources"]] == ["pool-registrations"]


def test_a_pool_appears_grows_shrinks_and_leaves(mcs: Service, api: Cluster) -> None:
    site = Site("grows", mcs)
    key = {**KEY, "site_id": site.name}
    with site.watch() as watcher:
        first = watcher.next().json()
        assert (first["complete"], first["pools"], "sources" in first) == (True, [], False)
        for addresses in (["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ["10.0.0.2"]):
            api.put(imported(RELAY, *map(pod, addresses), cluster=site.name))
            event = watcher.next()
            assert (event.name, event.json()["relay_identities"]) == ("upserted", addresses)
        api.put(imported(RELAY, pod("10.0.0.2", ready=False), cluster=site.name))
        assert watcher.next().json() == {"key": key}
        api.put(imported(RELAY, pod("10.0.0.2", ready=True, terminating=True), pod("10.0.0.3"), cluster=site.name))
        assert watcher.next().json()["relay_identities"] == ["10.0.0.3"]
        api.delete(f"{site.name}-{RELAY}")
        assert watcher.next().name == "removed"
    assert site.names() == []


def test_an_endpoint_that_moves_between_slices_never_leaves(mcs: Service, api: Cluster) -> None:
    site = Site("moves", mcs)
    api.put(imported(RELAY, pod("10.0.0.1"), cluster=site.name, name="moves-a"))
    eventually(site.pools)
    with site.watch() as watcher:
        assert [item["relay_identities"] for item in watcher.next().json()["pools"]] == [["10.0.0.1"]]
        api.delete("moves-a")
        api.put(imported(RELAY, pod("10.0.0.1"), cluster=site.name, name="moves-b"))
        api.put(imported("last-pool-relay", pod("10.0.0.9"), cluster=site.name))
        assert watcher.next().json()["key"]["dgd_name"] == "last"


def test_both_addresses_of_a_dual_stack_relay_are_identities(mcs: Service, api: Cluster) -> None:
    site = Site("dual", mcs)
    api.put(imported(RELAY, pod("10.0.0.1"), cluster=site.name, name="four"))
    api.put(imported(RELAY, pod("fd00::1"), cluster=site.name, name="six", family="IPv6"))
    api.put(imported("gw-frontend", pod("fd00::2"), cluster=site.name, family="IPv6"))
    eventually(lambda: [pool["frontends"] for pool in site.pools()] == [["http://[fd00::2]:8000"]])
    assert site.relays() == {"gw": ["10.0.0.1", "fd00::1"]}


def test_each_mode_reads_its_own_style(mcs: Service, karmada: Service, api: Cluster) -> None:
    ours, theirs = Site("styles", mcs), Site("styles", karmada)
    api.put(imported("a-pool-relay", pod("10.0.0.1"), cluster="styles"))
    api.put(dispatched("b-pool-relay", pod("10.0.0.2"), cluster="styles"))
    api.put(imported("z-pool-relay", pod("10.0.0.1"), cluster="styles"))
    api.put(dispatched("z-pool-relay", pod("10.0.0.2"), cluster="styles"))
    eventually(lambda: len(ours.pools()) == len(theirs.pools()) == 2)
    assert ours.relays() == {"a": ["10.0.0.1"], "z": ["10.0.0.1"]}
    assert theirs.relays() == {"b": ["10.0.0.2"], "z": ["10.0.0.2"]}


def test_a_derived_service_is_of_the_cluster_in_its_slices_name_dashes_and_all(karmada: Service, api: Cluster) -> None:
    api.put(
        derived(RELAY, pod("10.0.0.1"), cluster="us-east-2", importer="eu-west-1"),
        derived(RELAY, pod("10.0.0.2"), cluster="us-east", importer="eu-west-1"),
        derived("gw-frontend", pod("10.0.0.3"), cluster="us-east-2", importer="eu-west-1"),
    )
    long, short, importer = (Site(name, karmada) for name in ("us-east-2", "us-east", "eu-west-1"))
    eventually(lambda: [pool["frontends"] for pool in long.pools()] == [["http://10.0.0.3:8000"]])
    eventually(short.pools)
    assert (long.relays(), short.relays(), importer.relays()) == ({"gw": ["10.0.0.1"]}, {"gw": ["10.0.0.2"]}, {})


def test_a_delete_that_was_lost_is_repaired_by_the_next_relist(karmada: Service, api: Cluster) -> None:
    site = Site("lost", karmada)
    lost = dispatched(RELAY, pod("10.0.0.1"), cluster=site.name)
    api.put(lost)
    eventually(site.pools)
    with site.watch() as watcher:
        assert len(watcher.next().json()["pools"]) == 1
        before = karmada.samples()['gdsvc_relists_total{cause="interval"}']
        api.tell(lambda server: server.delete(lost["metadata"]["name"], told=False))
        assert watcher.next().json() == {"key": {**KEY, "site_id": site.name}}
    assert karmada.samples()['gdsvc_relists_total{cause="interval"}'] > before


def test_a_router_service_of_56_characters_is_an_error_in_the_log(serve: Serve, karmada: Service, api: Cluster) -> None:
    fault = "at most 55 characters"
    too_long = _started(serve, api, *KARMADA, *_router("r" * 56))
    assert (karmada.log.count(fault), too_long.log.count(fault)) == (0, 1)


def test_routers_are_the_pods_of_the_router_service(mcs: Service, api: Cluster) -> None:
    api.put(imported("router", pod("10.0.0.5", name="router-0"), pod("10.0.0.6")))
    eventually(lambda: mcs.get("/routers").json()["routers"])
    assert mcs.get("/routers").json() == {
        "complete": True,
        "routers": [
            {"id": "10.0.0.6", "url": "http://10.0.0.6:8000"},
            {"id": "east/relay/router-0", "url": "http://10.0.0.5:8000"},
        ],
    }
    targets = [group["targets"] for group in mcs.get("/sd/prometheus?targets=routers").json()]
    assert targets == [["10.0.0.6:8000"], ["10.0.0.5:8000"]]
    refused = mcs.post("/routers", {"id": "r", "url": "http://10.0.0.7"})
    assert (refused.status, b"EndpointSlices" in refused.body) == (501, True)
    with mcs.connect() as connection:
        assert connection.request("DELETE", "/routers/r").status == 501
    with Watcher(mcs.port, "/routers/watch") as watcher:
        assert len(watcher.next().json()["routers"]) == 2
        api.delete("east-router")
        assert {watcher.next().json()["id"], watcher.next().json()["id"]} == {"10.0.0.6", "east/relay/router-0"}


def test_prometheus_is_given_the_frontends_and_relays_of_the_slices(mcs: Service, api: Cluster) -> None:
    site = Site("scraped", mcs)
    api.put(imported(RELAY, pod("10.0.0.1"), pod("10.0.0.2"), cluster=site.name))
    api.put(imported("gw-frontend", pod("10.0.0.3"), cluster=site.name))
    eventually(lambda: [pool["frontends"] for pool in site.pools()] == [["http://10.0.0.3:8000"]])
    for targets, addresses in (
        ("frontends", ["10.0.0.3:8000"]),
        ("relays&port=9345", ["10.0.0.1:9345", "10.0.0.2:9345"]),
    ):
        (group,) = mcs.get(f"/sd/prometheus?targets={targets}&site_id={site.name}").json()
        labels = group["labels"]
        assert group["targets"] == addresses
        assert (labels["__meta_gdsvc_site_id"], labels["__meta_gdsvc_dgd_name"]) == (site.name, "gw")
    api.delete(f"{site.name}-{RELAY}")
    eventually(lambda: mcs.get(f"/sd/prometheus?targets=frontends&site_id={site.name}").json() == [])


def test_a_registration_adds_facts_that_outlive_its_lease(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east, *MCS, *LEASE, "--location", "east=eu-west/b")
    assert service.post("/pools", {"key": KEY, "model": "m", "capacity": {"live_workers": 3}}).status == 200
    assert service.names() == []
    east.put(imported(RELAY, pod("10.0.0.1")))
    eventually(service.names)
    eventually(lambda: service.samples()["gdsvc_expired_total"] == 1)
    assert service.complete()
    listing = _only(service)
    assert (listing["model"], listing["capacity"]["live_workers"]) == ("m", 3)
    assert (listing["location"]["region"], listing["location"]["availability_zone"]) == ("eu-west", "b")
    with service.connect() as connection:
        assert connection.request("DELETE", "/pools/east/relay/gw").status == 204
        assert connection.request("DELETE", "/pools/east/relay/gw").status == 404
    assert _only(service)["model"] is None


@pytest.mark.parametrize("body", [b'{"key": ', {"key": KEY}])
def test_without_the_join_no_pool_registers(mcs: Service, body: object) -> None:
    refused = mcs.post("/pools", body)
    assert (refused.status, b"--registrations off" in refused.body) == (501, True)
    with mcs.connect() as connection:
        assert connection.request("DELETE", "/pools/east/relay/gw").status == 501


def test_explain_names_slices_conditions_and_the_watch(mcs: Service, api: Cluster) -> None:
    api.put(imported(RELAY, pod("10.0.0.1", ready=False), cluster="explained"))
    told: dict[str, Any] = {}

    def is_told() -> bool:
        reply = mcs.get("/pools/explained/relay/gw/explain")
        told.update(reply.json())
        return reply.status == 200

    eventually(is_told)
    assert told["listed"] is False
    detail = told["sources"][0]["detail"]
    assert f"explained-{RELAY}: 10.0.0.1 not Ready" in detail
    assert "followed by a watch" in detail


def test_an_instance_that_listed_and_one_that_watched_give_the_same_bytes(
    serve: Serve, mcs: Service, api: Cluster
) -> None:
    site = Site("twins", mcs)
    for number in range(20):
        addresses = (f"10.0.1.{number}", f"10.0.0.{number}")
        api.put(imported(f"p{number}-pool-relay", *map(pod, addresses), cluster=site.name))
    eventually(lambda: len(site.pools()) == 20)
    other = _started(serve, api, *MCS, *SLICES_ALONE)
    assert len(Site(site.name, other).pools()) == 20
    eventually(lambda: mcs.get("/pools").body == other.get("/pools").body)
