"""Pools as slices show them: the names of their Services, their life, their relays and frontends."""

import pytest

from gdsvc.backends.mcs.endpoints import view_of
from gdsvc.backends.mcs.naming import Reason, ServiceKey
from gdsvc.backends.mcs.pools import ImportedPool, PoolServices, imported_pool
from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import PoolKey, base_url_fault
from tests.unit.backends.mcs.slice_objects import endpoint, holding, made, service_of

KEY = PoolKey("east", "relay", "pool")
NAMES = PoolServices()


def pool(relays: list[EndpointSlice], frontends: list[EndpointSlice] | None = None) -> ImportedPool | None:
    return imported_pool(KEY, map(view_of, relays), map(view_of, frontends or []), "http")


# ---------------------------------------------------------------------------------------------------- names


def test_a_pool_is_named_as_its_service_less_the_suffix() -> None:
    assert NAMES.pool_of(service_of("pool-pool-relay")) == KEY
    assert NAMES.relays(KEY) == service_of("pool-pool-relay")
    assert NAMES.frontends(KEY) == service_of("pool-frontend")


@pytest.mark.parametrize("name", ["pool", "-pool-relay", "pool-pool-relay-2", "pool-frontend"])
def test_a_service_without_the_suffix_or_without_a_name_before_it_is_no_pool(name: str) -> None:
    assert NAMES.pool_of(service_of(name)) is None


def test_a_name_that_no_pool_can_have_makes_no_pool() -> None:
    assert NAMES.pool_of(service_of("pool -pool-relay")) is None


def test_same_named_exports_of_several_clusters_are_several_pools() -> None:
    services = [service_of("pool-pool-relay", cluster) for cluster in ("east", "west")]
    assert NAMES.touched(services) == {KEY, PoolKey("west", "relay", "pool")}


def test_relays_and_frontends_touch_their_pool_and_other_services_none() -> None:
    assert NAMES.touched([service_of("pool-frontend")]) == {KEY}
    assert NAMES.touched([service_of("pool-frontend"), service_of("pool-pool-relay")]) == {KEY}
    assert NAMES.touched([service_of("database"), ServiceKey("east", "relay", "")]) == frozenset()


def test_a_service_whose_name_ends_in_both_suffixes_is_part_of_two_pools() -> None:
    names = PoolServices("-relay", "-pool-relay")
    assert names.pools_of(service_of("x-pool-relay")) == (
        PoolKey("east", "relay", "x-pool"),
        PoolKey("east", "relay", "x"),
    )


# ----------------------------------------------------------------------------------------------------- life


def test_a_pool_is_live_while_one_relay_is_ready() -> None:
    slices = [made(endpoints=[endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2")])]
    assert pool(slices) == ImportedPool(KEY, ("10.0.0.2",))


@pytest.mark.parametrize("slices", [[], [made()], [made(endpoints=[endpoint("10.0.0.1", terminating=True)])]])
def test_a_pool_without_a_ready_relay_is_not_live(slices: list[EndpointSlice]) -> None:
    assert pool(slices) is None


def test_frontends_without_a_relay_make_no_pool() -> None:
    assert pool([], [holding("f", "10.0.1.1")]) is None


# ------------------------------------------------------------------------------------------------ frontends


def test_frontends_are_the_urls_of_the_ready_endpoints_of_both_families() -> None:
    four = made("f4", endpoints=[endpoint("10.0.1.2"), endpoint("10.0.1.1"), endpoint("10.0.1.3", ready=False)])
    six = made("f6", family="IPv6", endpoints=[endpoint("2001:DB8::1")])
    found = pool([holding("r", "10.0.0.1")], [four, six])
    assert found is not None
    assert found.frontends == ("http://10.0.1.1:8000", "http://10.0.1.2:8000", "http://[2001:db8::1]:8000")
    assert not any(map(base_url_fault, found.frontends))


def test_a_frontend_of_two_slices_is_one() -> None:
    found = pool([holding("r", "10.0.0.1")], [holding("f", "10.0.1.1"), holding("g", "::ffff:10.0.1.1")])
    assert found is not None
    assert found.frontends == ("http://10.0.1.1:8000",)


def test_the_order_of_slices_and_endpoints_does_not_show() -> None:
    relays, frontends = [holding("r", "10.0.0.2", "10.0.0.1"), holding("s", "10.0.0.3")], [holding("f", "10.0.1.1")]
    assert pool(relays, frontends) == pool(
        [holding("s", "10.0.0.3"), holding("r", "10.0.0.1", "10.0.0.2")], frontends[::-1]
    )


def test_frontends_without_the_port_are_remarked_on() -> None:
    ports = [{"name": "metrics", "port": 1}, {"name": "grpc", "port": 2}]
    views = [view_of(holding(name, "10.0.1.1", ports=ports)) for name in ("f", "g")]
    remarks = NAMES.remarks(service_of("pool-frontend"), views)
    assert [(remark.reason, remark.subject, remark.example) for remark in remarks] == [
        (Reason.NO_PORT, "east/relay/pool-frontend", "relay/f"),
        (Reason.NO_PORT, "east/relay/pool-frontend", "relay/g"),
    ]
    assert NAMES.remarks(service_of("database"), views) == []
    assert NAMES.remarks(service_of("pool-frontend"), [view_of(made(ports=ports))]) == []
