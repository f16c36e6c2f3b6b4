"""Pools and routers of imported EndpointSlices: a scripted API server, a service as a process, callers on sockets."""

from functools import partial
from typing import Any

import pytest

from tests.e2e.clusters import FAST, TOKEN, Cluster, dispatched, eventually, imported, pod
from tests.e2e.process import Serve, Service
from tests.e2e.watcher import Watcher
from tests.kube.api_server import answer, reply
from tests.unit.kube.events import error, status

MCS = ("--pool-discovery", "mcs")
RELAY = "gw-pool-relay"
KEY = {"site_id": "east", "namespace": "relay", "dgd_name": "gw"}
EXPLAIN = "/pools/east/relay/gw/explain"
LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")
ROUTERS = ("--router-namespace", "relay", "--router-service", "router", "--router-port-name", "http")


def _only(service: Service) -> dict[str, Any]:
    (listing,) = service.get("/pools").json()["pools"]
    assert isinstance(listing, dict)
    return listing


def _lists(service: Service, count: int) -> bool:
    return len(service.names()) == count


def _started(serve: Serve, east: Cluster, *flags: str, **options: Any) -> Service:
    """A service that has taken in the first list."""
    service = serve(*(flags or MCS), environ=east.environ, **options)
    eventually(lambda: service.get("/ready").status == 200)
    return service


def test_before_the_first_list_every_question_is_503_with_the_reason(serve: Serve, east: Cluster) -> None:
    refusal = reply(answer(403, status(403, "Forbidden", "endpointslices is forbidden")))
    east.tell(lambda api: setattr(api, "always", refusal))
    service = serve(*MCS, environ=east.environ)
    eventually(lambda: b"forbidden" in service.get("/ready").body.lower())
    for target in ("/pools", "/routers", "/pools/watch", "/routers/watch", EXPLAIN, "/sd/prometheus?targets=frontends"):
        refused = service.get(target)
        assert (refused.status, refused.header("retry-after") is not None) == (503, True), target
        assert b"not been listed yet" in refused.body, target
    assert service.get("/health").status == 200
    assert service.samples()['gdsvc_source_complete{source="endpointslices"}'] == 0
    east.tell(lambda api: setattr(api, "always", None))
    eventually(lambda: service.get("/ready").status == 200)
    assert service.names() == []


