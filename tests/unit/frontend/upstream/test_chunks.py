"""Bodies in chunks, taken apart by the plain way and by llhttp, against a slow decoder and llhttp alone."""

import re
from itertools import pairwise
from typing import NamedTuple

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.frontend.upstream.failures import Malformed
from gdsvc.frontend.upstream.reply import Headers, reply_reader

BOUND = 65536
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZE = re.compile(rb"([0-9a-fA-F]+)(;[a-z]+=[a-z]+)?")
BEGINS_A_SIZE = re.compile(rb"([0-9a-fA-F]+(;([a-z]+(=[a-z]*)?)?|(;[a-z]+=[a-z]+)?\r)?)?")


class Outcome(NamedTuple):
    """What a decoder made of a stream; `end` is `whole`, `refused` or `more`."""

    data: bytes
    trailers: Headers
    end: str


# ------------------------------------------------------------------------------------------------- decoders


def plainly(stream: bytes) -> Outcome:
    """By the grammar of RFC 9112 section 7.1, slowly; extensions and trailers are those that `streams` makes."""
    data, rest = b"", stream
    while True:
        line, end, behind = rest.partition(b"\r\n")
        if not end:
            return Outcome(data, [], "more" if BEGINS_A_SIZE.fullmatch(rest) else "refused")
        size = SIZE.fullmatch(line)
        if size is None:
            return Outcome(data, [], "refused")
        left = int(size[1], 16)
        if not left:
            return _with_trailers(data, behind)
        data += behind[:left]
        if not b"\r\n".startswith(behind[left : left + 2]):
            return Outcome(data, [], "refused")
        if len(behind) < left + 2:
            return Outcome(data, [], "more")
        rest = behind[left + 2 :]


def _with_trailers(data: bytes, rest: bytes) -> Outcome:
    trailers: Headers = []
    while True:
        line, end, rest = rest.partition(b"\r\n")
        if not end or not line:
            return Outcome(data, trailers, "whole" if end else "more")
        name, _, value = line.partition(b": ")
        trailers.append((name, value))


class Llhttp:
    """llhttp alone, told every byte."""

    def __init__(self) -> None:
        self.data = b""
        self.fields: Headers = []
        self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_whole:
            self.fields.append((name, value))

    def on_body(self, part: bytes) -> None:
        if not self.is_whole:
            self.data += part

    def on_message_complete(self) -> None:
        self.is_whole = True


def by_llhttp(pieces: list[bytes]) -> Outcome:
    seen = Llhttp()
    parser = httptools.HttpResponseParser(seen)
    end = "more"
    try:
        for piece in pieces:
            parser.feed_data(piece)
            if seen.is_whole:
                break
    except httptools.HttpParserError:
        end = "refused"
    return Outcome(seen.data, seen.fields[1:], "whole" if seen.is_whole else end)


def by_the_reader(pieces: list[bytes]) -> Outcome:
    reader = reply_reader(BOUND)
    data = b""
    for piece in pieces:
        try:
            reader.feed(piece)
        except Malformed:
            return Outcome(data + reader.take(), reader.trailers, "refused")
        data += reader.take()
        if reader.complete:
            return Outcome(data, reader.trailers, "whole")
    return Outcome(data, reader.trailers, "more")


# ------------------------------------------------------------------------------------------------- streams


def cut(data: bytes, at: list[int]) -> list[bytes]:
    bounds = [0, *sorted({position % (len(data) + 1) for position in at}), len(data)]
    return [data[begin:end] for begin, end in pairwise(bounds) if begin < end]


@st.composite
def sizes(draw: st.DrawFn, size: int) -> bytes:
    """The line of a size, with what is allowed in it."""
    digits = draw(st.sampled_from([b"%x", b"%X"])) % size
    zeros = draw(st.sampled_from([b""] * 6 + [b"0", b"0" * 14, b"0" * 40]))
    extension = draw(st.sampled_from([b""] * 6 + [b";name=value"]))
    return zeros + digits + extension + b"\r\n"


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    size = draw(st.integers(1, 12) | st.integers(13, 300))
    data = draw(st.binary(min_size=1, max_size=4)) * size
    return draw(sizes(size)) + data[:size] + b"\r\n"


