"""However the bytes of a reply are cut on their way, the same reply comes out."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.frontend.upstream.failures import Malformed
from gdsvc.frontend.upstream.reply import Headers, reply_reader

BOUND = 65536

tokens = st.text("abcXYZ-09", min_size=1, max_size=12).map(str.encode).filter(lambda name: name != b"0")
values = st.text("ab \xff:;,", max_size=20).map(lambda text: text.strip(" ").encode("latin-1"))
fields = st.lists(st.tuples(tokens.map(lambda name: b"X" + name), values), max_size=4)


class Expected(NamedTuple):
    """A reply as it goes over the wire, and as it should come out."""

    wire: bytes
    status: int
    headers: Headers
    body: bytes
    trailers: Headers


def lines(headers: Headers) -> bytes:
    return b"".join(name + b": " + value + b"\r\n" for name, value in headers)


@st.composite
def replies(draw: st.DrawFn) -> Expected:
    status = draw(st.sampled_from([200, 206, 404, 503]))
    headers, parts = draw(fields), draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n"]))
    trailers: Headers = []
    body = b"".join(parts)
    if draw(st.booleans()):
        trailers = draw(fields)
        headers = [*headers, (b"Transfer-Encoding", b"chunked")]
        coded = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + lines(trailers) + b"\r\n"
    else:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        coded = body
    head = b"HTTP/1.1 %d Some Reason\r\n" % status + lines(headers) + b"\r\n"
    return Expected(interim + head + coded, status, headers, body, trailers)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    bounds = [0, *sorted({position % (len(data) + 1) for position in at}), len(data)]
    return [data[begin:end] for begin, end in pairwise(bounds) if begin < end]


@settings(max_examples=50)
@given(st.lists(replies(), min_size=1, max_size=3), st.lists(st.integers(0, 10_000), max_size=30))
def test_cuts_change_nothing(several: list[Expected], at: list[int]) -> None:
    reader = reply_reader(BOUND)
    for expected in several:
        reader.begin(head_only=False)
        body = b""
        for piece in cut(expected.wire, at):
            assert not reader.complete
            reader.feed(piece)
            body += reader.take()
        assert (reader.status, reader.headers, body, reader.trailers) == expected[1:]
        assert (reader.complete, reader.keep_alive) == (True, True)


@pytest.mark.parametrize("at", range(1, 5))
def test_what_looks_like_the_end_of_a_head_in_a_body_is_its_own_wherever_the_head_is_cut(at: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"chunked\r\n\r\n5\r\nhello\r\nrest"
    reader = reply_reader(BOUND)
    reader.feed(head[:-at])
    reader.feed(head[-at:] + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert (reader.take(), reader.complete) == (body, True)


def test_a_tab_behind_the_coding_is_refused_as_it_would_leave_the_body_without_an_end() -> None:
    with pytest.raises(Malformed):
        reply_reader(BOUND).feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n")


@settings(max_examples=50)
@given(replies(), st.integers(0, 10_000))
def test_a_reply_that_is_cut_short_is_never_complete(expected: Expected, at: int) -> None:
    reader = reply_reader(BOUND)
    reader.feed(expected.wire[: at % len(expected.wire)])
    assert not reader.end()


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_malformed(data: bytes) -> None:
    for beginning in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        reader = reply_reader(BOUND)
        try:
            reader.feed(beginning + data)
        except Malformed:
            continue
        reader.end()


def test_the_end_of_the_stream_ends_a_body_without_a_length_only() -> None:
    for framing, whole in ((b"", True), (b"Content-Length: 5\r\n", False), (b"Transfer-Encoding: chunked\r\n", False)):
        reader = reply_reader(BOUND)
        reader.feed(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
        assert reader.end() is whole


def test_the_end_of_the_stream_in_a_head_ends_nothing() -> None:
    reader = reply_reader(BOUND)
    reader.feed(b"HTTP/1.1 200 OK\r\nA: b\r\n")
    assert not reader.end()


def test_a_body_without_a_length_is_framed_anew_after_an_interim_reply_that_has_one() -> None:
    reader = reply_reader(BOUND)
    reader.feed(b"HTTP/1.1 103 E\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody")
    assert not reader.complete
    assert reader.end()
    assert reader.take() == b"body"


def test_headers_of_the_reply_before_stay_with_who_has_them() -> None:
    reader = reply_reader(BOUND)
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    before = reader.headers
    reader.begin(head_only=False)
    reader.feed(b"HTTP/1.1 404 No\r\nA: b\r\nContent-Length: 0\r\n\r\n")
    assert before == [(b"Content-Length", b"0")]


@pytest.mark.parametrize("size", [BOUND, BOUND + 1])
def test_the_headers_have_a_bound(size: int) -> None:
    reader = reply_reader(BOUND)
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: "
        + b"x" * (size - len("Content-Length: 0\r\nX: \r\n"))
        + b"\r\n\r\n"
    )
    if size > BOUND:
        with pytest.raises(Malformed):
            reader.feed(head)
    else:
        reader.feed(head)
        assert reader.complete


@pytest.mark.parametrize(
    "beginning", [b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"HTTP/1.1 200 "]
)
def test_what_brings_no_body_on_has_a_bound_wherever_it_stands(beginning: bytes) -> None:
    reader = reply_reader(BOUND)
    reader.feed(beginning)
    piece = b"x" * 1000 if beginning else b"\r\n" * 500
    for _ in range(65):
        reader.feed(piece)
    with pytest.raises(Malformed):
        reader.feed(piece)


def test_a_reply_complete_in_the_same_bytes_as_garbage_is_sound_and_ends_the_connection() -> None:
    for behind in (b"HTTP/1.1 200 OK\r\n", b"garbage", b"0"):
        for connection in (b"", b"Connection: close\r\n"):
            reader = reply_reader(BOUND)
            reader.feed(b"HTTP/1.1 200 OK\r\n" + connection + b"Content-Length: 2\r\n\r\nok" + behind)
            assert (reader.complete, reader.keep_alive, reader.take()) == (True, False, b"ok")


def test_a_head_without_a_body_is_complete_at_once_and_the_next_reply_is_read() -> None:
    for framing in (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"):
        reader = reply_reader(BOUND)
        reader.begin(head_only=True)
        reader.feed(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
        assert (reader.complete, reader.keep_alive) == (True, True)
        reader.begin(head_only=False)
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        assert (reader.complete, reader.keep_alive, reader.take()) == (True, True, b"ok")


@pytest.mark.parametrize("behind", [b"hello", b"5", b"5\r\n", b"5\r\nhello\r\n0\r\n\r\n"])
def test_a_body_behind_a_head_that_has_none_ends_the_connection(behind: bytes) -> None:
    for framing in (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"):
        reader = reply_reader(BOUND)
        reader.begin(head_only=True)
        reader.feed(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + behind)
        assert (reader.complete, reader.keep_alive, reader.held) == (True, False, 0)
