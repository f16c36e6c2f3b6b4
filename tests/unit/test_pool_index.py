"""PoolIndex: order, leases, revision, the fast path and what it forgets; `now` is a number."""

import math
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc._list_parts import ListParts
from gdsvc._pool_index import CHANGED, NEW, UNCHANGED, PoolIndex

TTL = 15.0


def gone(index: PoolIndex, now: float, limit: int) -> list[bytes]:
    """The keys of what expires."""
    return [listed.item for listed in index.expire(now, limit)]


def key(site: str, name: str = "p") -> bytes:
    return f"{site}\0default\0{name}".encode()


def filled(*sites: str) -> PoolIndex:
    """One listing for each site, encoded as the site's name, registered at 0 with a body of the same name."""
    index = PoolIndex(7)
    for site in sites:
        index.put(key(site), site.encode())
        index.beat(key(site), b"body " + site.encode(), 0.0, TTL, fresh=True)
    return index


def listed(index: PoolIndex) -> list[bytes]:
    return index.listings()


def pieces(parts: ListParts) -> list[bytes]:
    """What was joined, of encodings without a comma in them."""
    joined = parts.join(b"", b"")
    return joined.split(b",") if joined else []


# ----------------------------------------------------------------------------------------------------- listings


def test_an_empty_index_lists_nothing_and_awaits_nothing() -> None:
    index = PoolIndex(0)
    assert (len(index), index.revision, index.encodings, index.next_deadline) == (0, 0, 0, math.inf)
    assert listed(index) == []
    assert index.parts().join(b"[", b"]") == b"[]"
    assert gone(index, 1e9, 10) == []


def test_the_list_is_in_key_order_whatever_the_order_of_arrival() -> None:
    index = filled("c", "a")
    assert listed(index) == [b"a", b"c"]
    index.put(key("b"), b"b")
    index.put(key("d"), b"d")
    assert listed(index) == [b"a", b"b", b"c", b"d"]


def test_a_shorter_name_sorts_before_every_longer_one_that_starts_with_it() -> None:
    index = filled("a ", "a", "a!", "ab")
    assert listed(index) == [b"a", b"a ", b"a!", b"ab"]


def test_put_tells_new_from_changed_from_unchanged() -> None:
    index = PoolIndex(0)
    assert index.put(b"k", b"1") == NEW
    assert index.put(b"k", b"1") == UNCHANGED
    assert index.put(b"k", b"2") == CHANGED
    assert index.put(b"k", b"1") == CHANGED
    assert index.encoding(b"k") == b"1"
    assert index.encoding(b"other") is None
    assert (b"k" in index, b"other" in index) == (True, False)


def test_the_revision_grows_by_one_for_each_visible_change_and_by_nothing_else() -> None:
    index = filled("a", "b")
    assert (index.revision, index.encodings) == (2, 2)
    index.put(key("a"), b"a")
    index.beat(key("a"), None, 1.0, TTL, fresh=False)
    index.renew(b"body a", 1.0, TTL)
    listed(index)
    index.remove(b"unknown")
    index.expire(14.0, 10)
    assert (index.revision, index.encodings) == (2, 2)
    index.put(key("a"), b"A")
    assert (index.revision, index.encodings) == (3, 3)
    index.remove(key("a"))
    index.expire(15.0, 10)
    index.bump()
    assert (index.revision, index.encodings) == (6, 3)


def test_what_left_and_came_back_is_listed_once() -> None:
    index = filled("a", "b", "c")
    listed(index)
    index.remove(key("b"))
    index.put(key("b"), b"B")
    assert listed(index) == [b"a", b"B", b"c"]
    index.remove(key("b"))
    assert listed(index) == [b"a", b"c"]
    assert len(index) == 2


def test_what_came_and_left_between_two_lists_is_never_listed() -> None:
    index = filled("a")
    listed(index)
    index.put(key("b"), b"b")
    index.remove(key("b"))
    assert listed(index) == [b"a"]


def test_a_list_taken_earlier_does_not_change() -> None:
    index = filled("a", "b")
    parts = index.parts()
    index.put(key("a"), b"A")
    index.remove(key("b"))
    index.put(key("c"), b"c")
    assert (parts.revision, parts.join(b"", b"")) == (2, b"a,b")


def test_the_last_none_of_many_that_expire_is_still_listed() -> None:
    index = filled(*map(str, range(100)))
    index.renew(b"body 42", 1.0, TTL)
    assert len(index.expire(15.0, 1000)) == 99
    assert listed(index) == [b"42"]


# -------------------------------------------------------------------------------------------------------- leases


def test_a_lease_ends_at_its_deadline_and_not_before() -> None:
    index = filled("a")
    assert index.next_deadline == 15.0
    assert gone(index, math.nextafter(15.0, 0), 10) == []
    assert gone(index, 15.0, 10) == [key("a")]
    assert (len(index), index.expired, index.next_deadline) == (0, 1, math.inf)


