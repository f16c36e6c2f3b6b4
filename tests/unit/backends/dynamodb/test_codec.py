"""What the table holds: keys and items, to and from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.codec import KEPT_SECS, Found, Place
from gdsvc.backends.dynamodb.keys import SORT_KEY_BYTES, Kind, Part, name_in, shard_of, shards, sort_key_of
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration

NOW = 1_800_000_000.25
P = b"ohio\0dynamo\0mocker-1"
RENEWAL = Renewal(codec.stamp(NOW, "ab12cd34", 7), NOW, 15.0, 1_800_000_000_123)

names = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=1)


def test_keys_are_readable_and_both_items_of_a_name_are_in_one_shard() -> None:
    place = Place(8)
    renewal, registration = (place.key(part, Kind.POOL, P) for part in (Part.RENEWAL, Part.REGISTRATION))
    assert renewal["sk"] == {"S": "hp/ohio/dynamo/mocker-1"}
    assert registration["sk"] == {"S": "rp/ohio/dynamo/mocker-1"}
    assert renewal["pk"] == registration["pk"]
    assert renewal["pk"]["S"] in shards(8)


@given(names, st.sampled_from(Kind), st.sampled_from(Part))
def test_every_name_comes_back_from_its_key(words: list[str], kind: Kind, part: Part) -> None:
    name = b"\0".join(word.encode() for word in words)
    key = sort_key_of(part, kind, name)
    assert len(key.encode()) <= SORT_KEY_BYTES
    assert name_in(key) in ((kind, name), (kind, b""))


def test_names_that_only_differ_by_a_slash_or_what_a_digest_begins_with_have_keys_of_their_own() -> None:
    told = [b"a\0b/c\0d", b"a/b\0c\0d", b"a\0b\0c/d", b"a%2Fb\0c\0d", b"~a\0b\0c", "é\0ü\0ß".encode()]
    assert len({sort_key_of(Part.RENEWAL, Kind.POOL, name) for name in told}) == len(told)


def test_a_key_that_would_be_too_long_is_a_digest_and_the_item_says_the_name() -> None:
    longest = b"\0".join([b"%" * 253] * 3)
    item = Place(4).renewal_item(Kind.POOL, longest, RENEWAL)
    assert item["sk"]["S"].startswith("hp/~")
    assert codec.found_in(item) == Found(Kind.POOL, longest, RENEWAL)
    assert "n" not in Place(4).renewal_item(Kind.POOL, P, RENEWAL)


def test_names_are_spread_over_the_shards() -> None:
    counts = dict.fromkeys(shards(8), 0)
    for number in range(8000):
        counts[shard_of(Kind.POOL, f"s\0n\0{number}".encode(), 8)] += 1
    assert min(counts.values()) > 800
    assert max(counts.values()) < 1200


@pytest.mark.parametrize("gone", [False, True])
def test_a_renewal_comes_back_from_its_item(gone: bool) -> None:
    renewal = Renewal(RENEWAL.stamp, NOW, 15.0, 7, gone)
    item = Place(8).renewal_item(Kind.ROUTER, b"r", renewal)
    assert codec.found_in(item) == Found(Kind.ROUTER, b"r", renewal)
    assert item["ttl"] == {"N": str(1_800_000_000 + KEPT_SECS)}


def test_a_renewal_takes_about_a_hundred_bytes() -> None:
    item = Place(8).renewal_item(Kind.POOL, P, RENEWAL)
    assert sum(len(name) + len(next(iter(value.values()))) for name, value in item.items()) < 110


def test_a_registration_comes_back_from_its_item_with_the_end_of_its_week() -> None:
    registration = Registration(7, '{"model":"é"}'.encode())
    item = Place(8).registration_item(Kind.POOL, P, registration, NOW)
    assert codec.registration_in(item) == (registration, 1_800_000_000 + KEPT_SECS)


def test_stamps_differ_by_writer_and_by_number_and_tell_the_writers_time() -> None:
    stamps = {codec.stamp(NOW, writer, number) for writer in ("a", "b") for number in (1, 2)}
    assert len(stamps) == 4
    found = codec.found_in(Place(1).renewal_item(Kind.POOL, P, Renewal(codec.stamp(NOW, "a", 1), 0.0, 15.0, 1)))
    assert found is not None
    assert found.renewal.renewed_at == NOW


@pytest.mark.parametrize(
    "spoiled",
    [
        {"r": {"S": "not a stamp"}},
        {"r": {"N": "1"}},
        {"v": {"N": "0"}},
        {"v": {"N": "x"}},
        {"l": {"N": "0"}},
        {"l": {"N": "-5"}},
        {"l": {"N": "NaN"}},
        {"l": {"N": "1e99"}},
        {"l": None},
        {"sk": {"S": "xx/ohio"}},
        {"sk": {"S": "h/ohio"}},
        {"sk": {"S": "hp"}},
        {"sk": {"S": "hp/~0123"}},
        {"sk": {"N": "1"}},
    ],
)
def test_an_item_that_we_did_not_write_is_no_renewal(spoiled: dict[str, Any]) -> None:
    assert codec.found_in(Place(8).renewal_item(Kind.POOL, P, RENEWAL) | spoiled) is None
    assert codec.found_in({}) is None


@pytest.mark.parametrize("spoiled", [{"v": {"S": "1"}}, {"d": {"N": "1"}}, {"d": {"B": b"{}"}}, {"ttl": {"N": "soon"}}])
def test_an_item_that_we_did_not_write_is_no_registration(spoiled: dict[str, Any]) -> None:
    item = Place(8).registration_item(Kind.POOL, P, Registration(1, b"{}"), NOW)
    assert codec.registration_in(item | spoiled) is None


def test_a_later_version_is_later_whatever_the_clock_says_and_later_than_that_of_a_table_before() -> None:
    assert codec.later_version(0, NOW) == 1_800_000_000_250
    assert codec.later_version(2_000_000_000_000, NOW) == 2_000_000_000_001


@pytest.mark.parametrize(
    ("spoiled", "place"),
    [
        ({}, Place(8)),
        ({"shards": {"N": "0"}}, None),
        ({"shards": {"N": "257"}}, None),
        ({"shards": {"S": "8"}}, None),
        ({"v": {"N": "2"}}, None),
    ],
)
def test_a_layout_of_another_version_is_not_guessed_at(spoiled: dict[str, Any], place: Place | None) -> None:
    assert codec.place_in(codec.layout_item(8) | spoiled) == place
