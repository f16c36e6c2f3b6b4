"""Lines and items come out whole, however the bytes were cut, and nothing grows beyond its bound."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.kube import framing
from gdsvc.kube.framing import Items, Lines, TooLarge, Unreadable
from gdsvc.kube.objects import ENDPOINT_SLICE, EndpointSlice


def item(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "demo", "resourceVersion": "1"}, "addressType": "IPv4", **more}


def listing(*items: object) -> dict[str, Any]:
    return {"kind": "EndpointSliceList", "metadata": {"resourceVersion": "7"}, "items": list(items)}


def split(body: bytes, size: int) -> tuple[str, list[EndpointSlice | Unreadable], int]:
    """The revision, the items, and how many of them came before the end."""
    items, found = Items(ENDPOINT_SLICE), list[EndpointSlice | Unreadable]()
    for begin in range(0, len(body), size):
        found += items.feed(body[begin : begin + size])
    early = len(found)
    metadata, rest = items.close()
    return metadata.resource_version, found + rest, early


def names(items: list[EndpointSlice | Unreadable]) -> list[str]:
    return [one.metadata.name if isinstance(one, EndpointSlice) else "?" for one in items]


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_items_come_out_whole_however_the_body_is_cut(size: int, indent: int | None) -> None:
    body = json.dumps(listing(*(item(f"s{n}") for n in range(5))), indent=indent).encode()
    revision, items, early = split(body, size)
    assert (revision, names(items), early) == ("7", ["s0", "s1", "s2", "s3", "s4"], 4)


def test_members_that_look_like_items_are_none() -> None:
    hostile = item("s0", annotations={"a": '},{"metadata":{}'}, endpoints=[{"metadata": 1}, {"metadata": 2}])
    revision, items, _ = split(json.dumps(listing(hostile, hostile, item("s2"))).encode(), 16)
    assert (revision, names(items)) == ("7", ["s0", "s0", "s2"])


def test_items_that_begin_differently_are_found_at_the_end() -> None:
    other = {"kind": "EndpointSlice", **item("s1")}
    assert names(split(json.dumps(listing(item("s0"), other, item("s2"))).encode(), 16)[1]) == ["s0", "s1", "s2"]


def test_a_list_that_names_its_revision_last_is_read_too() -> None:
    body = json.dumps({"items": [item("s0"), item("s1")], "metadata": {"resourceVersion": "9"}}).encode()
    assert split(body, 10)[0] == "9"


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_or_null_list_has_no_items(items: list[object] | None) -> None:
    body = json.dumps({"metadata": {"resourceVersion": "867"}, "items": items}).encode()
    assert split(body, 5) == ("867", [], 0)


def test_null_and_odd_items_are_named_and_cost_only_themselves() -> None:
    body = json.dumps(listing(item("s0"), item("bad", endpoints=7), item("s1"), None, item("s2"))).encode()
    _, items, _ = split(body, 32)
    assert names(items) == ["s0", "?", "s1", "?", "s2"]


def test_null_members_read_as_absent_ones() -> None:
    body = json.dumps(listing(item("s0", endpoints=None, ports=None), item("s1", endpoints=[{"conditions": None}])))
    _, items, _ = split(body.encode(), 1000)
    assert [one.endpoints is None for one in items if isinstance(one, EndpointSlice)] == [True, False]


@pytest.mark.parametrize("body", [b"", b"null", b"<html>", b'{"items":[{"metadata":{}}', b"[" * 10_000, b"\xff"])
def test_what_is_no_list_raises_one_kind_of_error(body: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        split(body, 1000)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3), max_size=6),
    st.integers(1, 80),
    st.sampled_from([None, 1]),
)
def test_no_label_and_no_cut_changes_what_is_read(labels: list[dict[str, str]], size: int, indent: int | None) -> None:
    """Against the obvious reference: json.loads of the whole."""
    whole = listing(*({"metadata": {"name": str(n), "labels": label}} for n, label in enumerate(labels)))
    _, items, _ = split(json.dumps(whole, indent=indent, ensure_ascii=False).encode(errors="replace"), size)
    assert [one.metadata.labels for one in items if isinstance(one, EndpointSlice)] == json.loads(
        json.dumps(labels, ensure_ascii=False).encode(errors="replace")
    )


def test_an_item_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_PENDING_BYTES", 1000)
    with pytest.raises(TooLarge):
        split(json.dumps(listing(item("s0", hint="x" * 2000))).encode(), 100)


def test_lines_come_out_whole_however_they_are_cut() -> None:
    text = b'{"a":1}\n\n{"b":2}\r\n{"c"'
    for size in range(1, len(text)):
        lines = Lines()
        found = [line for begin in range(0, len(text), size) for line in lines.feed(text[begin : begin + size])]
        assert (found, lines.close()) == ([b'{"a":1}', b'{"b":2}\r'], b'{"c"')


def test_a_stream_that_ends_at_a_newline_leaves_nothing() -> None:
    lines = Lines()
    assert lines.feed(b"{}\n \n") == [b"{}"]
    assert lines.close() is None


def test_a_line_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_PENDING_BYTES", 1000)
    lines = Lines()
    lines.feed(b"x" * 1000)
    with pytest.raises(TooLarge):
        lines.feed(b"x")


def test_a_list_full_of_false_beginnings_is_read_at_the_end() -> None:
    hostile = item("s0", endpoints=[{"metadata": n} for n in range(500)])
    _, items, early = split(json.dumps(listing(hostile, hostile)).encode(), 1000)
    assert (names(items), early) == (["s0", "s0"], 0)
