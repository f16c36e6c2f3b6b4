"""Codings, entity tags and media types: what counts as a match, and that bad input is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.asgi.negotiation import content_coding, is_json, none_match


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        (None, "identity"),
        (b"", "identity"),
        (b"gzip", "gzip"),
        (b"x-gzip", "gzip"),
        (b"gzip, deflate, br, zstd", "zstd"),
        (b"GZIP ; Q=1.0", "gzip"),
        (b"gzip;q=1.0, zstd;q=0.9", "gzip"),
        (b"gzip;q=0.5, zstd;q=0.5", "zstd"),
        (b"deflate, br", "identity"),
        (b"*", "zstd"),
        (b"zstd;q=0, *", "gzip"),
        (b"*;q=0.5, gzip;q=0.1", "zstd"),
        (b"gzip;q=0", "identity"),
        (b"gzip;q=0.000, zstd;q=0", "identity"),
        (b"*;q=0", "identity"),
        (b"identity, gzip", "gzip"),
        (b"identity;q=0.5, gzip;q=0.4", "identity"),
        (b"identity;q=0, gzip;q=0.001", "gzip"),
    ],
)
def test_the_coding_most_wanted_is_chosen_and_zstd_among_equals(accept_encoding: bytes | None, coding: str) -> None:
    assert content_coding(accept_encoding) == coding


@pytest.mark.parametrize("quality", [b"2", b"-1", b"1.001", b"0.1234", b"nan", b"inf", b"", b"0x1", b" 1", b".5"])
def test_an_item_with_a_malformed_quality_is_left_out(quality: bytes) -> None:
    assert content_coding(b"zstd;q=" + quality + b", gzip;q=0.1") == "gzip"


@given(st.binary())
def test_no_accept_encoding_raises(accept_encoding: bytes) -> None:
    assert content_coding(accept_encoding) in {"zstd", "gzip", "identity"}


def test_a_long_value_is_read_like_a_short_one() -> None:
    assert content_coding(b"br;q=0.1, " * 20_000 + b"gzip") == "gzip"


@pytest.mark.parametrize(
    "if_none_match",
    [b'"a"', b'W/"a"', b"*", b" * ", b'"b", "a"', b'"b","a"', b'"x,y", W/"a" ', b', ,"a",,', b'"\xe4", "a"'],
)
def test_a_list_that_names_the_tag_matches(if_none_match: bytes) -> None:
    assert none_match(if_none_match, b'"a"')
    assert none_match(if_none_match, b'W/"a"')


@pytest.mark.parametrize(
    "if_none_match",
    [
        b"",
        b"a",
        b'"b"',
        b'"A"',
        b'w/"a"',
        b'"a',
        b'a"',
        b'"b,"a"',
        b'"a" "b"',
        b'"a", b',
        b'*, "a"',
        b'"x "a" y"',
        b"W/",
    ],
)
def test_a_list_without_the_tag_or_malformed_does_not_match(if_none_match: bytes) -> None:
    assert not none_match(if_none_match, b'"a"')


def test_a_comma_within_quotes_is_part_of_a_tag() -> None:
    assert none_match(b'"b", "a,c"', b'"a,c"')
    assert not none_match(b'"a,c"', b'"a"')


@given(st.binary(), st.binary())
def test_no_condition_raises(if_none_match: bytes, etag: bytes) -> None:
    none_match(if_none_match, b'"' + etag + b'"')


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"application/json",
        b"Application/JSON; charset=utf-8",
        b" application/json ;x=y",
        b"application/merge-patch+json",
        b"application/vnd.api+json;version=1",
    ],
)
def test_json_types_with_any_parameter_and_a_missing_type_are_json(content_type: bytes | None) -> None:
    assert is_json(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        b"text/plain",
        b"application/jsonp",
        b"text/json",
        b"json",
        b"+json",
        b"/+json",
        b"a/+json",
        b"a b/c+json",
        b"*/*",
    ],
)
def test_other_types_are_not_json(content_type: bytes) -> None:
    assert not is_json(content_type)
