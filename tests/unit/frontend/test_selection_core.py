"""The selection core: workers by hash, and the same sets a round as the default selector."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc._in_flight import Cell, Frontend
from gdsvc.frontend.catalog import Pool
from gdsvc.frontend.policies.policy import Asked, Candidate
from gdsvc.frontend.selection_core import SelectionCore, Workers, worker_id
from tests.unit.frontend.fleets import POLICIES, catalog, fleet, listing, names, selector

OHIO = "pool-v1-2d83e849329ee9362567e384ac43e4d13db27a2b6a00cb79a8be9024504c56ae"


@pytest.mark.parametrize(
    ("text", "number"), [("", 0x2D06800538D394C2), ("a", 0xE6C632B61E964E1F), ("abc", 0x78AF5F94892F3950)]
)
def test_a_worker_is_named_by_the_published_vectors_of_the_hash(text: str, number: int) -> None:
    assert worker_id(text) == number


def test_the_name_of_a_worker_fits_64_bits() -> None:
    assert 0 < worker_id(OHIO) < 2**64


def candidate(name: str, *urls: str) -> Candidate:
    cell = Cell(name)
    return Candidate(Pool(name, urls), cell, tuple(Frontend(cell, url) for url in urls))


def test_each_candidate_is_one_worker() -> None:
    workers = Workers()
    workers.swap([candidate("a", "http://a"), candidate("b", "http://b1", "http://b2")])
    assert workers.workers == (worker_id("a"), worker_id("b"))
    workers.swap(())
    assert list(workers.workers) == []
    assert workers.choose(Asked("m", 0.0)) is None


FLEETS = st.lists(
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3), min_size=1).filter(lambda pools: any(pools.values())),
    min_size=1,
    max_size=6,
)


@settings(max_examples=50)
@given(FLEETS)
def test_a_round_serves_the_same_set_as_the_default_selector(fleets: list[dict[str, int]]) -> None:
    core, default = selector(SelectionCore()), selector(POLICIES["round-robin"]())
    for pools in fleets:  # pools come, go, lose their frontends and get them back
        now = catalog(*(listing(name, frontends=count) for name, count in pools.items()))
        round_of = sum(count > 0 for count in pools.values())
        for each in (core, default):
            each.publish(now, 0.0)
        for _ in range(2):
            assert sorted(names(core, round_of)) == sorted(names(default, round_of))


def test_a_pool_that_loses_its_frontend_and_gets_it_back_is_one_worker_again() -> None:
    core = selector(SelectionCore(), *fleet("abc"))
    for items in ((*fleet("ac"), listing("b", frontends=0)), fleet("abc")):
        core.publish(catalog(*items), 0.0)
    assert [set(names(core, 3)) for _ in range(3)] == [set("abc")] * 3