def test_a_renewal_moves_the_deadline() -> None:
    index = filled("a")
    assert index.renew(b"body a", 10.0, TTL)
    assert index.deadline(key("a")) == 25.0
    assert gone(index, 24.999, 10) == []
    assert gone(index, 25.0, 10) == [key("a")]


def test_leases_end_in_the_order_of_their_deadlines_and_at_most_so_many_at_once() -> None:
    index = PoolIndex(0)
    for site, now in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 9.0)):
        index.put(key(site), b"x")
        index.beat(key(site), None, now, TTL, fresh=True)
    assert gone(index, 20.0, 2) == [key("b"), key("c")]
    assert gone(index, 20.0, 2) == [key("a")]
    assert index.expired == 3
    assert listed(index) == [b"x"]


def test_what_has_no_lease_stays() -> None:
    index = PoolIndex(0)
    index.put(b"router", b"x")
    assert index.deadline(b"router") == math.inf
    assert gone(index, 1e12, 10) == []
    assert index.remove(b"router")


def test_a_removed_listing_has_no_lease_left() -> None:
    index = filled("a")
    assert index.remove(key("a"))
    assert not index.remove(key("a"))
    assert index.next_deadline == math.inf
    assert gone(index, 100.0, 10) == []
    assert index.expired == 0


def test_a_lease_cannot_be_held_on_what_is_not_listed() -> None:
    index = PoolIndex(0)
    with pytest.raises(KeyError):
        index.beat(b"k", None, 0.0, TTL, fresh=True)
    with pytest.raises(KeyError):
        index.deadline(b"k")


# ----------------------------------------------------------------------------------------------------- fast path


def test_only_the_bytes_that_were_registered_last_take_the_fast_path() -> None:
    index = filled("a")
    assert index.renew(b"body a", 1.0, TTL)
    assert not index.renew(b"body a ", 1.0, TTL)
    assert not index.renew(b"", 1.0, TTL)
    assert index.renewed == 1


def test_two_spellings_of_one_payload_both_take_the_fast_path_and_a_third_pushes_the_oldest_out() -> None:
    index = filled("a")
    index.beat(key("a"), b"second", 1.0, TTL, fresh=False)
    assert index.renew(b"body a", 2.0, TTL)
    assert index.renew(b"second", 3.0, TTL)
    index.beat(key("a"), b"third", 4.0, TTL, fresh=False)
    assert not index.renew(b"body a", 5.0, TTL)
    assert index.renew(b"second", 5.0, TTL)
    assert index.renew(b"third", 5.0, TTL)


def test_a_body_that_is_known_pushes_nothing_out() -> None:
    index = filled("a")
    index.beat(key("a"), b"second", 1.0, TTL, fresh=False)
    for _ in range(3):
        index.beat(key("a"), b"body a", 1.0, TTL, fresh=False)
        index.beat(key("a"), b"second", 1.0, TTL, fresh=False)
    assert index.renew(b"body a", 2.0, TTL)
    assert index.renew(b"second", 2.0, TTL)


def test_bodies_that_said_something_else_are_forgotten() -> None:
    index = filled("a")
    index.beat(key("a"), b"second", 1.0, TTL, fresh=False)
    index.put(key("a"), b"A")
    index.beat(key("a"), b"new", 2.0, TTL, fresh=True)
    assert [index.renew(body, 3.0, TTL) for body in (b"body a", b"second", b"new")] == [False, False, True]


def test_a_registration_without_its_bytes_has_no_fast_path() -> None:
    index = filled("a")
    index.beat(key("a"), None, 1.0, TTL, fresh=True)
    assert not index.renew(b"body a", 2.0, TTL)
    assert index.deadline(key("a")) == 16.0


@pytest.mark.parametrize("how", ["removed", "expired"])
def test_the_bodies_of_what_is_gone_are_forgotten(how: str) -> None:
    index = filled("a")
    index.beat(key("a"), b"second", 0.0, TTL, fresh=False)
    if how == "removed":
        index.remove(key("a"))
    else:
        index.expire(15.0, 1)
    assert not index.renew(b"body a", 16.0, TTL)
    assert not index.renew(b"second", 16.0, TTL)
    assert len(index) == 0


def test_renewals_are_counted_by_both_ways() -> None:
    index = filled("a")
    index.renew(b"body a", 1.0, TTL)
    index.beat(key("a"), b"second", 1.0, TTL, fresh=False)
    index.beat(key("a"), b"third", 1.0, TTL, fresh=True)
    assert index.renewed == 2


# ------------------------------------------------------------------------------------------------------- filters


