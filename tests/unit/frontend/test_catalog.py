"""What events make of a catalog, and sets that a change leaves alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.frontend.catalog import EVERY_MODEL, NOTHING_YET, Catalog, Pool, after, pool_of, static
from gdsvc.model import PoolCapacity, PoolKey, PoolListing, PoolLocation
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted

EXACT, ESTIMATED = Completeness.EXACT, Completeness.ESTIMATED
URLS = ("http://10.0.0.1:8000",)


def key(name: str) -> PoolKey:
    return PoolKey("ohio", "dynamo", name)


def listing(name: str, model: str | None = "m", frontends: tuple[str, ...] = URLS) -> PoolListing:
    return PoolListing(key(name), f"id-{name}", model=model, frontends=frontends)


def listed(completeness: Completeness, *items: PoolListing) -> Resync[PoolListing]:
    return Resync(Snapshot(items, completeness, 1))


def made(*events: Event[PoolListing, PoolKey]) -> Catalog:
    return after(NOTHING_YET, events)


def names(catalog: Catalog, model: str = "m") -> list[str]:
    return [pool.id.removeprefix("id-") for pool in catalog.sets.get(model, ())]


def test_before_the_first_list_nothing_is_known() -> None:
    assert (NOTHING_YET.known, NOTHING_YET.complete, NOTHING_YET.selectable) == (False, False, False)
    assert made() is NOTHING_YET


def test_a_pool_keeps_what_selection_needs_of_its_listing() -> None:
    whole = PoolListing(
        key("a"),
        "id-a",
        PoolLocation("us-east-2"),
        "m",
        ("http://a", "http://b", "http://a"),
        PoolCapacity(max_concurrency=7),
    )
    assert pool_of(whole) == Pool("id-a", ("http://a", "http://b"), key("a"), "m", "us-east-2", 7)
    assert pool_of(PoolListing(key("a"), "id-a")) == Pool("id-a", (), key("a"))


def test_a_frontend_without_a_bare_base_url_is_not_used_and_its_pool_is_named_while_it_lists_it() -> None:
    """Services other than ours, and slices, may list whatever they like."""
    bad = listing("a", frontends=("http://a/v1", "ftp://a", "http://u:p@a", *URLS))
    catalog = made(listed(EXACT, bad, listing("b")))
    assert (catalog.pools["id-a"].frontends, catalog.unusable) == (URLS, frozenset({"id-a"}))
    assert after(catalog, [Upserted(listing("b", "n"))]).unusable == {"id-a"}
    assert after(catalog, [Upserted(listing("a"))]).unusable == set()
    assert after(catalog, [Removed(key("a"))]).unusable == set()
    assert not made(listed(EXACT, listing("a", frontends=("a:8000",)))).selectable


def test_pools_are_found_by_the_model_they_serve() -> None:
    catalog = made(listed(EXACT, listing("a"), listing("b", "n"), listing("c"), listing("d", None)))
    assert (names(catalog, "m"), names(catalog, "n")) == (["a", "c"], ["b"])
    assert catalog.models() == ("m", "n")
    assert set(catalog.sets) == {"m", "n"}
    assert set(catalog.pools) == {"id-a", "id-b", "id-c", "id-d"}


def test_a_model_whose_pools_have_no_frontend_is_served_but_not_selectable() -> None:
    catalog = made(listed(EXACT, listing("a", frontends=())))
    assert (set(catalog.sets), catalog.selectable) == ({"m"}, False)
    assert after(catalog, [Upserted(listing("a"))]).selectable


@pytest.mark.parametrize("completeness", Completeness)
def test_a_list_replaces_everything(completeness: Completeness) -> None:
    catalog = made(listed(EXACT, listing("a"), listing("b")), listed(completeness, listing("b", None)))
    assert (set(catalog.pools), set(catalog.sets)) == ({"id-b"}, set())
    assert catalog.complete == (completeness is EXACT)


@pytest.mark.parametrize("completeness", Completeness)
def test_a_removal_takes_a_pool_out_whatever_the_list_was(completeness: Completeness) -> None:
    catalog = made(listed(completeness, listing("a"), listing("b")), Removed(key("a")), Removed(key("never")))
    assert (set(catalog.pools), names(catalog)) == ({"id-b"}, ["b"])


def test_a_pool_can_be_removed_in_the_batch_that_brought_it() -> None:
    catalog = made(listed(EXACT), Removed(key("x")), Upserted(listing("a")), Removed(key("a")), Upserted(listing("b")))
    assert names(catalog) == ["b"]


def test_a_change_leaves_the_other_sets_and_pools_the_same_objects() -> None:
    before = made(listed(EXACT, listing("a"), listing("b", "n"), listing("c")))
    now = after(before, [Upserted(listing("a", frontends=("http://10.0.0.9",)))])
    assert now.sets["n"] is before.sets["n"]
    assert now.sets["m"][1] is before.sets["m"][1]
    assert names(now) == ["a", "c"]
    assert before.sets["m"][0].frontends == URLS


def test_what_changes_nothing_gives_the_same_catalog() -> None:
    before = made(listed(EXACT, listing("a"), listing("b", "n")))
    events: list[Event[PoolListing, PoolKey]] = [
        listed(EXACT, listing("b", "n"), listing("a")),
        Upserted(listing("a")),
        Removed(key("x")),
    ]
    assert after(before, events) is before
    assert after(before, [Upserted(listing("z")), Removed(key("z"))]) is before


def test_a_change_of_completeness_alone_is_another_catalog_with_the_same_sets() -> None:
    before = made(listed(EXACT, listing("a")))
    now = after(before, [listed(ESTIMATED, listing("a"))])
    assert (now.complete, now.sets["m"] is before.sets["m"]) == (False, True)


def test_a_pool_that_moves_to_another_model_leaves_its_set() -> None:
    catalog = made(listed(EXACT, listing("a"), listing("b")), Upserted(listing("a", "n")))
    assert (names(catalog, "m"), names(catalog, "n")) == (["b"], ["a"])
    assert "m" not in after(catalog, [Removed(key("b"))]).sets


def test_static_pools_serve_every_model_and_are_complete() -> None:
    catalog = static([("east", ("http://a", "http://b")), ("west", ())])
    assert (set(catalog.sets), catalog.serves_every_model) == ({EVERY_MODEL}, True)
    assert [pool.id for pool in catalog.sets[""]] == ["east", "west"]
    assert (catalog.complete, catalog.known, catalog.selectable, catalog.models()) == (True, True, True, ())


def test_no_static_pool_serves_no_model() -> None:
    assert (set(static([]).sets), static([]).selectable) == (set(), False)


LISTINGS = st.builds(
    listing,
    st.sampled_from("abcd"),
    st.sampled_from(["m", "n", None]),
    st.sampled_from([(), URLS, ("http://10.0.0.2",)]),
)
EVENTS = st.one_of(
    LISTINGS.map(Upserted),
    st.sampled_from("abcd").map(lambda name: Removed(key(name))),
    st.builds(
        lambda items, completeness: listed(completeness, *items),
        st.lists(LISTINGS, unique_by=lambda item: item.id, max_size=4),
        st.sampled_from(Completeness),
    ),
)


@settings(max_examples=50)
@given(st.lists(st.lists(EVENTS, max_size=4), max_size=6))
def test_catalogs_agree_with_a_dict_that_is_filled_event_by_event(
    batches: list[list[Event[PoolListing, PoolKey]]],
) -> None:
    catalog, pools, complete = NOTHING_YET, dict[PoolKey, Pool](), False
    for events in batches:
        catalog = after(catalog, events)
        for event in events:
            match event:
                case Removed(gone):
                    pools.pop(gone, None)
                case Upserted(item):
                    pools[item.key] = pool_of(item)
                case Resync(snapshot):
                    complete = snapshot.completeness is EXACT
                    pools = {item.key: pool_of(item) for item in snapshot.items}
        assert {pool.key: pool for pool in catalog.pools.values()} == pools
        assert catalog.complete == complete
        by_model = {m: {p.id for p in pools.values() if p.model == m} for m in "mn"}
        assert {m: {p.id for p in s} for m, s in catalog.sets.items()} == {m: s for m, s in by_model.items() if s}
        assert all(catalog.pools[pool.id] == pool for pools_of in catalog.sets.values() for pool in pools_of)
