"""What lists and events are decoded to, and that what is none is said to be none."""

import msgspec
import pytest

from gdsvc import model
from gdsvc.client.heartbeat import encode, member_path
from gdsvc.client.kinds import POOLS, ROUTERS
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import PoolCapacity, PoolKey, PoolLocation, PoolRegistration, RouterReplica, listing_of

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
