"""Slices and registrations joined: who decides what, and how long facts live."""

import pytest

from gdsvc.backends.mcs.join import Join, completeness
from gdsvc.backends.mcs.pools import ImportedPool
from gdsvc.model import (
    PoolCapacity,
    PoolKey,
    PoolListing,
    PoolLocation,
    PoolRegistration,
    decode_registration,
    encode_listing,
    listing_of,
    pool_id,
)
from gdsvc.pool_discovery.watch import Completeness

KEY = PoolKey("east", "relay", "pool")
POOL = ImportedPool(KEY, ("10.0.0.1",), ("http://10.0.1.1:8000",))
RELAYS_ALONE = ImportedPool(KEY, ("10.0.0.1",))
OHIO = PoolLocation("us-east-2", "us-east-2a")
REGISTRATION = PoolRegistration(KEY, OHIO, "m", ("http://registered",), PoolCapacity(live_workers=3), ("x", "y"))
BARE = PoolListing(KEY, pool_id(KEY), frontends=POOL.frontends, relay_identities=POOL.relay_identities)
JOINED = PoolListing(KEY, pool_id(KEY), OHIO, "m", POOL.frontends, REGISTRATION.capacity, ("x", "y"), ("10.0.0.1",))


def joined() -> Join:
    join = Join()
    join.imported(KEY, POOL)
    join.registered(REGISTRATION)
    return join


# --------------------------------------------------------------------------------------------- who decides


def test_a_registration_without_slices_is_not_listed() -> None:
    join = Join()
    assert join.registered(REGISTRATION) is None
    assert join.keys() == []


def test_slices_without_a_registration_are_listed_with_nulls() -> None:
    assert Join().imported(KEY, POOL) == BARE


def test_the_order_in_which_slices_and_registration_come_does_not_matter() -> None:
    join = Join()
    join.registered(REGISTRATION)
    assert join.imported(KEY, POOL) == joined().listing(KEY) == JOINED


def test_frontends_of_the_slices_win_and_the_registrations_are_the_fallback() -> None:
    join = joined()
    without = join.imported(KEY, RELAYS_ALONE)
    assert without is not None
    assert without.frontends == ("http://registered",)
    assert join.imported(KEY, POOL) == JOINED


def test_members_that_we_do_not_know_are_joined_too() -> None:
    join = Join()
    join.imported(KEY, POOL)
    key = '{"site_id": "east", "namespace": "relay", "dgd_name": "pool"}'
    listing = join.registered(decode_registration(f'{{"key": {key}, "tomorrow": 1}}'.encode()))
    assert listing is not None
    assert encode_listing(listing).endswith(b',"relay_identities":["10.0.0.1"],"tomorrow":1}')


def test_a_registration_adds_facts_to_its_own_key_alone() -> None:
    join = joined()
    elsewhere = PoolKey("west", "relay", "pool")
    assert join.imported(elsewhere, ImportedPool(elsewhere, ("10.1.0.1",))) == PoolListing(
        elsewhere, pool_id(elsewhere), relay_identities=("10.1.0.1",)
    )


def test_a_stores_listing_is_as_good_as_the_registration() -> None:
    join = Join()
    join.imported(KEY, POOL)
    assert join.registered(listing_of(REGISTRATION)) == JOINED


def test_a_clusters_location_is_for_pools_whose_registration_has_none() -> None:
    oregon = PoolLocation("us-west-2", cluster="east")
    join = Join({"east": oregon})
    bare = join.imported(KEY, POOL)
    assert bare is not None
    assert bare.location == oregon
    assert join.registered(REGISTRATION) == JOINED


# ------------------------------------------------------------------------------------- how long facts live


def test_facts_outlive_their_lease_while_slices_keep_the_pool_live() -> None:
    join = joined()
    assert join.lapsed(KEY) == JOINED
    assert join.imported(KEY, RELAYS_ALONE) is not None
    assert join.imported(KEY, POOL) == JOINED


def test_facts_that_outlived_their_lease_leave_with_the_slices() -> None:
    join = joined()
    join.lapsed(KEY)
    assert join.imported(KEY, None) is None
    assert join.imported(KEY, POOL) == BARE


def test_facts_live_as_long_as_their_lease_without_slices() -> None:
    join = joined()
    join.imported(KEY, None)
    assert join.imported(KEY, POOL) == JOINED
    join.imported(KEY, None)
    assert join.lapsed(KEY) is None
    assert join.imported(KEY, POOL) == BARE


def test_a_newer_registration_replaces_the_facts_whole() -> None:
    for join in (joined(), joined()):
        newer = join.registered(PoolRegistration(KEY, model="n"))
        assert newer is not None
        assert (newer.model, newer.location, newer.capacity, newer.capabilities) == ("n", None, None, ())


def test_a_registration_after_the_lapse_has_a_lease_again() -> None:
    join = joined()
    join.lapsed(KEY)
    join.registered(REGISTRATION)
    join.imported(KEY, None)
    assert join.imported(KEY, POOL) == JOINED


@pytest.mark.parametrize("lapsed", [False, True])
def test_deregistering_drops_the_facts_and_not_the_pool(lapsed: bool) -> None:
    join = joined()
    if lapsed:
        join.lapsed(KEY)
    assert join.deregistered(KEY)
    assert join.listing(KEY) == BARE
    assert not join.deregistered(KEY)


def test_a_lapse_of_what_never_registered_changes_nothing() -> None:
    join = Join()
    assert join.lapsed(KEY) is None
    join.imported(KEY, POOL)
    assert join.lapsed(KEY) == join.lapsed(KEY) == BARE


def test_a_whole_list_of_registrations_says_whose_facts_changed() -> None:
    dead, other, new = (PoolKey("east", "relay", name) for name in ("dead", "other", "new"))
    join = joined()
    for key in (dead, other):
        join.registered(PoolRegistration(key, model="m"))
    listed = [PoolRegistration(other, model="n"), PoolRegistration(new), REGISTRATION]
    assert join.relisted(listed) == {dead, other, new}
    assert join.listing(KEY) == JOINED
    assert join.relisted([]) == {other, new}  # the slices keep the facts of the pool that is live
    assert join.listing(KEY) == JOINED


# -------------------------------------------------------------------------------------------- what is said


def test_the_reason_tells_the_two_sides_apart() -> None:
    join = Join()
    reasons = [join.reason(KEY)]
    join.registered(REGISTRATION)
    reasons.append(join.reason(KEY))
    join.imported(KEY, POOL)
    reasons.append(join.reason(KEY))
    join.lapsed(KEY)
    reasons.append(join.reason(KEY))
    join.deregistered(KEY)
    join.imported(KEY, ImportedPool(KEY, ("10.0.0.1", "10.0.0.2")))
    assert [*reasons, join.reason(KEY)] == [
        None,
        "not listed: it is registered, but no imported slice has a Ready PoolRelay",
        "listed: imported slices have 1 Ready PoolRelay address, and its registration adds model, capacity and "
        "location",
        "listed: imported slices have 1 Ready PoolRelay address; its registration has lapsed, but what it said holds "
        "while they do",
        "listed: imported slices have 2 Ready PoolRelay addresses; no registration of it holds",
    ]


E, G = Completeness.EXACT, Completeness.ESTIMATED


@pytest.mark.parametrize(
    ("slices", "registrations", "both"), [(E, E, E), (E, G, G), (G, E, G), (G, G, G), (E, None, E), (G, None, G)]
)
def test_the_joined_list_is_exact_where_both_sides_are(
    slices: Completeness, registrations: Completeness | None, both: Completeness
) -> None:
    assert completeness(slices, registrations) is both
