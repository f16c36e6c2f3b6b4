"""SliceCache: which Services an event or a relist changes, and endpoints that move between slices."""

from math import inf

import pytest

from gdsvc.backends.mcs.endpoints import ready_addresses
from gdsvc.backends.mcs.naming import Mode, Reason, ServiceKey
from gdsvc.backends.mcs.slices import HOLD_SECS, SliceCache
from gdsvc.kube.objects import EndpointSlice
from tests.unit.backends.mcs.slice_objects import (
    MANAGED_BY,
    MCS_CLUSTER,
    OWN,
    endpoint,
    holding,
    made,
    service_of,
    standard,
)

POOL, OTHER = service_of(), service_of("other-gw")
POD = "10.0.0.1"


def cache_of(*slices: EndpointSlice) -> SliceCache:
    cache = SliceCache(Mode.MCS)
    for each in slices:
        cache.apply(each, 0.0)
    return cache


def relist(cache: SliceCache, *slices: EndpointSlice) -> frozenset[ServiceKey]:
    cache.init()
    for each in slices:
        cache.init_apply(each)
    return cache.init_done()


def ready(cache: SliceCache, service: ServiceKey = POOL) -> tuple[str, ...]:
    return ready_addresses(cache.views(service))


# --------------------------------------------------------------------------------------------------- events


def test_an_event_touches_only_its_service() -> None:
    cache = cache_of(holding("a", POD), holding("b", "10.0.0.2", service="other-gw"))
    untouched = cache.services[OTHER]
    assert cache.apply(holding("a", POD, "10.0.0.3"), 1.0) == {POOL}
    assert cache.services[OTHER] is untouched
    assert ready(cache) == (POD, "10.0.0.3")


def test_an_event_that_says_nothing_new_touches_nothing() -> None:
    cache = cache_of(holding("a", POD))
    assert cache.apply(holding("a", POD), 1.0) == frozenset()


def test_a_slice_that_changes_its_service_touches_both() -> None:
    cache = cache_of(holding("a", POD))
    assert cache.apply(holding("a", POD, service="other-gw"), 1.0) == {POOL, OTHER}
    assert ready(cache, OTHER) == (POD,)


def test_a_slice_that_belongs_nowhere_any_more_leaves_its_service() -> None:
    cache = cache_of(holding("a", POD), holding("b", "10.0.0.2"))
    assert cache.apply(made("a"), 1.0) == {POOL}
    assert ready(cache) == ("10.0.0.2",)


def test_slices_of_one_name_in_two_namespaces_are_two() -> None:
    cache = cache_of(holding("a", POD), holding("a", "10.0.0.2", namespace="elsewhere"))
    assert cache.delete(holding("a", "10.0.0.2", namespace="elsewhere"), 1.0) == {
        ServiceKey("east", "elsewhere", "pool-gw")
    }
    assert ready(cache) == (POD,)


def test_deleting_what_was_never_there_touches_nothing() -> None:
    assert cache_of().delete(holding("a", POD), 0.0) == frozenset()


def test_a_service_is_forgotten_with_its_last_slice() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    cache.advance(HOLD_SECS)
    assert not cache.services
    assert cache.views(POOL) == ()


# --------------------------------------------------------------------------------------------------- moves


def test_an_endpoint_moved_add_first_is_always_ready_and_always_one() -> None:
    cache = cache_of(holding("a", POD), holding("b"))
    seen = [ready(cache)]
    for event in (holding("b", POD), holding("a")):
        cache.apply(event, 1.0)
        seen.append(ready(cache))
    assert seen == [(POD,)] * 3


def test_an_endpoint_moved_delete_first_is_always_ready_and_always_one() -> None:
    cache = cache_of(holding("a", POD), holding("b"))
    seen = [ready(cache)]
    for event in (holding("a"), holding("b", POD)):
        cache.apply(event, 1.0)
        seen.append(ready(cache))
    cache.advance(inf)
    assert [*seen, ready(cache)] == [(POD,)] * 4


def test_a_slice_that_is_replaced_by_another_does_not_lose_its_endpoint() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 1.0)
    assert ready(cache) == (POD,)
    cache.apply(holding("b", POD), 1.1)
    assert (ready(cache), cache.due_at > 1.1) == ((POD,), True)
    assert cache.advance(inf) == frozenset()
    assert ready(cache) == (POD,)