def test_filters_keep_what_matches_all_of_them() -> None:
    index = PoolIndex(0)
    pools = [("s1", "m1", "r1"), ("s1", "m2", "r2"), ("s2", "m1", "r2"), ("s3", None, None), ("s10", "m1", "r1")]
    for site, model, region in pools:
        index.put(key(site, str(model)), f"{site}/{model}".encode(), model, region)
    every = frozenset
    assert pieces(index.parts(models=every({"m1"}))) == [b"s1/m1", b"s10/m1", b"s2/m1"]
    assert pieces(index.parts(sites=every({b"s3"}))) == [b"s3/None"]
    assert pieces(index.parts(regions=every({"r1", "r2"}), sites=every({b"s2", b"s3"}))) == [b"s2/m1"]
    assert pieces(index.parts(models=every())) == []
    assert pieces(index.parts(sites=every({b"s"}))) == []
    assert pieces(index.parts(models=every({"m1"}), regions=every({"r3"}))) == []


def test_a_filter_sees_a_change_of_what_it_looks_at() -> None:
    index = PoolIndex(0)
    index.put(key("a"), b"1", "m1", "r1")
    index.put(key("a"), b"2", "m2", None)
    assert pieces(index.parts(models=frozenset({"m1"}))) == []
    assert pieces(index.parts(models=frozenset({"m2"}))) == [b"2"]
    assert pieces(index.parts(regions=frozenset({"r1"}))) == []


def test_a_key_of_one_name_is_its_own_site() -> None:
    index = PoolIndex(0)
    index.put(b"router-1", b"x")
    assert pieces(index.parts(sites=frozenset({b"router-1"}))) == [b"x"]
    assert pieces(index.parts(sites=frozenset({b"router"}))) == []


# --------------------------------------------------------------------------------------------------------- lists


@given(st.lists(st.binary(max_size=50), max_size=20), st.binary(max_size=5), st.binary(max_size=5))
def test_joining_puts_a_comma_between_two(encodings: list[bytes], head: bytes, tail: bytes) -> None:
    index = PoolIndex(0)
    for position, encoded in enumerate(encodings):
        index.put(b"%03d" % position, encoded)
    parts = index.parts()
    joined = b",".join(encodings)
    assert parts.join(head, tail) == head + joined + tail
    assert parts.size == len(joined)
    assert index.listings() == encodings


def test_lists_are_made_by_an_index_only() -> None:
    with pytest.raises(TypeError, match=r"PoolIndex\.parts"):
        ListParts()


def test_lists_can_be_joined_in_threads_while_the_index_changes() -> None:
    index = filled(*(f"{number:04}" for number in range(2000)))
    expected = index.parts().join(b"[", b"]")
    parts = index.parts()
    joined: list[bytes] = []
    threads = [threading.Thread(target=lambda: joined.append(parts.join(b"[", b"]"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        index.put(key(f"{number:04}"), b"changed")
    index.expire(100.0, 2000)
    for thread in threads:
        thread.join()
    assert joined == [expected] * 4


def test_keys_and_encodings_are_bytes() -> None:
    index = PoolIndex(0)
    wrong = [("put", ("k", b"x")), ("put", (None, b"x")), ("put", (b"k", None)), ("renew", (None, 0.0, TTL))]
    for method, arguments in wrong:
        with pytest.raises(TypeError):
            getattr(index, method)(*arguments)
    assert len(index) == 0


# -------------------------------------------------------------------------------------------------------- memory


def test_pools_that_come_and_go_while_nobody_lists_leave_nothing_behind() -> None:
    index = PoolIndex(7)
    index.put(key("stays"), b"stays")

    tracemalloc.start()
    used: list[int] = []
    for number in range(24_000):
        name = key(f"{number:08}")
        index.put(name, bytes(200), f"model-{number}")
        index.beat(name, b"body %d" % number, float(number), TTL, fresh=True)
        index.expire(float(number), 10)
        if number % 400 == 0:
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(used[30:]) - max(used[:30]) < 2_000_000, "12,000 pools of well over 300 bytes have come and gone"
    assert len(index) == 16
    assert listed(index)[-1] == b"stays"


def test_a_changed_listing_does_not_keep_what_it_said_before() -> None:
    index = filled("a")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(5000):
        index.put(key("a"), bytes(1000) + b"%d" % number)
        index.beat(key("a"), b"body %d" % number, 0.0, TTL, fresh=True)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 50_000


def test_models_that_no_pool_has_any_more_are_let_go() -> None:
    index = PoolIndex(7)
    for number in range(8):
        index.put(key(f"{number}"), b"%d" % number, "model", "region")
    tracemalloc.start()
    used: list[int] = []
    for number in range(30_000):
        index.put(key("changing"), b"%d" % number, f"model-{number}", f"region-{number}")
        if number % 500 == 0:
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(used[30:]) - max(used[:30]) < 500_000, (
        "15,000 models and regions of 50 bytes and more have come and gone"
    )
    assert pieces(index.parts(models=frozenset({"model"}))) == [b"%d" % number for number in range(8)]
    assert pieces(index.parts(regions=frozenset({"region-29999"}))) == [b"29999"]
