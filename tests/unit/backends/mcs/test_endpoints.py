"""What one slice says: readiness, addresses, ports and URLs."""

from itertools import product
from typing import Any

import pytest

from gdsvc.backends.mcs import endpoints
from gdsvc.backends.mcs.endpoints import Port, SliceView, Target, view_of
from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import base_url_fault
from tests.unit.backends.mcs.slice_objects import MANAGED_BY, endpoint, holding, made

STATES = (True, False, None)
READY = {(True, False), (True, None), (None, False), (None, None)}  # of ready and terminating


def tcp(*ports: tuple[str, int]) -> SliceView:
    return SliceView("s", (Target("10.0.0.1", True),), tuple(Port(*port) for port in ports))


# ------------------------------------------------------------------------------------------------ readiness


@pytest.mark.parametrize(("ready", "serving", "terminating"), [*product(STATES, repeat=3)])
def test_readiness_is_ready_and_not_terminating_and_absence_is_no_obstacle(
    ready: bool | None, serving: bool | None, terminating: bool | None
) -> None:
    given = made(endpoints=[endpoint("10.0.0.1", ready=ready, serving=serving, terminating=terminating)])
    assert [target.ready for target in view_of(given).targets] == [(ready, terminating) in READY]


@pytest.mark.parametrize("conditions", [{"conditions": None}, {"conditions": {}}, {}, {"conditions": {"ready": None}}])
def test_an_endpoint_without_conditions_is_ready(conditions: dict[str, Any]) -> None:
    assert view_of(made(endpoints=[{"addresses": ["10.0.0.1"], **conditions}])).targets[0].ready


def test_the_conditions_of_a_slice_are_told_for_the_first_of_its_targets() -> None:
    several = [endpoint("10.0.0.3", ready=False), endpoint("10.0.0.2", terminating=True), endpoint("10.0.0.1")]
    told = "s: 10.0.0.1 Ready, 10.0.0.2 terminating, 10.0.0.3 not Ready"
    assert endpoints.conditions_told(view_of(made(endpoints=several))) == told
    assert endpoints.conditions_told(view_of(made())) == "s: no endpoints"
    many = [endpoint(f"10.0.1.{number}") for number in range(250)]
    assert endpoints.conditions_told(view_of(made(endpoints=many))).endswith(" Ready, 242 more")


def test_a_target_is_ready_if_any_slice_says_so() -> None:
    views = [view_of(made(endpoints=[endpoint("10.0.0.1", ready=ready)])) for ready in (False, True, False)]
    assert endpoints.ready_addresses(views) == ("10.0.0.1",)


# ------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:0a00:0001", "10.0.0.1"),
        ("2001:DB8:0:0::17", "2001:db8::17"),
        ("::1", "::1"),
        ("::10.0.0.1", "::a00:1"),  # a compatible address is not a mapped one
        ("10.0.0.01", None),
        ("10.0.1", None),
        ("10.0.0.256", None),
        (" 10.0.0.1", None),
        ("10.0.0.1\x00", None),
        ("[::1]", None),
        ("fe80::1%eth0", None),
        (":", None),
        ("name", None),
        ("", None),
    ],
)
def test_addresses_are_canonical_or_none(text: str, canonical: str | None) -> None:
    assert endpoints.ip_address(text) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("Pool.Example", "pool.example"), ("a b", None), ("x/y", None), ("a:1", None), ("u@h", None), ("", None)],
)
def test_a_host_name_is_one_that_a_url_can_hold(text: str, canonical: str | None) -> None:
    assert endpoints.host_name(text) == canonical


def test_a_slice_of_host_names_is_read_as_such() -> None:
    given = made(family="FQDN", endpoints=[endpoint("a.example"), endpoint("10.0.0.1"), endpoint("a b")])
    assert endpoints.ready_addresses([view_of(given)]) == ("10.0.0.1", "a.example")


def test_every_address_is_an_identity_and_a_mapped_one_is_listed_once() -> None:
    four = made("v4", endpoints=[endpoint("10.0.0.2", pod="p-1"), endpoint("10.0.0.10", pod="p-0")])
    six = made("v6", family="IPv6", endpoints=[endpoint("2001:db8::2", pod="p-1"), endpoint("::ffff:10.0.0.2")])
    assert endpoints.ready_addresses(map(view_of, (four, six))) == ("10.0.0.10", "10.0.0.2", "2001:db8::2")


def test_an_endpoint_without_an_address_that_can_be_read_is_none() -> None:
    given = made(endpoints=[endpoint("nonsense"), endpoint(), {"addresses": None}, endpoint("x", "10.0.0.1")])
    assert view_of(given).targets == (Target("10.0.0.1", True),)