@pytest.mark.parametrize(("after", "there"), [(HOLD_SECS - 0.001, True), (HOLD_SECS, False)])
def test_the_last_endpoint_to_vanish_counts_until_the_hold_ends(after: float, there: bool) -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    assert cache.due_at == HOLD_SECS
    assert cache.advance(after) == (frozenset() if there else {POOL})
    assert ready(cache) == ((POD,) if there else ())


def test_a_hold_begins_anew_when_the_endpoint_was_back_meanwhile() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    cache.apply(holding("a", POD), 0.1)
    cache.delete(holding("a", POD), 0.2)
    assert cache.advance(HOLD_SECS) == frozenset()
    assert ready(cache) == (POD,)
    assert cache.advance(0.2 + HOLD_SECS) == {POOL}


def test_an_endpoint_that_was_not_ready_is_not_held() -> None:
    cache = cache_of(standard("a", endpoints=[endpoint(POD), endpoint("10.0.0.2", ready=False)]))
    cache.delete(standard("a"), 1.0)
    assert [target.addresses for view in cache.views(POOL) for target in view.targets] == [(POD,)]


@pytest.mark.parametrize(("ready_says", "terminating"), [(False, None), (None, True), (True, True)])
def test_an_endpoint_that_is_said_not_to_be_ready_is_gone_at_once(
    ready_says: bool | None, terminating: bool | None
) -> None:
    cache = cache_of(holding("a", POD))
    cache.apply(standard("a", endpoints=[endpoint(POD, ready=ready_says, terminating=terminating)]), 1.0)
    assert ready(cache) == ()


def test_what_another_slice_says_of_the_last_endpoint_counts_at_once() -> None:
    cache = cache_of(holding("a", POD), standard("b", endpoints=[endpoint(POD, ready=False)]))
    assert ready(cache) == (POD,)
    cache.delete(holding("a", POD), 1.0)
    assert ready(cache) == ()


def test_a_held_endpoint_that_comes_back_not_ready_is_gone_and_stays_gone() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    cache.apply(standard("b", endpoints=[endpoint(POD, ready=False)]), 0.1)
    assert ready(cache) == ()
    cache.delete(standard("b"), 0.2)
    assert ready(cache) == ()


def test_an_endpoint_is_not_held_while_others_are_ready() -> None:
    cache = cache_of(holding("a", POD), holding("b", "10.0.0.2"))
    cache.delete(holding("a", POD), 1.0)
    assert ready(cache) == ("10.0.0.2",)


def test_a_new_address_under_the_same_name_replaces_the_old_one_at_once() -> None:
    cache = cache_of(holding("a", POD))
    cache.apply(holding("a", "10.0.0.2"), 1.0)
    assert ready(cache) == ("10.0.0.2",)


def test_a_hold_ends_when_another_endpoint_becomes_ready() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    cache.apply(holding("b", "10.0.0.2"), 0.1)
    assert ready(cache) == ("10.0.0.2",)
    cache.apply(standard("b", endpoints=[endpoint("10.0.0.2", ready=False)]), 0.2)
    assert ready(cache) == ()


def test_a_cache_that_holds_nothing_lets_go_at_once() -> None:
    cache = SliceCache(Mode.MCS, hold_secs=0.0)
    cache.apply(holding("a", POD), 0.0)
    cache.delete(holding("a", POD), 1.0)
    assert (ready(cache), cache.due_at) == ((), inf)


# -------------------------------------------------------------------------------------------------- relists


def test_a_relist_swaps_whole_and_tells_which_services_changed() -> None:
    gone, same, new = service_of("gone-gw"), service_of("same-gw"), service_of("new-gw")
    cache = cache_of(
        holding("a", POD), holding("g", "10.0.0.2", service="gone-gw"), holding("s", "10.0.0.3", service="same-gw")
    )
    kept = cache.services[same]["s"]
    listed = [holding("a", "10.0.0.9"), holding("s", "10.0.0.3", service="same-gw")]
    listed.append(holding("n", "10.0.0.4", service="new-gw"))
    assert relist(cache, *listed) == {POOL, gone, new}
    now_ready = [("10.0.0.9",), (), ("10.0.0.3",), ("10.0.0.4",)]
    assert [ready(cache, service) for service in (POOL, gone, same, new)] == now_ready
    assert cache.services[same]["s"] is kept


