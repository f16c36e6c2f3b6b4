"""Histories within their bounds, and the sentences made of them."""

import json

import pytest

from gdsvc.model import PoolKey
from gdsvc.pool_discovery.conflicts import FREE_FLIPS
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.explain import (
    ENTRIES,
    MEMBER_CHARACTERS,
    MEMBERS_NAMED,
    NOTHING_HEARD,
    Happening,
    History,
    LeaseState,
    Registrations,
    address_text,
    difference,
    explanation,
    instant,
)

KEY = PoolKey("s", "n", "p")
SOURCES = (Source("pool-registrations", True, "2026-01-01T00:00:00.000Z", "all is well"),)


class Stand:
    """A history and its clock, which is one second on at each entry."""

    def __init__(self, keys: int = 8) -> None:
        self.unix_secs = 0.0
        self.history = History(self.now, keys)

    def now(self) -> float:
        self.unix_secs += 1.0
        return self.unix_secs

    def events(self, key: bytes) -> list[str]:
        return [happening.event for happening in self.history.of(key)]


# ------------------------------------------------------------------------------------------------------ history


def test_a_history_is_told_the_newest_last_with_instants_and_sources() -> None:
    stand = Stand()
    stand.history.record("registered", b"k", "first heartbeat", "10.0.0.1")
    stand.history.record("expired", b"k", "no heartbeat came for 15 s")
    assert stand.history.of(b"k") == (
        Happening("1970-01-01T00:00:01.000Z", "registered", "first heartbeat from 10.0.0.1"),
        Happening("1970-01-01T00:00:02.000Z", "expired", "no heartbeat came for 15 s"),
    )
    assert stand.history.of(b"other") == ()


@pytest.mark.parametrize("count", [ENTRIES, ENTRIES + 1, 2 * ENTRIES, 2 * ENTRIES + 1, 5 * ENTRIES + 3, 1000])
def test_of_a_member_that_flaps_the_newest_entries_are_kept(count: int) -> None:
    stand = Stand()
    for number in range(count):
        stand.history.record(str(number), b"k", "c")
    assert stand.events(b"k") == [str(number) for number in range(count - min(count, ENTRIES), count)]


def test_a_member_that_flaps_for_long_keeps_a_chain_of_bounded_length() -> None:
    stand = Stand()
    longest = 0
    for number in range(1000):
        stand.history.record(str(number), b"k", "c")
        entry, length = stand.history._young[b"k"], 1
        while entry.before is not None:
            entry, length = entry.before, length + 1
        longest = max(longest, length)
    assert ENTRIES <= longest <= 2 * ENTRIES + 1


def test_a_member_that_flaps_pushes_out_no_other() -> None:
    stand = Stand(keys=4)
    stand.history.record("quiet", b"quiet", "c")
    for number in range(1000):
        stand.history.record(str(number), b"flaps", "c")
    assert stand.events(b"quiet") == ["quiet"]


def test_members_beyond_the_bound_push_out_those_to_which_nothing_happened_longest() -> None:
    stand = Stand(keys=8)
    for number in range(100):
        stand.history.record("registered", b"%d" % number, "c")
        assert len(stand.history._young) + len(stand.history._old) <= 8 + 1
        for recent in range(max(0, number - 3), number + 1):
            assert stand.events(b"%d" % recent), "at least half of the bound is kept"
    assert stand.events(b"0") == []


def test_a_member_of_the_old_generation_keeps_its_past_when_something_happens_to_it() -> None:
    stand = Stand(keys=8)
    stand.history.record("first", b"k", "c")
    for number in range(4):
        stand.history.record("other", b"%d" % number, "c")
    assert b"k" in stand.history._old
    stand.history.record("second", b"k", "c")
    assert stand.events(b"k") == ["first", "second"]
    assert b"k" not in stand.history._old


def test_what_was_heard_of_a_member_is_that_of_its_last_leaving() -> None:
    stand = Stand()
    assert stand.history.parting(b"k") == NOTHING_HEARD
    stand.history.record("registered", b"k", "c")
    assert stand.history.parting(b"k") == NOTHING_HEARD
    for count in (1, 2):
        stand.history.record("expired", b"k", "c", None, Registrations(count, "::1", 0))
        stand.history.record("registered", b"k", "c")
    assert stand.history.parting(b"k") == Registrations(2, "::1", 0)


# ------------------------------------------------------------------------------------------------------ reasons


def test_a_listed_pool_is_listed_for_its_lease() -> None:
    told = explanation(KEY, LeaseState(3.14, 11.86), Registrations(2, "::1", 0), SOURCES, ())
    assert (told.listed, told.key, told.sources) == (True, KEY, SOURCES)
    assert told.reason == "listed: its last heartbeat came 3.1 s ago, and its lease holds for another 11.9 s"


@pytest.mark.parametrize(("conflicts", "said"), [(FREE_FLIPS, False), (FREE_FLIPS + 1, True)])
def test_relays_that_disagree_are_named_once_it_matters(conflicts: int, said: bool) -> None:
    told = explanation(KEY, LeaseState(0.0, 15.0), Registrations(9, None, conflicts), SOURCES, ())
    assert ("disagree" in told.reason) is said


def test_a_pool_that_left_is_told_when_and_why() -> None:
    history = (Happening("t0", "registered", "first heartbeat"), Happening("t1", "expired", "no heartbeat came"))
    told = explanation(KEY, None, NOTHING_HEARD, SOURCES, history)
    assert (told.listed, told.lease) == (False, None)
    assert told.reason == "not listed since t1: no heartbeat came, and nothing was heard of it since"


def test_a_pool_without_lease_or_history_is_not_listed() -> None:
    assert explanation(KEY, None, NOTHING_HEARD, SOURCES, ()).reason == "not listed"


# -------------------------------------------------------------------------------------------------- differences


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b"),
        ({"a": 1}, {"b": 1}, "a, b"),
        ({"a": None}, {}, "a"),
        ({"a": {"x": 1}}, {"a": {"x": 2}}, "a"),
        ({"x": 1}, {"x": 1.0}, "x"),
        ({"x": True}, {"x": 1}, "x"),
        ({"x": 2**64}, {"x": 2**64 + 1}, "x"),
        ({}, {}, ""),
    ],
)
def test_members_that_differ_are_named_in_order(before: object, after: object, said: str) -> None:
    assert difference(json.dumps(before).encode(), json.dumps(after).encode()) == said


def test_few_members_are_named_and_none_at_length() -> None:
    after = {f"{number:03}" + "x" * 100: 1 for number in range(20)}
    said = difference(b"{}", json.dumps(after).encode())
    assert said.endswith(f"and {20 - MEMBERS_NAMED} more")
    assert len(said) < MEMBERS_NAMED * (MEMBER_CHARACTERS + 2) + 20


# ---------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (None, None),
        (bytes(10) + b"\xff\xff\x0a\x00\x00\x01", "10.0.0.1"),
        (bytes(15) + b"\x01", "::1"),
        (b"\xfd" + bytes(14) + b"\x09", "fd00::9"),
    ],
)
def test_addresses_are_written_as_people_write_them(address: bytes | None, text: str | None) -> None:
    assert address_text(address) == text


def test_instants_are_rfc_3339_with_milliseconds() -> None:
    assert instant(0.0004) == "1970-01-01T00:00:00.000Z"
    assert instant(1735689599.9999) == "2024-12-31T23:59:59.999Z"
