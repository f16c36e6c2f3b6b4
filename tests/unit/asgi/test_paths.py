"""Targets are split before they are decoded; nothing a caller can send raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.asgi.paths import query_values, split_path


@pytest.mark.parametrize(
    ("raw_path", "segments"),
    [
        (b"/", ("",)),
        (b"/pools", ("pools",)),
        (b"/pools/", ("pools", "")),
        (b"/pools/a/b%2Fc/d", ("pools", "a", "b/c", "d")),
        (b"/pools/a%20b/%E2%82%AC", ("pools", "a b", "€")),
        (b"/caf\xc3\xa9", ("café",)),
        (b"//a", ("", "a")),
        (b"/a/../b/.", ("a", "..", "b", ".")),
        (b"/a+b", ("a+b",)),
        (b"/%252F", ("%2F",)),
        (b"/%00", ("\0",)),
    ],
)
def test_segments_are_split_before_they_are_decoded(raw_path: bytes, segments: tuple[str, ...]) -> None:
    assert split_path(raw_path) == segments


@pytest.mark.parametrize(
    "raw_path", [b"", b"*", b"pools", b"/%", b"/%4", b"/%zz", b"/a%2", b"/%FF", b"/\xff", b"/%C3/"]
)
def test_what_is_no_absolute_path_or_does_not_decode_is_none(raw_path: bytes) -> None:
    assert split_path(raw_path) is None


@given(st.binary())
def test_no_path_raises(raw_path: bytes) -> None:
    split_path(b"/" + raw_path)


NAMES = frozenset({"model", "region"})


@pytest.mark.parametrize(
    ("query_string", "values"),
    [
        (b"", {}),
        (b"other=1&Model=2", {}),
        (b"model=a&region=us&model=b", {"model": ("a", "b"), "region": ("us",)}),
        (b"model=a%2Fb+c%26", {"model": ("a/b c&",)}),
        (b"mo%64el=a", {"model": ("a",)}),
        (b"model&region=", {"model": ("",), "region": ("",)}),
        (b"model=a=b", {"model": ("a=b",)}),
        (b"&&model=a&", {"model": ("a",)}),
        (b"model=%FF&region=%4", {"model": ("\ufffd",), "region": ("%4",)}),
    ],
)
def test_only_the_named_parameters_are_kept_in_the_order_sent(
    query_string: bytes, values: dict[str, tuple[str, ...]]
) -> None:
    assert query_values(query_string, NAMES) == values


@given(st.binary())
def test_no_query_raises(query_string: bytes) -> None:
    assert query_values(query_string, NAMES).keys() <= NAMES