WRONG_ENDS = st.sampled_from(
    [
        b"3\r\nabcd\r\n",  # the data is longer than its size
        b"3\r\nab\r\n5\r\n",  # and shorter
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc\r0\r\n\r\n",
        b"3\r\nabc\r\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"-3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"g\r\n",
        b"3\rabc\r\n",
    ]
)
LAST = st.sampled_from([b"0\r\n\r\n"] * 3 + [b"000\r\n\r\n", b"0\r\nX-A: b\r\nx-c: d\r\n\r\n", b"0;a=b\r\n\r\n", b""])
BEHIND = st.sampled_from([b"", b"", b"5\r\nlater\r\n0\r\n\r\n", HEAD + b"1\r\nx\r\n0\r\n\r\n", b"\r\n", b"\0"])
GOOD = st.tuples(st.lists(chunks(), max_size=5).map(b"".join), LAST.filter(bool)).map(b"".join)
STREAMS = st.tuples(st.lists(chunks(), max_size=5).map(b"".join), WRONG_ENDS | LAST).map(b"".join)
CUTS = st.lists(st.integers(0, 2000), max_size=12)
EDITS = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 2), st.sampled_from(b"0159afAFgx;=: \r\n\0\xff")), max_size=3
)


def edited(stream: bytes, edits: list[tuple[int, int, int]]) -> bytes:
    """With bytes put in, some of them in the place of others."""
    for at, gone, letter in edits:
        begin = at % (len(stream) + 1)
        stream = stream[:begin] + bytes((letter,)) + stream[begin + gone :]
    return stream


@settings(max_examples=60)
@given(STREAMS, BEHIND, CUTS)
def test_chunks_are_what_a_slow_decoder_makes_of_them(stream: bytes, behind: bytes, at: list[int]) -> None:
    assert by_the_reader([HEAD, *cut(stream + behind, at)]) == plainly(stream + behind)


def agrees_with_llhttp(wire: bytes, at: list[int], apart: bool) -> None:
    """Whether the head comes `apart` from the body or is cut with it."""
    pieces = [HEAD, *cut(wire, at)] if apart else cut(HEAD + wire, at)
    assert by_the_reader(pieces) == by_llhttp(pieces)


EDITED = st.builds(edited, st.tuples(STREAMS, BEHIND).map(b"".join), EDITS)


@settings(max_examples=60)
@given(EDITED, CUTS, st.booleans())
def test_what_llhttp_refuses_is_refused_and_what_it_takes_is_the_same(wire: bytes, at: list[int], apart: bool) -> None:
    agrees_with_llhttp(wire, at, apart)


@pytest.mark.load
@pytest.mark.timeout(300)
@settings(max_examples=3000)
@given(EDITED, CUTS, st.booleans())
def test_of_thousands_of_streams_too_none_is_taken_otherwise_than_by_llhttp(
    wire: bytes, at: list[int], apart: bool
) -> None:
    agrees_with_llhttp(wire, at, apart)


@settings(max_examples=25)
@given(GOOD, st.binary(max_size=30), CUTS)
def test_nothing_that_follows_the_last_chunk_is_taken_for_body(stream: bytes, behind: bytes, at: list[int]) -> None:
    outcome = plainly(stream)
    assert outcome.end == "whole"
    assert by_the_reader([HEAD, *cut(stream + behind, at)]) == outcome


@pytest.mark.parametrize("behind", [b"", b"x", b"5\r\nlater\r\n0\r\n\r\n", HEAD])
def test_a_connection_that_says_more_than_the_last_chunk_is_not_used_again(behind: bytes) -> None:
    reader = reply_reader(BOUND)
    reader.feed(HEAD + b"3\r\nabc\r\n0\r\n\r\n" + behind)
    assert (reader.take(), reader.complete, reader.keep_alive) == (b"abc", True, not behind)


@pytest.mark.parametrize("end", [b"\n", b"\rx", b"x\n", b"xx", b"\r\r", b"\n\r", b"0\r\n\r\n", b"\0\0"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_chunk_that_does_not_end_where_its_size_says_is_refused(end: bytes, at_once: bool) -> None:
    wire = b"3\r\nabc" + end + b"0\r\n\r\n"
    pieces = [HEAD, wire] if at_once else [HEAD, *(wire[at : at + 1] for at in range(len(wire)))]
    assert by_the_reader(pieces) == by_llhttp(pieces) == Outcome(b"abc", [], "refused")


@pytest.mark.parametrize("digits", range(13, 19))
def test_the_largest_sizes_are_taken_or_refused_as_by_llhttp(digits: int) -> None:
    for size in (b"f" * digits, b"0" * 3 + b"F" * digits, b"1" + b"0" * (digits - 1)):
        pieces = [HEAD, size + b"\r\n", b"abc"]
        assert by_the_reader(pieces) == by_llhttp(pieces)
