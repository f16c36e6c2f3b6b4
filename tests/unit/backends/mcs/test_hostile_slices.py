"""Slices as nobody should write them: nothing raises, nothing of them reaches a listing that may not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.backends.mcs.endpoints import ready_addresses
from gdsvc.backends.mcs.join import Join
from gdsvc.backends.mcs.naming import Mode
from gdsvc.backends.mcs.pools import PoolServices, imported_pool
from gdsvc.backends.mcs.replicas import RouterService, router_replicas
from gdsvc.backends.mcs.slices import SliceCache
from gdsvc.kube import objects
from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import base_url_fault, decode_listing, encode_listing
from tests.unit.backends.mcs.slice_objects import (
    KARMADA_DISPATCH,
    KARMADA_IMPORT,
    MANAGED_BY,
    MCS_CLUSTER,
    MCS_SERVICE,
    OWN,
    PROVISION_CLUSTER,
    SERVICE_NAME,
    WORK_NAMESPACE,
    endpoint,
    holding,
    made,
    service_of,
    standard,
)

NAMES = PoolServices("-gw")


def fed(mode: Mode, *slices: EndpointSlice) -> SliceCache:
    """A cache that has seen the slices in every way that there is, and shows them."""
    cache = SliceCache(mode)
    cache.init()
    for each in slices:
        cache.init_apply(each)
        cache.apply(each, 0.0)
        cache.delete(each, 0.0)
    cache.init_done()
    return cache


def look(cache: SliceCache) -> None:
    """Makes of the cache's Services everything that can be made of them, and judges it."""
    join = Join()
    for key in NAMES.touched(cache.services):
        pool = imported_pool(key, cache.views(NAMES.relays(key)), cache.views(NAMES.frontends(key)), "http")
        listing = join.imported(key, pool)
        if listing is not None:
            assert decode_listing(encode_listing(listing)) == listing
            assert not any(map(base_url_fault, listing.frontends))
    for service in cache.services:
        replicas, _ = router_replicas(service, cache.views(service), "http")
        assert len({replica.id for replica in replicas}) == len(replicas)
        NAMES.remarks(service, cache.views(service))
        RouterService(service.namespace, service.name, "http").covers(service)
    assert all(map(str, cache.take_remarks()))


ODD = ["", " ", "-", "--", "-gw", "a-gw", "imported-", "imported--gw-", "imported-a-gw-", "derived-", "derived-a-gw"]
TEXTS = st.one_of(st.sampled_from([*ODD, "a", "gw", "é\u202e", "\x00", "a" * 300]), st.text(max_size=8))
ADDRESSES = st.one_of(
    st.sampled_from(["10.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%a", "[::1]", "1.2.3", "a.b", "a/b", "\x00"]), TEXTS
)
MAYBE = st.sampled_from([True, False, None])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


ENDPOINTS = st.fixed_dictionaries(
    {},
    optional={
        "addresses": optional(st.lists(ADDRESSES, max_size=3)),
        "conditions": optional(st.dictionaries(st.sampled_from(["ready", "serving", "terminating"]), MAYBE)),
        "targetRef": optional(st.dictionaries(st.sampled_from(["kind", "name", "namespace"]), optional(TEXTS))),
        "hostname": optional(TEXTS),
        "nodeName": optional(TEXTS),
    },
)
PORTS = st.fixed_dictionaries(
    {},
    optional={
        "name": optional(st.sampled_from(["http", "", "x"])),
        "port": optional(st.integers(-(2**40), 2**40)),
        "protocol": optional(st.sampled_from(["TCP", "UDP", ""])),
    },
)
MANAGERS = st.sampled_from([OWN, KARMADA_IMPORT, KARMADA_DISPATCH, "lighthouse-agent.submariner.io", ""])
SLICES = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": TEXTS, "namespace": st.sampled_from(["relay", "", "a b"])},
            optional={
                "labels": optional(
                    st.fixed_dictionaries(
                        {},
                        optional={MANAGED_BY: MANAGERS, SERVICE_NAME: TEXTS, MCS_SERVICE: TEXTS, MCS_CLUSTER: TEXTS},
                    )
                ),
                "annotations": optional(
                    st.dictionaries(st.sampled_from([WORK_NAMESPACE, PROVISION_CLUSTER, "x"]), TEXTS)
                ),
            },
        )
    },
    optional={
        "addressType": st.sampled_from(["IPv4", "IPv6", "FQDN", "", "x"]),
        "endpoints": optional(st.lists(ENDPOINTS, max_size=4)),
        "ports": optional(st.lists(PORTS, max_size=3)),
    },
)


@pytest.mark.parametrize("mode", list(Mode))
@settings(max_examples=50)
@given(documents=st.lists(SLICES, max_size=4))
def test_no_slice_that_can_be_decoded_raises_or_gives_a_listing_that_cannot(mode: Mode, documents: list[Any]) -> None:
    slices = [objects.ENDPOINT_SLICE.decode(json.dumps(document)) for document in documents]
    look(fed(mode, *slices))


@pytest.mark.parametrize("members", [{}, {"endpoints": None, "ports": None}, {"endpoints": [], "ports": []}])
def test_a_slice_without_endpoints_or_ports_is_a_slice(members: dict[str, Any]) -> None:
    labels = {MCS_SERVICE: "pool-gw", MCS_CLUSTER: "east"}
    document = {"metadata": {"name": "s", "namespace": "relay", "labels": labels}, **members}
    cache = fed(Mode.MCS, objects.ENDPOINT_SLICE.decode(json.dumps(document)))
    look(cache)
    assert ready_addresses(cache.views(service_of())) == ()


def test_a_slice_without_a_name_is_one_slice() -> None:
    cache = fed(Mode.MCS, holding("", "10.0.0.1"), holding("", "10.0.0.2"))
    look(cache)
    assert ready_addresses(cache.views(service_of())) == ("10.0.0.2",)


def test_ten_thousand_endpoints_are_all_there() -> None:
    addresses = [f"10.0.{number // 250}.{number % 250}" for number in range(10_000)]
    given = standard(endpoints=[endpoint(address) for address in addresses])
    cache = fed(Mode.MCS, given)
    look(cache)
    assert ready_addresses(cache.views(service_of())) == tuple(sorted(addresses))
    cache.delete(given, 0.0)
    assert cache.advance(1.0) == {service_of()}


def test_metadata_without_labels_and_annotations_is_skipped() -> None:
    cache = fed(Mode.KARMADA, made(labels=None), made("t", labels={}, annotations={}))
    look(cache)
    assert not cache.services
