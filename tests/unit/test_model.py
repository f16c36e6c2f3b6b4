"""The wire types: what is kept of a registration, the pool id, the one encoding."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gdsvc import model
from gdsvc.model import (
    MAX_COUNT,
    PoolCapacity,
    PoolKey,
    PoolListing,
    PoolLocation,
    PoolRegistration,
    RouterReplica,
    decode_listing,
    decode_registration,
    decode_router,
    encode_listing,
    listing_of,
    pool_id,
)

KEY = {"site_id": "ohio", "namespace": "dynamo", "dgd_name": "mocker-1"}
COUNTS = ("max_concurrency", "live_workers", "kv_capacity_blocks", "expected_ranks", "observed_ranks")


def body(**members: Any) -> bytes:
    """A registration as a relay would send it."""
    return json.dumps({"key": KEY, **members}).encode()


def raw(member: bytes) -> bytes:
    """A registration with a member `x`, written as given, that we do not know."""
    return b'{"key":' + json.dumps(KEY).encode() + b',"x":' + member + b"}"


def shown(registration: bytes) -> dict[str, Any]:
    """What is listed of a registration."""
    listed: dict[str, Any] = json.loads(encode_listing(listing_of(decode_registration(registration))))
    return listed


# ----------------------------------------------------------------------------------------------------- pool id


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("ohio", "dynamo", "mocker-1"),
            "pool-v1-2d83e849329ee9362567e384ac43e4d13db27a2b6a00cb79a8be9024504c56ae",
        ),
        (
            ("cluster-a", "default", "qwen3-32b"),
            "pool-v1-9ed9952953a60e53b0ed4e7d14f395930626f31538d4b384a84fc0d85271d6e5",
        ),
    ],
)
def test_the_pool_id_has_the_published_value(names: tuple[str, str, str], expected: str) -> None:
    assert pool_id(PoolKey(*names)) == expected


def test_the_pool_id_counts_bytes_not_characters() -> None:
    names = ("köln", "池", "𝛑")
    material = b"".join(len(name.encode()).to_bytes(8, "big") + name.encode() for name in names)
    hashed = blake3(material, derive_key_context="dynamo.global_view.pool_id.v1").hexdigest()
    assert pool_id(PoolKey(*names)) == f"pool-v1-{hashed}"


def test_names_that_join_alike_are_different_pools() -> None:
    assert pool_id(PoolKey("ab", "c", "d")) != pool_id(PoolKey("a", "bc", "d"))


def test_the_pool_id_of_one_pool_does_not_depend_on_the_one_before() -> None:
    first = pool_id(PoolKey("a", "b", "c"))
    pool_id(PoolKey("x", "y", "z"))
    assert pool_id(PoolKey("a", "b", "c")) == first


# ------------------------------------------------------------------------------------------------- what is kept


def test_a_registration_of_a_key_alone_lists_every_other_member_as_null_or_empty() -> None:
    assert encode_listing(listing_of(decode_registration(body()))).decode() == (
        '{"key":{"site_id":"ohio","namespace":"dynamo","dgd_name":"mocker-1"},'
        '"id":"pool-v1-2d83e849329ee9362567e384ac43e4d13db27a2b6a00cb79a8be9024504c56ae",'
        '"location":null,"model":null,"frontends":[],"capacity":null,"capabilities":[],"relay_identities":[]}'
    )


def test_members_that_are_absent_in_a_location_or_capacity_are_listed_as_null() -> None:
    listed = shown(body(location={"region": "eu"}, capacity={"live_workers": 3}))
    assert listed["location"] == {"region": "eu", "availability_zone": None, "cluster": None, "datacenter": None}
    assert listed["capacity"] == {**dict.fromkeys(COUNTS), "live_workers": 3}


@pytest.mark.parametrize("name", ["location", "model", "capacity", "frontends", "capabilities"])
def test_null_says_the_same_as_absent(name: str) -> None:
    assert shown(body(**{name: None})) == shown(body())


def test_unknown_members_are_listed_back_at_the_top_in_the_location_and_in_the_capacity() -> None:
    listed = shown(
        body(
            generation={"b": [1, 2.5, None, True], "a": "x"},
            location={"region": "eu", "rack": 7},
            capacity={"gpu": ["h100"]},
        )
    )
    assert listed["generation"] == {"b": [1, 2.5, None, True], "a": "x"}
    assert listed["location"]["rack"] == 7
    assert listed["capacity"]["gpu"] == ["h100"]


def test_unknown_members_of_a_key_are_dropped() -> None:
    assert shown(json.dumps({"key": {**KEY, "shard": 1}}).encode()) == shown(body())


def test_a_registration_cannot_set_what_the_directory_adds() -> None:
    added = {"id": "pool-v1-0", "relay_identities": ["10.0.0.1"], "sources": [{"name": "x"}]}
    assert shown(body(**added)) == shown(body())
    assert shown(body(**added, other=1)) == shown(body(other=1))


def test_the_same_names_in_a_location_are_members_like_any_other() -> None:
    assert shown(body(location={"region": "eu", "id": 3}))["location"]["id"] == 3


def test_a_member_that_is_called_extra_is_a_member_like_any_other() -> None:
    listed = shown(body(extra={"extra": 1}, location={"region": "eu", "extra": 2}, capacity={"extra": [3]}))
    assert listed["extra"] == {"extra": 1}
    assert listed["location"]["extra"] == 2
    assert listed["capacity"]["extra"] == [3]


def test_a_member_that_is_called_extra_is_not_taken_for_what_we_keep_under_that_name() -> None:
    assert shown(body(extra={"a": 1}))["extra"] == {"a": 1}
    assert "a" not in shown(body(extra={"a": 1}))
    assert shown(body(extra={}))["extra"] == {}
    assert shown(body(location={"region": "eu", "extra": {"a": 1}}))["location"]["extra"] == {"a": 1}
    assert shown(body(capacity={"extra": {"a": 1}}))["capacity"]["extra"] == {"a": 1}


def test_relay_identities_come_from_the_directory() -> None:
    listing = listing_of(decode_registration(body()), ("10.0.0.1", "10.0.0.2"))
    assert json.loads(encode_listing(listing))["relay_identities"] == ["10.0.0.1", "10.0.0.2"]


def test_a_thousand_capabilities_of_a_hundred_characters_are_legal() -> None:
    capabilities = [f"{number:0100}" for number in range(1000)]
    assert shown(body(capabilities=capabilities))["capabilities"] == capabilities


@pytest.mark.parametrize("count", [0, 1, 2**63 - 1, 2**63, MAX_COUNT])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_reach_from_zero_to_the_largest_of_64_bits(name: str, count: int) -> None:
    assert shown(body(capacity={name: count}))["capacity"][name] == count


@pytest.mark.parametrize("digits", [20, 21, 400, 4000])
def test_an_unknown_integer_keeps_all_its_digits(digits: int) -> None:
    assert encode_listing(listing_of(decode_registration(raw(b"7" * digits)))).endswith(b',"x":' + b"7" * digits + b"}")


def test_of_members_that_come_twice_the_last_wins() -> None:
    twice = b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"model":"x","x":1,"model":"y","x":2}'
    assert (shown(twice)["model"], shown(twice)["x"]) == ("y", 2)
    keys = b'{"key":7,"key":{"site_id":"a","namespace":"b","dgd_name":"x","dgd_name":"c"}}'
    assert shown(keys)["key"] == {"site_id": "a", "namespace": "b", "dgd_name": "c"}


def test_white_space_around_the_document_is_no_fault() -> None:
    assert shown(b" \r\n\t" + body() + b"\n ") == shown(body())


def test_a_surrogate_pair_is_one_character() -> None:
    assert shown(raw(rb'"\ud83d\ude00"'))["x"] == "\N{GRINNING FACE}"


# ------------------------------------------------------------------------------------------------ one encoding


def test_payloads_that_say_the_same_encode_alike() -> None:
    one = (
        b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},'
        b'"model":"m","z":{"p":1,"q":[{"r":2,"s":3}]},"y":"\xc3\xa9"}'
    )
    other = (
        b'{ "y":"\\u00e9", "z":{"q":[ {"s":3,"r":2} ],"p":1},\n"model":"m", "frontends":[], "location":null,'
        b'"key":{"dgd_name":"c","namespace":"b","site_id":"a"} }'
    )
    assert encode_listing(listing_of(decode_registration(one))) == encode_listing(
        listing_of(decode_registration(other))
    )


def test_the_order_of_a_list_is_part_of_what_it_says() -> None:
    assert shown(body(capabilities=["a", "b"])) != shown(body(capabilities=["b", "a"]))


NAMES = st.text(st.characters(codec="utf-8"), max_size=40).filter(lambda name: model.text_fault(name) is None)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.builds(PoolKey, NAMES, NAMES, NAMES)
FRONTENDS = st.sampled_from(["http://a", "https://b.example:8443/", "http://[::1]:80", "HTTP://10.0.0.1:65535"])


def extras(kind: type[PoolListing | PoolLocation | PoolCapacity]) -> st.SearchStrategy[Any]:
    """What may stand beside the members of `kind`; UNSET stands for nothing, as it does after decoding."""
    known = set(kind.__struct_fields__) - {"extra"}
    others = st.dictionaries(TEXTS.filter(lambda name: name not in known), JSON, min_size=1, max_size=4)
    return st.just(msgspec.UNSET) | others


LOCATIONS = st.builds(
    PoolLocation,
    region=TEXTS.filter(lambda text: bool(text.strip())),
    availability_zone=st.none() | TEXTS,
    cluster=st.none() | TEXTS,
    datacenter=st.none() | TEXTS,
    extra=extras(PoolLocation),
)
COUNT = st.none() | st.integers(0, MAX_COUNT)
CAPACITIES = st.builds(PoolCapacity, COUNT, COUNT, COUNT, COUNT, COUNT, extra=extras(PoolCapacity))
LISTINGS = st.builds(
    PoolListing,
    key=KEYS,
    id=TEXTS,
    location=st.none() | LOCATIONS,
    model=st.none() | TEXTS,
    frontends=st.lists(FRONTENDS, max_size=3).map(tuple),
    capacity=st.none() | CAPACITIES,
    capabilities=st.lists(TEXTS, max_size=3).map(tuple),
    relay_identities=st.lists(TEXTS, max_size=3).map(tuple),
    extra=extras(PoolListing),
)


@given(LISTINGS)
def test_a_listing_survives_its_encoding(listing: PoolListing) -> None:
    encoded = encode_listing(listing)
    assert decode_listing(encoded) == listing
    assert encode_listing(decode_listing(encoded)) == encoded


@given(LISTINGS, st.integers(0, 1000))
def test_the_encoding_does_not_depend_on_the_order_of_members(listing: PoolListing, seed: int) -> None:
    random = Random(seed)

    def shuffled(document: Any) -> Any:
        if isinstance(document, list):
            return [shuffled(inner) for inner in document]
        if isinstance(document, dict):
            members = list(document.items())
            random.shuffle(members)
            return {name: shuffled(inner) for name, inner in members}
        return document

    encoded = encode_listing(listing)
    other = json.dumps(shuffled(json.loads(encoded)), indent=1).encode()
    assert encode_listing(decode_listing(other)) == encoded


# ----------------------------------------------------------------------------------------------------- routers


def test_a_router_is_an_id_and_a_url() -> None:
    router = decode_router(b'{"url":"http://[::1]:9000","id":"a/b/c","more":1}')
    assert router == RouterReplica("a/b/c", "http://[::1]:9000")
    assert model.encode(router) == b'{"id":"a/b/c","url":"http://[::1]:9000"}'
    assert decode_router(model.encode(router)) == router


def test_keys_and_routers_sort_by_their_members() -> None:
    keys = [PoolKey("b", "a", "a"), PoolKey("a", "b", "a"), PoolKey("a", "a", "b"), PoolKey("a", "a", "a")]
    assert sorted(keys) == keys[::-1]
    assert sorted([RouterReplica("b", "http://a"), RouterReplica("a", "http://b")])[0].id == "a"


REGISTRATIONS = st.builds(
    PoolRegistration,
    key=KEYS,
    location=st.none() | LOCATIONS,
    model=st.none() | TEXTS,
    frontends=st.lists(FRONTENDS, max_size=3).map(tuple),
    capacity=st.none() | CAPACITIES,
    capabilities=st.lists(TEXTS, max_size=3).map(tuple),
    extra=extras(PoolListing),
)


@given(REGISTRATIONS)
def test_a_registration_is_encoded_as_the_listing_that_it_gives(registration: PoolRegistration) -> None:
    assert model.encode_registered(registration) == encode_listing(listing_of(registration))
