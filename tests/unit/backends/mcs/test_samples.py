"""The sample slices of every implementation, and what each must give: the table of tests/data/slices/README.md."""

from pathlib import Path

import pytest

from gdsvc.backends.mcs.naming import Mode, Reason
from gdsvc.backends.mcs.pools import ImportedPool, PoolServices, imported_pool
from gdsvc.backends.mcs.slices import SliceCache
from gdsvc.kube import objects
from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import PoolKey

FOLDER = Path(__file__).parents[3] / "data" / "slices"
SAMPLES = {path.name[:2]: path for path in FOLDER.glob("*.json")}

GIVES = {
    ("02", Mode.KARMADA): ("member1", "10.42.0.17"),
    ("03", Mode.KARMADA): ("member1", "10.42.0.17"),
    ("04", Mode.KARMADA): ("member1", "10.42.0.17"),
    ("05", Mode.MCS): ("east", "100.64.12.34"),
    ("08", Mode.MCS): ("cluster2", "10.2.0.31", "10.2.1.32"),
    ("09", Mode.MCS): ("cluster1", "10.1.0.17"),
    ("10", Mode.MCS): ("cls-eu-1", "10.12.4.8"),
    ("11", Mode.MCS): ("east", "2001:db8:42::17"),
}
REMARKS = {
    ("05", Mode.MCS): [Reason.SERVICE_IP],
    ("07", Mode.MCS): [Reason.NO_SERVICE_NAME],
}


def sample(number: str) -> EndpointSlice:
    return objects.ENDPOINT_SLICE.decode(SAMPLES[number].read_bytes())


def pools(cache: SliceCache, suffix: str = "-gw") -> list[ImportedPool]:
    names = PoolServices(suffix)
    found = [
        imported_pool(key, cache.views(names.relays(key)), cache.views(names.frontends(key)), names.frontend_port)
        for key in sorted(names.touched(cache.services))
    ]
    return [pool for pool in found if pool is not None]


def test_every_sample_is_judged() -> None:
    assert sorted(SAMPLES) == [f"{number:02}" for number in range(1, 12)]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("number", sorted(SAMPLES))
def test_a_sample_gives_the_pool_that_it_must(number: str, mode: Mode) -> None:
    cache = SliceCache(mode)
    cache.apply(sample(number), 0.0)
    expected = [
        ImportedPool(PoolKey(site, "relay", "pool"), identities)
        for site, *addresses in filter(None, [GIVES.get((number, mode))])
        for identities in [tuple(addresses)]
    ]
    assert pools(cache) == expected
    assert [remark.reason for remark in cache.take_remarks()] == REMARKS.get((number, mode), [])


def test_headless_pods_are_a_pool_under_their_own_suffix() -> None:
    cache = SliceCache(Mode.MCS)
    cache.apply(sample("06"), 0.0)
    assert pools(cache, "-gw-headless") == [
        ImportedPool(PoolKey("west", "relay", "pool"), ("10.60.3.21", "10.60.3.22"))
    ]


def test_two_slices_of_one_service_are_one_pool_with_both_addresses() -> None:
    cache = SliceCache(Mode.MCS)
    cache.apply(sample("05"), 0.0)
    cache.apply(sample("11"), 0.0)
    assert pools(cache) == [ImportedPool(PoolKey("east", "relay", "pool"), ("100.64.12.34", "2001:db8:42::17"))]


def test_all_samples_together_are_one_pool_a_source_cluster() -> None:
    found = {}
    for mode in Mode:
        cache = SliceCache(mode)
        for number in SAMPLES:
            cache.apply(sample(number), 0.0)
        found[mode] = [pool.key.site_id for pool in pools(cache)]
    assert found == {Mode.KARMADA: ["member1"], Mode.MCS: ["cls-eu-1", "cluster1", "cluster2", "east"]}
