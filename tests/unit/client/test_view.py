"""What a follower holds: complete lists replace, incomplete ones add and update, and watchers hear the difference."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import pytest
from msgspec import UNSET

from gdsvc.client.kinds import POOLS, ROUTERS
from gdsvc.client.view import View
from gdsvc.model import PoolCapacity, PoolKey, PoolListing, PoolLocation, PoolRegistration, RouterReplica, listing_of
from gdsvc.pool_discovery.fanout import CAPACITY, Lagged, Subscription
from gdsvc.pool_discovery.watch import Completeness, Removed, Upserted

Item = TypeVar("Item")
Key = TypeVar("Key")
Told = Upserted[PoolListing] | Removed[PoolKey] | Lagged


def pool(name: str, model: str | None = "m", **members: object) -> PoolListing:
    return listing_of(PoolRegistration(PoolKey("s", "n", name), PoolLocation("eu"), model, ("http://a",), **members))  # type: ignore[arg-type]


def bare(name: str) -> PoolListing:
    """A pool of which only its key is known."""
    return listing_of(PoolRegistration(PoolKey("s", "n", name)))


def synced(*items: PoolListing, complete: bool = True) -> View[PoolListing, PoolKey]:
    view = View(POOLS)
    take(view, items, complete=complete)
    return view


def take(view: View[Item, Key], items: Iterable[Item], *, complete: bool = True) -> bool:
    """Takes in a whole list; whether the view moved."""
    return view.replace(view.difference(items, complete=complete))


def shown(view: View[PoolListing, PoolKey]) -> list[PoolListing]:
    return list(view.snapshot().items)


async def read(subscription: Subscription[Upserted[PoolListing] | Removed[PoolKey]]) -> list[Told]:
    """All that waits to be read."""
    told: list[Told] = []
    while True:
        try:
            async with asyncio.timeout(0):
                told.append(await subscription.next())
        except TimeoutError:
            return told


# ------------------------------------------------------------------------------------------------ lists


def test_members_are_shown_in_key_order() -> None:
    names = ["b", "a", "é", "a!", "z"]
    assert [item.key.dgd_name for item in shown(synced(*map(pool, names)))] == sorted(names)


def test_a_complete_list_replaces_the_one_before() -> None:
    view = synced(pool("a"), pool("b"))
    assert take(view, [pool("b", "new"), pool("c")], complete=True)
    assert shown(view) == [pool("b", "new"), pool("c")]
    assert view.completeness is Completeness.EXACT


def test_a_complete_list_takes_facts_away() -> None:
    view = synced(pool("a"))
    take(view, [bare("a")], complete=True)
    assert shown(view) == [bare("a")]


def test_an_incomplete_list_removes_nobody() -> None:
    view = synced(pool("a"), pool("b"))
    assert take(view, [pool("c")], complete=False)
    assert shown(view) == [pool("a"), pool("b"), pool("c")]
    assert view.completeness is Completeness.ESTIMATED


def test_an_incomplete_list_updates() -> None:
    view = synced(pool("a"))
    take(view, [pool("a", "new")], complete=False)
    assert shown(view) == [pool("a", "new")]


FACTS = {
    "location": PoolLocation("eu"),
    "model": "m",
    "frontends": ("http://a",),
    "capacity": PoolCapacity(live_workers=3),
    "capabilities": ("chat",),
    "relay_identities": ("10.0.0.1",),
    "extra": {"rack": 7},
}


@pytest.mark.parametrize("name", FACTS)
def test_no_known_fact_is_replaced_by_nothing_in_an_incomplete_list(name: str) -> None:
    known = PoolListing(bare("a").key, bare("a").id, **{name: FACTS[name]})  # type: ignore[arg-type]
    view = synced(known)
    take(view, [bare("a")], complete=False)
    assert shown(view) == [known]
    assert not view.upsert(bare("a"), 0)
    assert shown(view) == [known]


def test_every_member_but_key_and_id_is_a_fact() -> None:
    assert set(FACTS) == set(PoolListing.__struct_fields__) - {"key", "id"}
    assert bare("a").extra is UNSET


def test_a_location_that_is_told_is_taken_as_a_whole() -> None:
    view = synced(PoolListing(bare("a").key, bare("a").id, PoolLocation("eu", "eu-1")))
    take(view, [PoolListing(bare("a").key, bare("a").id, PoolLocation("us"))], complete=False)
    assert shown(view)[0].location == PoolLocation("us")


def test_the_list_that_completes_says_the_last_word() -> None:
    view = synced(pool("a"), pool("b"))
    take(view, [bare("a")], complete=False)
    take(view, [bare("a")], complete=True)
    assert shown(view) == [bare("a")]


# ------------------------------------------------------------------------------------------------ single changes


def test_an_upsert_adds_and_replaces() -> None:
    view = synced(pool("a"))
    assert view.upsert(pool("b"), 0)
    assert view.upsert(bare("a"), 0)
    assert shown(view) == [bare("a"), pool("b")]


def test_a_removal_counts_where_the_view_is_incomplete_too() -> None:
    view = synced(pool("a"), pool("b"), complete=False)
    assert view.remove(pool("a").key)
    assert shown(view) == [pool("b")]


def test_what_says_nothing_new_moves_nothing() -> None:
    view = synced(pool("a"))
    before = view.snapshot()
    assert not view.upsert(pool("a"), 0)
    assert not view.remove(pool("x").key)
    assert not take(view, [pool("a")], complete=True)
    assert not view.vouched(fresh=True)
    assert view.snapshot() is before


# ------------------------------------------------------------------------------------------------ watchers


async def test_watchers_hear_only_the_difference_between_two_lists() -> None:
    view = synced(pool("a"), pool("b"), pool("c"))
    subscription = view.fanout.subscribe()
    take(view, [pool("b"), pool("c", "new"), pool("d")], complete=True)
    assert await read(subscription) == [Removed(pool("a").key), Upserted(pool("c", "new")), Upserted(pool("d"))]


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
async def test_a_change_of_completeness_is_a_resync_and_nothing_else(before: bool, after: bool) -> None:
    view = synced(pool("a"), complete=before)
    subscription = view.fanout.subscribe()
    take(view, [pool("a"), pool("b")], complete=after)
    (told,) = await read(subscription)
    assert isinstance(told, Lagged)
    assert shown(view) == [pool("a"), pool("b")]


async def test_the_first_list_is_a_resync_though_it_is_empty_and_incomplete() -> None:
    view = View(POOLS)
    subscription = view.fanout.subscribe()
    assert take(view, [], complete=False)
    (told,) = await read(subscription)
    assert isinstance(told, Lagged)


@pytest.mark.parametrize(("changes", "resync"), [(CAPACITY, False), (CAPACITY + 1, True)])
async def test_more_changes_than_a_watcher_may_be_behind_are_one_resync(changes: int, resync: bool) -> None:
    view = synced(pool("a"))
    subscription = view.fanout.subscribe()
    take(view, [pool("a"), *(pool(f"b{number}") for number in range(changes))])
    told = await read(subscription)
    assert len(told) == (1 if resync else changes)
    assert isinstance(told[0], Lagged) is resync


async def test_out_of_reach_for_too_long_is_estimated_and_nobody_is_lost() -> None:
    view = synced(pool("a"))
    subscription = view.fanout.subscribe()
    assert view.vouched(fresh=False)
    assert not view.vouched(fresh=False)
    assert (shown(view), view.completeness) == ([pool("a")], Completeness.ESTIMATED)
    assert view.vouched(fresh=True)
    assert view.completeness is Completeness.EXACT
    assert len(await read(subscription)) == 1, "a subscriber who lagged twice starts once from the newest view"


def test_a_service_that_was_never_complete_is_not_made_so_by_its_word() -> None:
    view = synced(pool("a"), complete=False)
    view.vouched(fresh=False)
    view.vouched(fresh=True)
    assert view.completeness is Completeness.ESTIMATED


def test_each_change_is_a_later_revision() -> None:
    view = synced()
    revisions = [view.snapshot().revision]
    view.upsert(pool("a"), 0)
    revisions.append(view.snapshot().revision)
    view.remove(pool("a").key)
    revisions.append(view.snapshot().revision)
    for names, complete in (["b"], True), ([], False), ([], True):
        take(view, map(pool, names), complete=complete)
        revisions.append(view.snapshot().revision)
    assert revisions == sorted(set(revisions))


def test_replicas_are_held_by_id() -> None:
    view = View(ROUTERS)
    take(view, [RouterReplica("b", "http://b"), RouterReplica("a", "http://a")], complete=False)
    take(view, [RouterReplica("a", "http://new")], complete=False)
    assert list(view.snapshot().items) == [RouterReplica("a", "http://new"), RouterReplica("b", "http://b")]
