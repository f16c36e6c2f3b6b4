"""Listings as the index gives them out, and the table that finds them by their key."""

import gc
import random
import sys

import pytest

from gdsvc._pool_index import PoolIndex

TTL = 15.0


def heard_from(source: str | None) -> bytes | None:
    """What the index keeps of the address of a registration."""
    index = PoolIndex(1)
    index.put(b"k", b"x")
    index.beat(b"k", b"body", 0.0, TTL, True, source)
    listed = index.find(b"k")
    assert listed is not None
    return listed.source


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("10.1.2.3", bytes(10) + b"\xff\xff\x0a\x01\x02\x03"),
        ("0.0.0.0", bytes(10) + b"\xff\xff\0\0\0\0"),
        ("::ffff:10.1.2.3", bytes(10) + b"\xff\xff\x0a\x01\x02\x03"),
        ("::1", bytes(15) + b"\x01"),
        ("fd00::1:2", b"\xfd\x00" + bytes(10) + b"\x00\x01\x00\x02"),
        ("::", None),
        (None, None),
        ("", None),
        ("unix", None),
        ("10.1.2", None),
        ("10.1.2.3.4", None),
        ("fe80::1%eth0", None),
        ("[::1]", None),
        ("10.1.2.3\0x", bytes(10) + b"\xff\xff\x0a\x01\x02\x03"),
        ("x" * 10_000, None),
        ("é", None),
    ],
)
def test_addresses_are_kept_as_ipv6_and_what_is_none_is_not_kept(source: str | None, kept: bytes | None) -> None:
    assert heard_from(source) == kept


def test_the_last_address_counts_also_where_it_is_not_known() -> None:
    index = PoolIndex(1)
    index.put(b"k", b"x")
    index.beat(b"k", b"body", 0.0, TTL, True, "10.0.0.1")
    listed = index.find(b"k")
    assert listed is not None
    index.renew(b"body", 1.0, TTL, "::1")
    assert listed.source == bytes(15) + b"\x01"
    index.renew(b"body", 1.0, TTL)
    assert listed.source is None


def test_registrations_and_renewals_are_counted_while_listed() -> None:
    index = PoolIndex(1)
    index.put(b"k", b"x")
    listed = index.find(b"k")
    assert listed is not None
    assert listed.beats == 0
    index.beat(b"k", b"body", 0.0, TTL, True)
    for _ in range(9):
        index.renew(b"body", 0.0, TTL)
    index.beat(b"k", b"other", 0.0, TTL, False)
    assert listed.beats == 11
    index.remove(b"k")
    index.put(b"k", b"x")
    again = index.find(b"k")
    assert again is not None
    assert again.beats == 0


def test_what_is_found_is_what_was_put() -> None:
    index = PoolIndex(1)
    index.put(b"k", b"x", "m", "r")
    listed = index.find(b"k")
    assert listed is not None
    assert (listed.item, listed.model, listed.region) == (b"k", "m", "r")
    index.put(b"k", b"y", None, "s")
    assert (listed.model, listed.region) == (None, "s")
    assert index.find(b"other") is None
    with pytest.raises(TypeError):
        index.find(None)  # type: ignore[arg-type]


def test_a_listing_that_was_given_out_outlives_its_index() -> None:
    index = PoolIndex(1)
    for number in range(1000):
        index.put(b"%d" % number, b"x", f"model {number}")
    kept = [index.find(b"%d" % number) for number in range(0, 1000, 7)]
    removed = index.remove(b"1")
    del index
    gc.collect()
    assert [listed.item for listed in kept if listed] == [b"%d" % number for number in range(0, 1000, 7)]
    assert removed is not None
    assert (removed.item, removed.model) == (b"1", "model 1")


def test_the_table_holds_each_listing_once() -> None:
    index = PoolIndex(1)
    key = b"a key of its own"
    before = sys.getrefcount(key)
    for _ in range(100):
        index.put(key, b"x")
        index.remove(key)
    for _ in range(100):
        index.put(key, b"x")
        index.beat(key, None, 0.0, TTL, True)
        index.expire(TTL, 1)
    del index
    gc.collect()
    assert sys.getrefcount(key) == before


@pytest.mark.parametrize("names", [3, 48, 49, 100, 5000])
def test_keys_that_come_and_go_are_found_as_in_a_dict(names: int) -> None:
    """Tables of every size: full to the last slot that is used, grown in between, and emptied."""
    chosen = random.Random(names)
    index = PoolIndex(1)
    shown: dict[bytes, bytes] = {}
    for step in range(20_000):
        key = b"site\0n\0%d" % chosen.randrange(names)
        if chosen.random() < (0.7 if step % 4000 < 2000 else 0.2):
            index.put(key, b"%d" % step)
            shown[key] = b"%d" % step
        else:
            assert (index.remove(key) is not None) is (shown.pop(key, None) is not None)
        asked = b"site\0n\0%d" % chosen.randrange(names)
        assert index.encoding(asked) == shown.get(asked)
        assert len(index) == len(shown)
    assert {key: index.encoding(key) for key in shown} == shown
    assert index.listings() == [shown[key] for key in sorted(shown)]


def test_keys_whose_hashes_meet_in_the_table_are_told_apart() -> None:
    """A table of 64 slots that is three quarters full has long rows; each key is asked for by an equal copy of it."""
    for attempt in range(50):
        index = PoolIndex(1)
        keys = [b"%d-%d" % (attempt, number) for number in range(48)]
        for key in keys:
            index.put(key, b"x" + key)
        for number, key in enumerate(keys):
            assert index.remove(bytes(bytearray(key))) is not None
            assert [index.encoding(bytes(bytearray(other))) for other in keys[number + 1 :]] == [
                b"x" + other for other in keys[number + 1 :]
            ]
            assert key not in index
