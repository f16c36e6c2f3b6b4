"""Router replicas as slices show them."""

from typing import Any

from gdsvc.backends.mcs.endpoints import view_of
from gdsvc.backends.mcs.naming import Reason
from gdsvc.backends.mcs.replicas import RouterService, RouterTable, router_replicas
from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import RouterReplica
from tests.unit.backends.mcs.slice_objects import endpoint, holding, made, service_of

ROUTER = RouterService("relay", "router", "http")
EAST, WEST = service_of("router"), service_of("router", "west")


def replicas(*slices: EndpointSlice, port: str = "http") -> list[tuple[str, str]]:
    found, _ = router_replicas(EAST, map(view_of, slices), port)
    return [(replica.id, replica.url) for replica in found]


def six(*endpoints: Any) -> EndpointSlice:
    return made("six", family="IPv6", endpoints=endpoints)


def test_a_replica_is_named_by_cluster_namespace_and_pod() -> None:
    assert replicas(made(endpoints=[endpoint("10.0.0.2", pod="router-1"), endpoint("10.0.0.1", pod="router-0")])) == [
        ("east/relay/router-0", "http://10.0.0.1:8000"),
        ("east/relay/router-1", "http://10.0.0.2:8000"),
    ]


def test_a_replica_without_a_pod_is_named_by_its_address() -> None:
    assert replicas(made(endpoints=[endpoint("10.0.0.1")]), six(endpoint("2001:db8::1"))) == [
        ("10.0.0.1", "http://10.0.0.1:8000"),
        ("2001:db8::1", "http://[2001:db8::1]:8000"),
    ]


def test_a_dual_stack_pod_is_one_replica_whose_ipv4_address_is_named() -> None:
    four = made("four", endpoints=[endpoint("10.0.0.1", pod="router-0")])
    both = six(endpoint("2001:db8::1", pod="router-0"))
    one = [("east/relay/router-0", "http://10.0.0.1:8000")]
    assert replicas(four, both) == replicas(both, four) == one


def test_a_pod_with_ipv6_alone_stands_in_brackets() -> None:
    assert replicas(six(endpoint("2001:db8::1", pod="p"))) == [("east/relay/p", "http://[2001:db8::1]:8000")]


def test_a_replica_that_is_not_ready_is_none() -> None:
    given = made(endpoints=[endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2", terminating=True)])
    assert replicas(given) == []


def test_a_name_too_long_for_an_id_gives_way_to_the_address() -> None:
    assert replicas(made(endpoints=[endpoint("10.0.0.1", pod="p" * 250)])) == [("10.0.0.1", "http://10.0.0.1:8000")]


def test_a_slice_without_the_named_port_gives_nothing_and_is_remarked_on() -> None:
    bad, good = holding("bad", "10.0.0.1", ports=[{"name": "grpc", "port": 1}]), holding("good", "10.0.0.2")
    found, remarks = router_replicas(EAST, map(view_of, (bad, good)), "http")
    assert found == (RouterReplica("10.0.0.2", "http://10.0.0.2:8000"),)
    assert [(remark.reason, remark.example) for remark in remarks] == [(Reason.NO_PORT, "relay/bad")]


def test_the_only_port_is_not_enough_for_a_router() -> None:
    assert replicas(holding("a", "10.0.0.1", ports=[{"port": 8000}])) == []


def test_a_table_follows_every_cluster_by_itself() -> None:
    table = RouterTable(ROUTER)
    table.update(EAST, [view_of(made(endpoints=[endpoint("10.0.0.1", pod="r-0")]))])
    table.update(WEST, [view_of(made(endpoints=[endpoint("10.1.0.1", pod="r-0")]))])
    assert list(table.replicas()) == ["east/relay/r-0", "west/relay/r-0"]
    table.update(EAST, [])
    assert list(table.replicas()) == ["west/relay/r-0"]


def test_a_table_heeds_no_other_service() -> None:
    table = RouterTable(ROUTER)
    assert table.update(service_of("router-2"), [view_of(holding("a", "10.0.0.1", ports=[]))]) == []
    table.update(service_of("pool-gw"), [view_of(holding("a", "10.0.0.1"))])
    assert table.replicas() == {}


def test_clusters_with_one_address_are_one_replica_whichever_came_first() -> None:
    found = []
    for order in ((EAST, WEST), (WEST, EAST)):
        table = RouterTable(ROUTER)
        for service in order:
            port = 8000 if service is EAST else 9000
            table.update(service, [view_of(holding("a", "10.0.0.1", ports=[{"name": "http", "port": port}]))])
        found.append(table.replicas())
    assert found == [{"10.0.0.1": RouterReplica("10.0.0.1", "http://10.0.0.1:8000")}] * 2