def test_a_pool_appears_grows_shrinks_and_leaves(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east, *MCS, "--registrations", "off")
    assert "sources" not in service.get("/pools").json()
    with Watcher(service.port) as watcher:
        assert watcher.next().json()["complete"] is True
        for addresses in (["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ["10.0.0.2"]):
            east.put(imported(RELAY, *map(pod, addresses)))
            event = watcher.next()
            assert (event.name, event.json()["relay_identities"]) == ("upserted", addresses)
        east.put(imported(RELAY, pod("10.0.0.2", ready=False)))
        assert watcher.next().json() == {"key": KEY}
        east.put(imported(RELAY, pod("10.0.0.2", ready=True, terminating=True), pod("10.0.0.3")))
        assert watcher.next().json()["relay_identities"] == ["10.0.0.3"]
        east.delete(f"east-{RELAY}")
        assert watcher.next().name == "removed"
    assert service.names() == []


def test_an_endpoint_that_moves_between_slices_never_leaves(serve: Serve, east: Cluster) -> None:
    east.put(imported(RELAY, pod("10.0.0.1"), name="a"))
    service = _started(serve, east, *MCS, "--registrations", "off")
    with Watcher(service.port) as watcher:
        assert [item["relay_identities"] for item in watcher.next().json()["pools"]] == [["10.0.0.1"]]
        east.delete("a")
        east.put(imported(RELAY, pod("10.0.0.1"), name="b"))
        east.put(imported("last-pool-relay", pod("10.0.0.9")))
        assert watcher.next().json()["key"]["dgd_name"] == "last"


def test_both_addresses_of_a_dual_stack_relay_are_identities(serve: Serve, east: Cluster) -> None:
    east.put(imported(RELAY, pod("10.0.0.1"), name="four"), imported(RELAY, pod("fd00::1"), name="six", family="IPv6"))
    east.put(imported("gw-frontend", pod("fd00::2"), family="IPv6"))
    listing = _only(_started(serve, east))
    assert listing["relay_identities"] == ["10.0.0.1", "fd00::1"]
    assert listing["frontends"] == ["http://[fd00::2]:8000"]


def test_each_mode_reads_its_own_style(serve: Serve, east: Cluster) -> None:
    east.put(imported("a-pool-relay", pod("10.0.0.1")), dispatched("b-pool-relay", pod("10.0.0.2")))
    assert _started(serve, east, "--pool-discovery", "karmada").names() == ["b"]
    assert _started(serve, east, *MCS).names() == ["a"]


@pytest.mark.parametrize(("length", "faults"), [(55, 0), (56, 1)])
def test_a_router_service_of_56_characters_is_an_error_in_the_log(
    serve: Serve, east: Cluster, length: int, faults: int
) -> None:
    name = ("--router-namespace", "relay", "--router-service", "r" * length, "--router-port-name", "http")
    service = _started(serve, east, "--pool-discovery", "karmada", *name)
    assert service.log.count("at most 55 characters") == faults


def test_routers_are_the_pods_of_the_router_service(serve: Serve, east: Cluster) -> None:
    east.put(imported("router", pod("10.0.0.5", name="router-0"), pod("10.0.0.6")))
    service = _started(serve, east, *MCS, *ROUTERS)
    assert service.get("/routers").json() == {
        "complete": True,
        "routers": [
            {"id": "10.0.0.6", "url": "http://10.0.0.6:8000"},
            {"id": "east/relay/router-0", "url": "http://10.0.0.5:8000"},
        ],
    }
    refused = service.post("/routers", {"id": "r", "url": "http://10.0.0.7"})
    assert (refused.status, b"EndpointSlices" in refused.body) == (501, True)
    with service.connect() as connection:
        assert connection.request("DELETE", "/routers/r").status == 501
    with Watcher(service.port, "/routers/watch") as watcher:
        assert len(watcher.next().json()["routers"]) == 2
        east.delete("east-router")
        assert {watcher.next().json()["id"], watcher.next().json()["id"]} == {"10.0.0.6", "east/relay/router-0"}


def test_a_registration_adds_facts_that_outlive_its_lease(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east, *MCS, *LEASE, "--location", "east=eu-west/b")
    assert service.post("/pools", {"key": KEY, "model": "m", "capacity": {"live_workers": 3}}).status == 200
    waiting = service.get("/pools").json()
    assert (waiting["complete"], waiting["pools"]) == (False, [])
    assert [source["name"] for source in waiting["sources"]] == ["pool-registrations"]
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
def test_without_the_join_no_pool_registers(serve: Serve, east: Cluster, body: object) -> None:
    service = _started(serve, east, *MCS, "--registrations", "off")
    refused = service.post("/pools", body)
    assert (refused.status, b"--registrations off" in refused.body) == (501, True)
    with service.connect() as connection:
        assert connection.request("DELETE", "/pools/east/relay/gw").status == 501


def test_explain_names_slices_conditions_and_the_watch(serve: Serve, east: Cluster) -> None:
    east.put(imported(RELAY, pod("10.0.0.1", ready=False)))
    told = _started(serve, east).get(EXPLAIN).json()
    assert told["listed"] is False
    detail = told["sources"][0]["detail"]
    assert f"east-{RELAY}: 10.0.0.1 not Ready" in detail
    assert "followed by a watch" in detail


def test_no_payload_ends_the_watch(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east, *MCS, "--registrations", "off", command=FAST)
    hostile = (
        b"<html>bad gateway</html>",
        b'{"type":"ADDED","object":{"metadata":',
        b'{"type":"ERROR","object":{}}',
        b'{"type":"ERROR","object":"gone"}',
        b'{"type":"ADDED","object":{"metadata":{"name":1}}}',
        b'{"type":"NOVEL","object":{}}',
        b"[" * 5000,
        b"\xff\xfe\0",
        b"null",
        error(500),
    )
    for number, line in enumerate(hostile):
        eventually(lambda: east.tell(lambda api: bool(api.watchers)))
        east.say(line)
        east.put(imported(f"p{number:02}-pool-relay", pod("10.0.0.1")))
        eventually(partial(_lists, service, number + 1))
    assert sum(value for name, value in service.samples().items() if "watch_errors_total{" in name) >= 5
    assert TOKEN not in service.log


def test_two_instances_list_the_same_bytes(serve: Serve, east: Cluster) -> None:
    for number in range(20):
        east.put(imported(f"p{number}-pool-relay", pod(f"10.0.1.{number}"), pod(f"10.0.0.{number}")))
    flags = (*MCS, "--registrations", "off")
    one, other = _started(serve, east, *flags), _started(serve, east, *flags)
    assert one.get("/pools").body == other.get("/pools").body
    assert len(one.names()) == 20
