"""What imported slices show, by way of a real API server: pools that appear, grow, shrink, move and leave."""

import pytest

from tests.cluster.api import Document
from tests.cluster.cluster import Cluster
from tests.cluster.imported import dispatched, endpoint, karmada, relays, standard
from tests.cluster.watching import becomes, equals_truth, is_complete, relists, synced
from tests.e2e.process import Serve
from tests.e2e.watcher import Watcher

pytestmark = pytest.mark.cluster

KARMADA = ("--pool-discovery", "karmada", "--registrations", "off")
POOL = ("east", "relay", "qwen")


def test_pools_appear_grow_shrink_flip_and_leave(cluster: Cluster, serve: Serve) -> None:
    cluster.api.put(standard("s", "qwen-pool-relay", "10.0.0.1"))
    service = serve()
    synced(service)
    becomes(service, {POOL: ["10.0.0.1"]})
    assert service.complete()
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        steps: list[tuple[list[Document | str], list[str]]] = [
            (["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.2"]),  # grows
            (["10.0.0.2"], ["10.0.0.2"]),  # shrinks
            ([endpoint("10.0.0.2"), endpoint("10.0.0.3", ready=False)], ["10.0.0.2"]),  # one more, not Ready
            ([endpoint("10.0.0.2", ready=False), endpoint("10.0.0.3")], ["10.0.0.3"]),  # both flip
            ([endpoint("10.0.0.3", terminating=True), "10.0.0.4"], ["10.0.0.4"]),  # terminating is not Ready
        ]
        for endpoints, identities in steps:
            cluster.api.put(standard("s", "qwen-pool-relay", *endpoints))
            becomes(service, {POOL: identities})
        cluster.api.put(standard("s", "qwen-pool-relay", endpoint("10.0.0.4", ready=False)))
        becomes(service, {})
        cluster.api.put(standard("s", "qwen-pool-relay", "10.0.0.4"))
        becomes(service, {POOL: ["10.0.0.4"]})
        cluster.api.delete(standard("s", "qwen-pool-relay"))
        becomes(service, {})
        names = [watcher.next().name for _ in range(7)]
    # A third address that is not Ready changes nothing that is listed, so that step is no event.
    assert names == ["upserted"] * 4 + ["removed", "upserted", "removed"]


def test_an_endpoint_that_moves_between_slices_never_leaves(cluster: Cluster, serve: Serve) -> None:
    cluster.api.put(standard("a", "qwen-pool-relay", "10.0.0.1"))
    service = serve()
    synced(service)
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        for old, new in (("a", "b"), ("b", "a")) * 3:
            cluster.api.put(standard(old, "qwen-pool-relay"))  # gone from the one first
            cluster.api.put(standard(new, "qwen-pool-relay", "10.0.0.1"))
        cluster.api.put(relays(1))
        event = watcher.next()
    assert event.name == "upserted"
    assert event.json()["key"]["dgd_name"] == "pool-00001"


def test_same_named_exports_of_two_clusters_are_two_pools_in_both_families(cluster: Cluster, serve: Serve) -> None:
    service_name = "qwen-pool-relay"
    cluster.api.put(standard("e4", service_name, "10.0.0.1"))
    cluster.api.put(standard("e6", service_name, "fd00::1", family="IPv6"))
    cluster.api.put(standard("w6", service_name, "fd00:0:0::2", cluster="west", family="IPv6"))
    service = serve()
    becomes(service, {POOL: ["10.0.0.1", "fd00::1"], ("west", "relay", "qwen"): ["fd00::2"]})
    cluster.api.delete(standard("e4", service_name))
    becomes(service, {POOL: ["fd00::1"], ("west", "relay", "qwen"): ["fd00::2"]})


def test_karmada_reads_its_own_two_styles_and_mcs_the_standard_one(cluster: Cluster, serve: Serve) -> None:
    cluster.api.put(standard("s", "standard-pool-relay", "10.0.0.1"))
    cluster.api.put(karmada("imported-pool-relay", "10.0.0.2"))
    cluster.api.put(karmada("imported-pool-relay", "fd00::2", family="IPv6"))
    cluster.api.put(dispatched("dispatched-pool-relay", "10.0.0.3"))
    becomes(serve(), {("east", "relay", "standard"): ["10.0.0.1"]})
    both = {("east", "relay", "dispatched"): ["10.0.0.3"], ("east", "relay", "imported"): ["10.0.0.2", "fd00::2"]}
    becomes(serve(*KARMADA), both)


def test_a_service_name_of_55_characters_is_a_pool_in_karmada_mode(cluster: Cluster, serve: Serve) -> None:
    name = "n" * (55 - len("-pool-relay"))
    cluster.api.put(karmada(f"{name}-pool-relay", "10.0.0.1"))
    becomes(serve(*KARMADA), {("east", "relay", name): ["10.0.0.1"]})


@pytest.mark.parametrize(
    ("mode", "length", "imported"), [("karmada", 55, True), ("karmada", 56, False), ("mcs", 56, True)]
)
def test_only_karmada_cannot_import_a_router_service_of_56_characters(
    cluster: Cluster, serve: Serve, mode: str, length: int, imported: bool
) -> None:
    router = "r" * length
    if imported:  # the label of the other would be longer than Kubernetes allows
        make = karmada if mode == "karmada" else standard_router
        cluster.api.put(make(router, "10.0.0.9"))
    flags = ("--router-namespace", "relay", "--router-service", router, "--router-port-name", "http")
    service = serve("--pool-discovery", mode, *flags)
    synced(service)
    routers = [{"id": "10.0.0.9", "url": "http://10.0.0.9:8000"}] if imported else []
    assert service.get("/routers").json() == {"complete": True, "routers": routers}
    assert ("at most 55 characters" in service.log) == (not imported)


def standard_router(service: str, address: str) -> Document:
    """The one slice of a router's Service in the standard style."""
    return standard("router", service, address)


def test_two_instances_list_byte_identical_pools(cluster: Cluster, serve: Serve) -> None:
    cluster.api.put_all(relays(number) for number in range(200))
    flags = ("--pool-discovery", "mcs", "--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")
    first = serve(*flags)
    synced(first)
    cluster.api.put_all(relays(number, "10.9.9.9") for number in range(0, 200, 3))
    for number in range(0, 200, 7):
        cluster.api.delete(relays(number))
    second = serve(*flags)
    for service in (first, second):
        equals_truth(service, cluster)
        is_complete(service)
    assert first.get("/pools").body == second.get("/pools").body
    assert relists(first, "first") == relists(second, "first") == 1.0
