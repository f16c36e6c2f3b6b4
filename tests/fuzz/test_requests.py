"""Request lines, headers and framing that are nearly right, as bytes on raw sockets: answered below 500, or closed."""

import contextlib
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.process import Service
from tests.e2e.wire import registration, request_bytes
from tests.fuzz.conftest import tried_often

PATIENCE_SECS = 5.0
OPEN_SECS = 0.1  # a connection that is neither answered nor closed by then waits for more of a body: we end it
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(0)]

LAST = request_bytes("GET", "/live", headers={"Connection": "close"})

_bytes = st.binary(max_size=12)
_token = st.text("abcXYZ-_!09", min_size=1, max_size=10).map(str.encode)
_segments = st.sampled_from(
    (
        b"pools", b"routers", b"live", b"ready", b"health", b"metrics", b"openapi.json", b"ohio", b"dynamo", b"", b".",
        b"..", b"%2F", b"%", b"%zz", b"%00", b"%ff", b"%C3%A4", b"a%2", b"*", b"a:b@c", b";x", b"explain", b"watch",
    )
)  # fmt: skip
_segment = st.one_of(
    _segments, _token, st.binary(max_size=6).map(lambda raw: b"".join(b"%%%02X" % byte for byte in raw))
)
_path = st.one_of(
    st.lists(_segment, max_size=5).map(lambda parts: b"/" + b"/".join(parts)),
    st.sampled_from(
        (b"/pools", b"/pools", b"/pools/ohio/dynamo/a", b"/routers/a", b"*", b"test:80", b"http://test/pools")
    ),
    _bytes,
)
_pair = st.tuples(
    st.one_of(st.sampled_from((b"model", b"region", b"site_id", b"model%00", b"")), _token, _bytes),
    st.sampled_from((b"=", b"", b"==", b"=&")),
    st.one_of(_token, _segment, _bytes, st.just(b"a" * 3000)),
).map(b"".join)
_query = st.one_of(st.just(b""), st.lists(_pair, max_size=5).map(lambda pairs: b"?" + b"&".join(pairs)))
_target = st.tuples(_path, _query).map(b"".join)
_methods = (
    b"GET",
    b"GET",
    b"HEAD",
    b"POST",
    b"DELETE",
    b"PUT",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PATCH",
    b"get",
    b"BREW",
)
_method = st.one_of(st.sampled_from(_methods), _token)
_version = st.sampled_from((b"HTTP/1.1",) * 12 + (b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b""))

_NAMES = (
    b"Host", b"Accept", b"Accept-Encoding", b"If-None-Match", b"Content-Type", b"Connection", b"Expect", b"Upgrade",
    b"Cookie", b"Range", b"If-Match", b"TE", b"Trailer", b"Content-Encoding", b"X-Forwarded-For", b"Authorization",
)  # fmt: skip
_VALUES = (
    b"", b"*", b",", b";", b'"', b'W/"a"', b'"a", W/"b", ,', b'"' * 50, b"gzip", b"zstd;q=0", b"gzip;q=1.0001, *;q=0",
    b"identity;q=0, *;q=0", b"gzip;q=\xff", b"application/json", b"application/json;", b"a/b+json", b"+json", b"close",
    b"keep-alive, close", b"Upgrade", b"websocket", b"h2c", b"100-continue", b"200-ok", b"bytes=0-", b"a" * 5000,
    b"application/openmetrics-text; version=1.0.0", b"text/html;q=x", b"\xff\xfe", b"a, b", b"[::1]:80", b"a b",
)  # fmt: skip
_value = st.one_of(st.sampled_from(_VALUES), _token, _bytes)
_field = st.tuples(st.one_of(st.sampled_from(_NAMES), _token), st.just(b": "), _value, st.just(b"\r\n")).map(b"".join)
_HOST = b"Host: test\r\n"
_heads = st.tuples(st.sampled_from((_HOST,) * 9 + (b"",)), st.lists(_field, max_size=6).map(b"".join)).map(b"".join)

_FRAMING = (
    b"Content-Length: %d\r\n", b"Content-Length: 0%d\r\n", b"Content-Length: +%d\r\n", b"content-length:%d \r\n",
    b"Content-Length: %d, 0\r\n", b"Content-Length: 1%d\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: Chunked\r\n", b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: x\r\n", b"Transfer-Encoding:\tchunked\r\n", b"X:\n y\r\n", b"X: a\rb\r\n", b" folded\r\n",
)  # fmt: skip
_BODY = registration("inner").partition(b"\r\n\r\n")[2]
_CHUNKS = (
    b"%x\r\n%b\r\n" % (len(_BODY), _BODY), b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"-1\r\n", b"2;a=b\r\n{}\r\n",
    b"2 \r\n{}\r\n",
    b"ffffffffffffffffff\r\n", b"ffffffffffffffff\r\n", b"02\r\n{}\r\n", b"2\n{}\n", b"\r\n", b"zz\r\n",
    _BODY, b"0\r\n",
)  # fmt: skip


def _request(method: bytes, target: bytes, version: bytes, fields: bytes) -> bytes:
    return b"%b %b %b\r\n%b\r\n" % (method, target, version, fields)


requests = st.builds(_request, _method, _target, _version, _heads)


@st.composite
def framed(draw: st.DrawFn) -> bytes:
    """A POST whose length and chunks are in doubt."""
    framing = draw(st.lists(st.sampled_from(_FRAMING), min_size=1, max_size=3))
    fields = b"".join(field % len(_BODY) if b"%d" in field else field for field in framing)
    body = draw(st.one_of(st.just(_BODY), st.lists(st.sampled_from(_CHUNKS), max_size=4).map(b"".join)))
    return _request(b"POST", b"/pools", b"HTTP/1.1", _HOST + fields) + body


def exchange(service: Service, data: bytes) -> bytes:
    """All that comes back until the service closes, as it must; what it waits for is ended after OPEN_SECS."""
    received = b""
    with service.connect() as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        connection.send(data)
        connection.socket.settimeout(OPEN_SECS)
        with contextlib.suppress(TimeoutError):
            while chunk := connection.socket.recv(1 << 16):
                received += chunk
            return received
        connection.socket.shutdown(socket.SHUT_WR)
        connection.socket.settimeout(PATIENCE_SECS)
        while chunk := connection.socket.recv(1 << 16):
            received += chunk
    return received


def assert_answered(data: bytes, received: bytes) -> None:
    statuses = [int(status) for status in _STATUS.findall(received)]
    assert all(status < 500 for status in statuses), (data, received[:500])
    assert len(statuses) <= 4, (
        data,
        received[:500],
    )  # 100, the request, what a wrong length leaves of it, the last one


def test_any_request_is_answered_or_its_connection_closed(service: Service) -> None:
    @tried_often()
    @given(requests)
    def ask(request: bytes) -> None:
        data = request + LAST
        assert_answered(data, exchange(service, data))

    ask()


def test_bodies_of_doubtful_length_register_one_pool_at_most(service: Service) -> None:
    @tried_often()
    @given(framed())
    def ask(request: bytes) -> None:
        data = request + LAST
        assert_answered(data, exchange(service, data))

    ask()
    assert set(service.names()) <= {"inner"}


def test_any_bytes_are_answered_or_their_connection_closed(service: Service) -> None:
    @tried_often()
    @given(st.one_of(st.binary(max_size=300), st.tuples(requests, st.binary(min_size=1, max_size=40)).map(b"".join)))
    def send(data: bytes) -> None:
        received = exchange(service, data + b"\r\n\r\n")
        assert_answered(data, received)

    send()
