"""What a request says is what it was given, or it is not written: beside a reference that joins and looks again."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.request import OURS, WRITER, Body, RequestHead, Streamed, host_line, unsendable

HOST = host_line(Origin.of("http://pool.test:8000"))
JOINED = 16384

pieces = st.one_of(
    st.binary(max_size=8),
    st.text("aZ-\r\n\0 :", max_size=8).map(str.encode),
    st.sampled_from(sorted(OURS)).map(bytes.title),
    st.sampled_from([b"Accept", b"hose", b"x-forwarded-for", b"Content-Lengths", b"upgraded"]),
)
heads = st.builds(
    RequestHead,
    st.one_of(st.sampled_from([b"GET", b"POST", b"delete"]), pieces),
    st.one_of(st.just(b"/v1/x?y=%20"), pieces),
    st.lists(st.tuples(pieces, pieces), max_size=5),
    st.booleans(),
)


def streamed(length: int | None) -> Streamed:
    return Streamed(_Nothing(), length)


class _Nothing:
    """A source that nobody reads."""

    def __aiter__(self) -> "_Nothing":
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


bodies: st.SearchStrategy[Body] = st.one_of(
    st.binary(max_size=20), st.one_of(st.none(), st.integers(-2, 2**40)).map(streamed)
)


def slow(head: RequestHead, body: Body) -> bytes | None:
    """The same, as plainly as it can be said."""
    lines = [name + b": " + value for name, value in head.headers]
    if any(name.lower() in OURS for name, _ in head.headers):
        return None
    if any(byte in line for line in (head.target, *lines) for byte in b"\r\n\0"):
        return None
    if not head.method.isalpha() or not head.target or b" " in head.target:
        return None
    sent = b""
    if isinstance(body, bytes):
        says_length = bool(body) or head.method not in (b"GET", b"HEAD", b"DELETE", b"OPTIONS")
        lines += [b"Content-Length: %d" % len(body)] if says_length else []
        sent = b"" if head.expect_continue else body
    elif body.length is not None and body.length < 0:
        return None
    else:
        says_length = True
        lines.append(b"Transfer-Encoding: chunked" if body.length is None else b"Content-Length: %d" % body.length)
    lines += [b"Expect: 100-continue"] if says_length and head.expect_continue else []
    return head.method + b" " + head.target + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + sent


@given(heads, bodies)
def test_a_request_is_what_its_parts_say_or_is_not_written(head: RequestHead, body: Body) -> None:
    assert WRITER.write(head, HOST, body) == slow(head, body)


@given(heads)
def test_what_is_not_written_has_a_reason_on_one_line(head: RequestHead) -> None:
    if WRITER.write(head, HOST, b"") is None:
        assert str(unsendable(head)).isprintable()


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_header_of_ours_is_refused_in_any_case(name: bytes) -> None:
    for spelled in (name, name.upper(), name.title()):
        assert WRITER.write(RequestHead(b"GET", b"/", [(spelled, b"x")]), HOST, b"") is None
    assert WRITER.write(RequestHead(b"GET", b"/", [(name + b"s", b"x")]), HOST, b"") is not None


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0"])
def test_a_byte_that_could_end_a_line_is_refused_wherever_it_stands(byte: bytes) -> None:
    for where in (byte, b"a" + byte, byte + b"a", b"a" * 100 + byte + b"a"):
        for head in (
            RequestHead(where, b"/"),
            RequestHead(b"GET", where),
            RequestHead(b"GET", b"/", [(where, b"x")]),
            RequestHead(b"GET", b"/", [(b"A", b"x"), (b"B", where), (b"C", b"x")]),
        ):
            assert WRITER.write(head, HOST, b"") is None


@pytest.mark.parametrize(("size", "joined"), [(JOINED, True), (JOINED + 1, False)])
def test_a_small_body_goes_out_with_its_head(size: int, joined: bool) -> None:
    written = WRITER.write(RequestHead(b"POST", b"/"), HOST, b"x" * size)
    assert written is not None
    assert written.endswith(b"\r\n\r\n" + b"x" * (size if joined else 0))


@pytest.mark.parametrize("parts", [("GET", b"/", ()), (b"GET", b"/", [("a", b"b")]), (b"GET", b"/", [(b"a", None)])])
def test_what_is_no_bytes_is_a_type_error(parts: tuple[bytes, bytes, Sequence[tuple[bytes, bytes]]]) -> None:
    with pytest.raises(TypeError):
        WRITER.write(RequestHead(*parts), HOST, b"")


def test_headers_that_are_others_at_a_second_look_are_not_written() -> None:
    class Longer:
        """A name and a value, each time longer."""

        size = 0

        def __iter__(self) -> Iterator[bytes]:
            Longer.size += 100_000
            return iter((b"a", b"b" * Longer.size))

    header: tuple[bytes, bytes] = Longer()  # type: ignore[assignment]
    assert WRITER.write(RequestHead(b"GET", b"/", [header]), HOST, b"") is None
