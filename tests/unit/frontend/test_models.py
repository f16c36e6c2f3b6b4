"""The list of models: of a catalog, of several pools, and for how long one is given without asking."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.frontend import models
from gdsvc.frontend.models import AGAIN_SECS, FRESH_SECS, NOTHING, STALE_SECS, UNKNOWN, Kept, merged, of_catalog

A, B = (merged([b'{"data":[{"id":"%s"}]}' % name]) for name in (b"a", b"b"))


def reply(*members: object) -> bytes:
    return json.dumps({"object": "list", "data": members}).encode()


def listed(body: bytes) -> list[Any]:
    decoded = json.loads(body)
    assert decoded.keys() == {"object", "data"}
    assert decoded["object"] == "list"
    data: list[Any] = decoded["data"]
    return data


def test_the_models_of_a_catalog_have_what_clients_of_openai_read() -> None:
    assert listed(of_catalog(["b", "a/\x01池"])) == [
        {"id": "b", "object": "model", "created": 0, "owned_by": "gdsvc"},
        {"id": "a/\x01池", "object": "model", "created": 0, "owned_by": "gdsvc"},
    ]


def test_a_catalog_without_models_is_an_empty_list() -> None:
    assert listed(of_catalog(())) == listed(merged(())) == listed(NOTHING) == []


def test_each_model_is_listed_once_as_the_first_pool_says_it_with_all_its_members() -> None:
    first = {"id": "a", "object": "model", "created": 7, "owned_by": "vllm", "max_model_len": 4096, "permission": [{}]}
    replies = [reply(first, {"id": "b"}), reply({"id": "c"}, {"id": "a", "created": 8}), reply({"id": "b", "x": 1})]
    assert listed(merged(replies)) == [first, {"id": "b"}, {"id": "c"}]


ODD_REPLIES = [
    b"",
    b"nothing",
    b"[]",
    b'{"data":{}}',
    b'{"object":"list"}',
    b'{"data":null}',
    b'{"data":[{"id":"a"}]',
    b"\xff",
    b'{"data":[{"id":"\\ud800"}]}',
    b'{"data":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
]


@pytest.mark.parametrize("odd", ODD_REPLIES, ids=lambda odd: odd[:20])
def test_a_reply_that_is_no_list_of_models_is_passed_over(odd: bytes) -> None:
    assert listed(merged([odd, reply({"id": "a"}), odd])) == [{"id": "a"}]


@pytest.mark.parametrize(
    "odd",
    [
        b"1",
        b"null",
        b"[]",
        b"{}",
        b'{"id":1}',
        b'{"id":""}',
        b'{"id":"%s"}' % (b"x" * 1025),
        b'{"id":"x","y":"\xff"}',
        b'{"id":"\xff"}',
    ],
    ids=lambda odd: odd[:20],
)
def test_a_model_that_is_odd_is_passed_over_and_its_neighbours_are_not(odd: bytes) -> None:
    assert listed(merged([b'{"data":[{"id":"a"},%s,{"id":"b"}]}' % odd])) == [{"id": "a"}, {"id": "b"}]


def test_a_name_may_have_1024_characters() -> None:
    assert listed(merged([reply({"id": "x" * 1024})])) == [{"id": "x" * 1024}]


def test_a_merged_list_holds_no_more_models_than_the_bound() -> None:
    replies = [reply(*({"id": f"{pool}-{number}"} for number in range(6000))) for pool in range(2)]
    found = listed(merged(replies))
    assert len(found) == models.MOST_MODELS
    assert found[-1] == {"id": "1-3999"}


def test_a_merged_list_takes_no_more_bytes_than_the_bound_and_what_fits_is_still_taken() -> None:
    large = [reply({"id": f"large-{number}", "x": "x" * 2**20}) for number in range(5)]
    body = merged([*large, reply({"id": "small"})])
    assert [model["id"] for model in listed(body)] == ["large-0", "large-1", "large-2", "small"]
    assert len(body) <= models.MOST_BYTES


SCALARS: st.SearchStrategy[object] = st.sampled_from([None, True, 1, 1.5, "", "a", "b", [], {}])
MODELS = SCALARS | st.fixed_dictionaries({"id": SCALARS}, optional={"x": SCALARS})
REPLIES = st.lists(MODELS, max_size=4).map(lambda data: reply(*data)) | SCALARS.map(lambda it: json.dumps(it).encode())


@settings(max_examples=50)
@given(st.lists(REPLIES, max_size=4), st.integers(0, 60))
def test_whatever_pools_reply_a_list_comes_out_in_which_no_name_is_twice(replies: list[bytes], cut: int) -> None:
    whole = [model["id"] for model in listed(merged(replies))]
    assert whole == list(dict.fromkeys(whole))
    assert listed(merged([*replies, *(reply[:cut] for reply in replies)]))[: len(whole)] == listed(merged(replies))


# ------------------------------------------------------------------------------------------------- how long one is kept


def test_before_anything_was_asked_nothing_is_fresh() -> None:
    assert Kept().fresh(0.0) is None


def test_a_list_is_fresh_for_its_time_and_not_at_its_end() -> None:
    kept = Kept()
    assert kept.put(A, 100.0) == A
    assert kept.fresh(100.0 + FRESH_SECS - 0.001) == A
    assert kept.fresh(100.0 + FRESH_SECS) is None


def test_a_newer_list_takes_the_place_of_the_one_before() -> None:
    kept = Kept()
    kept.put(A, 100.0)
    assert kept.put(B, 111.0) == B
    assert kept.fresh(111.0 + FRESH_SECS - 0.001) == B


@pytest.mark.parametrize("nothing", [NOTHING, UNKNOWN], ids=["nothing", "unknown"])
def test_where_pools_list_nothing_the_list_before_is_given_and_they_are_asked_again_soon(nothing: bytes) -> None:
    kept = Kept()
    kept.put(A, 100.0)
    assert kept.put(nothing, 150.0) == A
    assert kept.fresh(150.0 + AGAIN_SECS - 0.001) == A
    assert kept.fresh(150.0 + AGAIN_SECS) is None


def test_the_list_before_is_given_until_it_is_stale_however_often_nothing_comes() -> None:
    kept = Kept()
    kept.put(A, 100.0)
    kept.put(NOTHING, 250.0)
    assert kept.put(NOTHING, 100.0 + STALE_SECS - 0.001) == A
    assert kept.fresh(100.0 + STALE_SECS) is None
    assert kept.put(NOTHING, 100.0 + STALE_SECS) == NOTHING


@pytest.mark.parametrize("nothing", [NOTHING, UNKNOWN], ids=["nothing", "unknown"])
def test_that_nothing_is_listed_is_kept_too_but_not_for_long(nothing: bytes) -> None:
    kept = Kept()
    assert kept.put(nothing, 0.0) == nothing
    assert kept.fresh(AGAIN_SECS - 0.001) == nothing
    assert kept.fresh(AGAIN_SECS) is None
    assert kept.put(A, AGAIN_SECS) == A