def test_a_half_read_relist_is_never_visible() -> None:
    cache = cache_of(holding("a", POD))
    cache.init()
    cache.init_apply(holding("b", "10.0.0.2"))
    assert ready(cache) == (POD,)
    cache.init()
    assert cache.init_done() == {POOL}
    assert ready(cache) == ()


def test_a_relist_that_finds_the_same_changes_nothing() -> None:
    slices = (holding("a", POD), holding("b", "10.0.0.2", service="other-gw"))
    assert relist(cache_of(*slices), *slices) == frozenset()


def test_a_slice_that_left_while_the_list_was_read_is_not_in_it() -> None:
    cache = cache_of(holding("a", POD))
    cache.init()
    cache.init_apply(holding("a", POD))
    cache.init_delete(holding("a", POD))
    cache.init_delete(holding("never", POD))
    assert cache.init_done() == {POOL}
    assert ready(cache) == ()


def test_a_slice_that_left_and_came_back_while_the_list_was_read_is_in_it() -> None:
    cache = cache_of(holding("a", POD))
    cache.init()
    for event in (cache.init_apply, cache.init_delete, cache.init_apply):
        event(holding("a", POD))
    assert cache.init_done() == frozenset()
    assert ready(cache) == (POD,)


def test_a_change_while_the_list_was_read_is_undone_by_the_list_and_told() -> None:
    cache = cache_of(holding("a", POD))
    cache.init()
    cache.init_apply(holding("a", POD))
    cache.apply(holding("a", "10.0.0.2"), 1.0)
    assert cache.init_done() == {POOL}
    assert ready(cache) == (POD,)


def test_a_relist_holds_nothing() -> None:
    cache = cache_of(holding("a", POD))
    assert relist(cache) == {POOL}
    assert (ready(cache), cache.due_at) == ((), inf)


def test_a_relist_ends_what_was_held() -> None:
    cache = cache_of(holding("a", POD))
    cache.delete(holding("a", POD), 0.0)
    assert relist(cache) == {POOL}
    assert (ready(cache), cache.due_at) == ((), inf)


# -------------------------------------------------------------------------------------------------- remarks


def test_what_is_skipped_is_counted_by_its_reason() -> None:
    cache = cache_of(made("a"), made("b"), made("c", labels={MCS_CLUSTER: "east"}), holding("d", POD))
    assert cache.skipped == {Reason.OTHER_STYLE: 2, Reason.NO_SERVICE_NAME: 1}
    cache.delete(made("a"), 0.0)
    cache.apply(holding("b", POD), 0.0)
    assert cache.skipped == {Reason.NO_SERVICE_NAME: 1}
    relist(cache)
    assert cache.skipped == {}


def test_a_controller_whose_slices_cannot_be_read_is_remarked_on_once() -> None:
    cache = cache_of(*(made(name, labels={MCS_CLUSTER: name}) for name in "abc"))
    (remark,) = cache.take_remarks()
    assert str(remark) == (
        "EndpointSlice relay/a (no controller named): it names a source cluster but no Service of it, "
        "as global services do; export the Service"
    )
    relist(cache, made("d", labels={MCS_CLUSTER: "d"}))
    assert cache.take_remarks() == []


def test_slices_that_are_rightly_skipped_are_not_worth_a_word() -> None:
    cache = cache_of(made("a"), made("b", labels={MANAGED_BY: OWN}))
    assert cache.take_remarks() == []


def test_each_service_with_a_service_ip_is_remarked_on_once() -> None:
    cache = cache_of(
        *(
            holding(f"{service}-{number}", "100.64.0.1", service=service, manager="lighthouse-agent.submariner.io")
            for service in ("a-gw", "b-gw")
            for number in (1, 2)
        )
    )
    assert [(remark.reason, remark.subject) for remark in cache.take_remarks()] == [
        (Reason.SERVICE_IP, "east/relay/a-gw"),
        (Reason.SERVICE_IP, "east/relay/b-gw"),
    ]
