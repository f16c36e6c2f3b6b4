"""The event stream format: whatever way it is cut, the same events come out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.client.errors import EventTooLong
from gdsvc.client.sse import EventParser, ServerSentEvent

Event = ServerSentEvent
LINE_ENDS = (b"\n", b"\r", b"\r\n")


def parsed(stream: bytes) -> list[ServerSentEvent]:
    return EventParser().feed(stream)


def fed(pieces: list[bytes]) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [Event("message", b"a", None, None)]),
        (b"data:a\n\n", [Event("message", b"a", None, None)]),
        (b"data:  a\n\n", [Event("message", b" a", None, None)]),
        (b"data\n\n", [Event("message", b"", None, None)]),
        (b"data: a\ndata: b\n\n", [Event("message", b"a\nb", None, None)]),
        (b"event: removed\ndata: {}\n\n", [Event("removed", b"{}", None, None)]),
        (b"event: first\nevent: second\ndata: a\n\n", [Event("second", b"a", None, None)]),
        (b"event: lost\n\ndata: a\n\n", [Event("message", b"a", None, None)]),
        (
            b"id: e-1\ndata: a\n\ndata: b\n\n",
            [Event("message", b"a", "e-1", None), Event("message", b"b", "e-1", None)],
        ),
        (b"id: e-1\n\n", [Event("", b"", "e-1", None)]),
        (b"id: e-1\n\nid\n\n", [Event("", b"", "e-1", None), Event("", b"", "", None)]),
        (b"id: a\0b\ndata: a\n\n", [Event("message", b"a", None, None)]),
        (b"retry: 2500\n\n", [Event("", b"", None, 2500)]),
        (
            b"retry: 2500\ndata: a\n\ndata: b\n\n",
            [Event("message", b"a", None, 2500), Event("message", b"b", None, None)],
        ),
        (b"retry: 1.5\nretry: -1\nretry: x\nretry:\nretry: 9999999999999999\n\n", []),
        ("retry: ١٢\n\n".encode(), []),
        (b": comment\n\n:\n\n", []),
        (b": comment\nid: e-2\n\n", [Event("", b"", "e-2", None)]),
        (b"unknown: x\nDATA: a\ndata : b\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("message", b"a", None, None)]),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"data: \xff\n\n", [Event("message", b"\xff", None, None)]),
        (b"event: \xff\nid: \xff\ndata: a\n\n", [Event("\ufffd", b"a", "\ufffd", None)]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r", [Event("message", text, None, None) for text in (b"a", b"b", b"c")]),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, events: list[ServerSentEvent]) -> None:
    assert parsed(stream) == events


lines = st.one_of(
    st.sampled_from(
        [
            b"",
            b"",
            b"data",
            b"data: x",
            b"data:{}",
            b"id: e-1",
            b"id",
            b"id: a\0",
            b"retry: 15",
            b"retry: x",
            b": c",
            b"event: e",
        ]
    ),
    st.binary(max_size=6).filter(lambda line: not set(line) & set(b"\r\n")),
)
streams = st.lists(st.tuples(lines, st.sampled_from(LINE_ENDS)), max_size=20).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


@given(streams, st.booleans())
def test_cut_at_every_point_a_stream_gives_the_same(stream: bytes, bom: bool) -> None:
    stream = b"\xef\xbb\xbf" * bom + stream
    whole = parsed(stream)
    for at in range(len(stream) + 1):
        assert fed([stream[:at], stream[at:]]) == whole
    assert fed([stream[at : at + 1] for at in range(len(stream))]) == whole


@given(streams, st.lists(st.integers(0, 200)))
def test_cut_anywhere_however_often_a_stream_gives_the_same(stream: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert fed(pieces) == parsed(stream)


@given(st.lists(st.tuples(lines, st.just(b"\n")), max_size=20), st.sampled_from(LINE_ENDS))
def test_line_ends_mean_the_same(parts: list[tuple[bytes, bytes]], end: bytes) -> None:
    assert parsed(b"".join(line + end for line, _ in parts)) == parsed(b"".join(line + b"\n" for line, _ in parts))


def test_an_event_as_long_as_is_allowed_is_read_and_a_longer_one_is_not() -> None:
    assert EventParser(20).feed(b"data: 0123456789abc\n\n")[0].data == b"0123456789abc"
    with pytest.raises(EventTooLong):
        EventParser(20).feed(b"data: 0123456789abcdefghijk\n\n")


def test_a_line_that_never_ends_is_not_held() -> None:
    parser = EventParser(1000)
    for _ in range(10):
        parser.feed(b"x" * 100)
    with pytest.raises(EventTooLong):
        parser.feed(b"x")


def test_many_lines_of_one_event_are_bounded_together() -> None:
    parser = EventParser(1000)
    for _ in range(100):
        parser.feed(b"data: 123456789\n")
    with pytest.raises(EventTooLong):
        parser.feed(b"data: 1\n")


def test_the_bound_is_that_of_one_event_not_of_the_stream() -> None:
    parser = EventParser(100)
    assert sum(len(parser.feed(b"data: 0123456789\n\n")) for _ in range(1000)) == 1000
