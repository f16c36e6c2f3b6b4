"""What lists and events are decoded to, and that what is none is said to be none."""

import contextlib
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc import model
from gdsvc.client.heartbeat import encode, member_path
from gdsvc.client.kinds import POOLS, ROUTERS, Kind
from gdsvc.client.view import View
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import PoolCapacity, PoolKey, PoolLocation, PoolRegistration, RouterReplica, listing_of

Item = TypeVar("Item")
Key = TypeVar("Key")

REGISTRATION = PoolRegistration(
    PoolKey("ohio", "a/b", "p q"),
    PoolLocation("eu", extra={"rack": 7}),
    "m",
    ("http://a",),
    PoolCapacity(1, extra={"gpus": 8}),
    ("chat",),
    {"generation": [1, None]},
)


def test_a_list_of_pools_is_decoded_with_members_that_we_do_not_know() -> None:
    encoded = model.encode_listing(listing_of(REGISTRATION))
    complete, items = POOLS.decode_list(b'{"complete":true,"later":1,"pools":[' + encoded + b"]}")
    assert (complete, items) == (True, [listing_of(REGISTRATION)])


def test_a_list_that_does_not_say_that_it_is_complete_is_not() -> None:
    assert POOLS.decode_list(b'{"pools":[]}') == (False, [])
    assert ROUTERS.decode_list(b'{"routers":[{"id":"a","url":"http://a"}]}') == (
        False,
        [RouterReplica("a", "http://a")],
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b'{"pools":[', b"[" * 100_000])
def test_what_is_no_json_is_said_to_be_none(body: bytes) -> None:
    for decode in (POOLS.decode_list, ROUTERS.decode_list, POOLS.decode_removed, POOLS.decode):
        with pytest.raises((NotJson, Invalid)):
            decode(body)


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"pools":{}}', b'{"pools":[1]}', b'{"pools":[{"key":{}}]}', b'{"complete":1,"pools":[]}']
)
def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(Invalid):
        POOLS.decode_list(body)


def test_a_removal_names_the_key() -> None:
    assert POOLS.decode_removed(b'{"key":{"site_id":"s","namespace":"n","dgd_name":"p"}}') == PoolKey("s", "n", "p")
    assert ROUTERS.decode_removed(b'{"id":"a"}') == "a"


def test_a_removal_may_say_more_in_a_later_version() -> None:
    removed = b'{"later":1,"key":{"site_id":"s","namespace":"n","dgd_name":"p","later":2}}'
    assert POOLS.decode_removed(removed) == PoolKey("s", "n", "p")
    assert ROUTERS.decode_removed(b'{"id":"a","later":1}') == "a"


VALID = (
    b'{"complete":true,"pools":[' + model.encode_listing(listing_of(REGISTRATION)) + b"]}",
    model.encode_listing(listing_of(REGISTRATION)),
    b'{"key":{"site_id":"s","namespace":"n","dgd_name":"p"}}',
    b'{"complete":false,"routers":[{"id":"a","url":"http://a"}]}',
    b'{"id":"a","url":"http://a"}',
)
PIECES = (b"", b"\xff", b"\\ud800", b"null", b"{}", b"[[[[", b'"', b",", b"1e999", b"\0", b'"id":1,', b"\xed\xa0\x80")


@given(st.sampled_from(VALID), st.integers(0, 400), st.integers(0, 8), st.sampled_from(PIECES))
def test_whatever_a_server_sends_is_taken_or_refused_and_nothing_else(
    data: bytes, at: int, cut: int, piece: bytes
) -> None:
    at %= len(data) + 1
    spoiled = data[:at] + piece + data[at + cut :]
    try_out(POOLS, spoiled)
    try_out(ROUTERS, spoiled)


def try_out(kind: Kind[Item, Key], data: bytes) -> None:
    """Does with `data` what a follower does with lists and events."""
    view = View(kind)
    with contextlib.suppress(Invalid, NotJson):
        view.replace(view.difference(kind.decode_list(data)[1], complete=True))
    with contextlib.suppress(Invalid, NotJson):
        view.upsert(kind.decode(data), len(data))
    with contextlib.suppress(Invalid, NotJson):
        view.remove(kind.decode_removed(data))
    view.snapshot()


@pytest.mark.parametrize("text", [b"\\ud800", b"\\udfff", b"\xed\xa0\x80"])
def test_names_that_are_no_unicode_are_refused(text: bytes) -> None:
    key = b'{"key":{"site_id":"%b","namespace":"n","dgd_name":"p"},"id":"x"}' % text
    router = b'{"id":"%b","url":"http://a"}' % text
    for decode, data in (
        (POOLS.decode, key),
        (POOLS.decode_removed, key),
        (ROUTERS.decode, router),
        (ROUTERS.decode_removed, router),
    ):
        with pytest.raises((Invalid, NotJson)):
            decode(data)


def test_what_a_heartbeat_posts_is_the_registration_and_nothing_of_ours() -> None:
    document = msgspec.json.decode(encode(REGISTRATION))
    assert set(document) == {"key", "location", "model", "frontends", "capacity", "capabilities", "generation"}
    assert model.decode_registration(encode(REGISTRATION)) == REGISTRATION
    bare = PoolRegistration(PoolKey("s", "n", "p"))
    assert model.decode_registration(encode(bare)) == bare
    assert model.decode_router(encode(RouterReplica("a", "http://a"))) == RouterReplica("a", "http://a")


def test_names_are_encoded_in_paths() -> None:
    assert member_path(REGISTRATION) == "/pools/ohio/a%2Fb/p%20q"
    assert member_path(RouterReplica("c/n/é", "http://a")) == "/routers/c%2Fn%2F%C3%A9"