def test_only_pods_are_remembered_and_with_a_namespace_only_where_it_is_another() -> None:
    references = [
        {"kind": "Pod", "name": "p", "namespace": "elsewhere"},
        {"kind": "Pod", "name": "p"},
        {"kind": "Pod", "name": "p", "namespace": "relay"},
        {"kind": "Service", "name": "p"},
        {"kind": "Pod", "name": ""},
        {"name": "p"},
        None,
    ]
    given = made(endpoints=[{"addresses": ["10.0.0.1"], "targetRef": reference} for reference in references])
    assert [target.pod for target in view_of(given).targets] == ["elsewhere/p", "p", "p", None, None, None, None]


# ------------------------------------------------------------------------------------------- ports and URLs


def test_an_ipv6_address_stands_in_brackets_once() -> None:
    assert endpoints.url("2001:db8::1", 80) == "http://[2001:db8::1]:80"
    assert endpoints.url("10.0.0.1", 80) == "http://10.0.0.1:80"
    assert base_url_fault(endpoints.url("2001:db8::1", 80)) is None


def test_a_named_port_is_taken_among_many() -> None:
    view = tcp(("metrics", 9090), ("http", 8000))
    assert endpoints.port_named(view, "http") == endpoints.port_named_or_only(view, "http") == 8000


def test_the_only_port_needs_no_name_where_that_is_allowed() -> None:
    assert endpoints.port_named_or_only(tcp(("", 8000)), "http") == 8000
    assert endpoints.port_named_or_only(tcp(("grpc", 8000)), "http") == 8000
    assert endpoints.port_named(tcp(("grpc", 8000)), "http") is None


def test_of_many_ports_without_the_name_none_is_taken() -> None:
    assert endpoints.port_named_or_only(tcp(("metrics", 9090), ("grpc", 8000)), "http") is None
    assert endpoints.ready_urls([tcp(("metrics", 9090), ("grpc", 8000))], "http") == ()


@pytest.mark.parametrize(
    "port",
    [
        {"name": "http", "port": 8000, "protocol": "UDP"},
        {"name": "http", "port": None},
        {"name": "http"},
        {"name": "http", "port": 0},
        {"name": "http", "port": 65536},
        {"name": "http", "port": -1},
    ],
)
def test_what_is_no_tcp_port_is_no_port(port: dict[str, Any]) -> None:
    assert view_of(made(ports=[port])).ports == ()


@pytest.mark.parametrize("protocol", [{}, {"protocol": None}, {"protocol": "TCP"}])
def test_an_absent_protocol_is_tcp(protocol: dict[str, Any]) -> None:
    assert view_of(made(ports=[{"name": "http", "port": 8000, **protocol}])).ports == (Port("http", 8000),)


def test_each_slice_has_its_own_port() -> None:
    first = holding("a", "10.0.0.2", ports=[{"name": "http", "port": 1}])
    second = holding("b", "10.0.0.1", ports=[{"name": "http", "port": 2}])
    assert endpoints.ready_urls(map(view_of, (first, second)), "http") == ("http://10.0.0.1:2", "http://10.0.0.2:1")


def test_interchangeable_addresses_give_one_url() -> None:
    assert endpoints.ready_urls([view_of(made(endpoints=[endpoint("10.0.0.2", "10.0.0.1")]))], "http") == (
        "http://10.0.0.2:8000",
    )


def test_what_is_not_ready_has_no_url() -> None:
    given = made(endpoints=[endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2", terminating=True)])
    assert endpoints.ready_urls([view_of(given)], "http") == ()


# ----------------------------------------------------------------------------------------------- service IPs

SUBMARINER = {MANAGED_BY: "lighthouse-agent.submariner.io"}
HEADLESS = "lighthouse.submariner.io/is-headless"


@pytest.mark.parametrize(
    ("given", "service_ip"),
    [
        (made(labels={**SUBMARINER, HEADLESS: "false"}, endpoints=[endpoint("100.64.0.1")]), True),
        (made(labels=SUBMARINER, endpoints=[endpoint("100.64.0.1")]), True),
        (made(labels=SUBMARINER, endpoints=[endpoint("10.0.0.1", pod="p")]), False),
        (made(labels={**SUBMARINER, HEADLESS: "true"}, endpoints=[endpoint("10.0.0.1")]), False),
        (made(labels=SUBMARINER, endpoints=[endpoint("10.0.0.1"), endpoint("10.0.0.2")]), False),
        (made(labels={MANAGED_BY: "example.test"}, endpoints=[endpoint("10.0.0.1")]), False),
        (made(labels={**SUBMARINER, HEADLESS: "false"}, endpoints=[]), False),
    ],
)
def test_a_service_ip_is_told_from_a_lone_pod(given: EndpointSlice, service_ip: bool) -> None:
    assert view_of(given).service_ip is service_ip
