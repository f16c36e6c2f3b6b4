"""The table of hostile requests: bytes as an attacker or a broken client sends them, and what then happens.

Most carry a second registration behind the first message. Where its framing is in doubt, nothing behind it is served.
`-000` in names is replaced by the number of the case, so that no two cases register the same pool.
"""

import json
from typing import NamedTuple

from tests.e2e.wire import pool, registration, request_bytes

OUTER = "outer-000"  # the pool of the message itself
SECOND = "second-000"  # the pool of what is smuggled, or merely pipelined, behind it


class Case(NamedTuple):
    """`statuses` are all that is answered; `reached` counts the requests that got past the server to a handler."""

    name: str
    data: bytes
    statuses: tuple[int, ...]
    reached: int
    registered: tuple[str, ...] = ()
    closed: bool = False  # by the service; else the connection serves one more request
    half_closed: bool = False  # by us behind the data: what is incomplete would else be waited for


_BODY = json.dumps(pool(OUTER)).encode()
_NEXT = registration(SECOND)
_SIZE = len(_BODY)
_LENGTH = b"Content-Length: %d\r\n" % _SIZE
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)
_BEHIND = b"Content-Length: %d\r\n\r\n%b" % (len(_NEXT), _NEXT)  # a whole request as the body of another


def _post(fields: bytes, body: bytes = _BODY) -> bytes:
    return b"POST /pools HTTP/1.1\r\nHost: test\r\n" + fields + b"\r\n" + body


def _get(line: bytes, fields: bytes = b"Host: test\r\n") -> bytes:
    return line + b" HTTP/1.1\r\n" + fields + b"\r\n"


def _fields(count: int, size: int = 1) -> bytes:
    return b"".join(b"X-%d: %b\r\n" % (number, b"y" * size) for number in range(count))


def _refused(name: str, data: bytes, status: int = 400) -> Case:
    """Refused by the server itself: closed, and nothing of it or behind it reaches a handler."""
    return Case(name, data, (status,), reached=0, closed=True)


def _closed(name: str, data: bytes, status: int = 400) -> Case:
    """Refused by us, and the connection with it, since what follows cannot be trusted."""
    return Case(name, data, (status,), reached=1, closed=True)


def _broken(name: str, data: bytes, *, half_closed: bool = False) -> Case:
    """The head is fine, the body is not: the handler sees it end early, and nothing behind it is served."""
    return Case(name, data, (400,), reached=1, closed=True, half_closed=half_closed)


def _both(name: str, data: bytes) -> Case:
    """Understood as it was meant, and so is what follows, once."""
    return Case(name, data, (200, 200), reached=2, registered=(OUTER, SECOND))


LENGTHS = (
    _both("lengths-equal", _post(_LENGTH * 2) + _NEXT),
    _refused("lengths-different", _post(_LENGTH + b"Content-Length: 0\r\n") + _NEXT),
    _refused("lengths-different-zero-first", _post(b"Content-Length: 0\r\n" + _LENGTH) + _NEXT),
    _refused("length-list", _post(b"Content-Length: %d, %d\r\n" % (_SIZE, _SIZE)) + _NEXT),
    _refused("length-signed", _post(b"Content-Length: +%d\r\n" % _SIZE) + _NEXT),
    _refused("length-negative", _post(b"Content-Length: -1\r\n") + _NEXT),
    _refused("length-hexadecimal", _post(b"Content-Length: 0x10\r\n") + _NEXT),
    _refused("length-empty", _post(b"Content-Length:\r\n") + _NEXT),
    _refused("length-beyond-64-bits", _post(b"Content-Length: 99999999999999999999999\r\n") + _NEXT),
    _refused("length-of-64-bits", _post(b"Content-Length: 18446744073709551615\r\n") + _NEXT, 431),
    Case("length-and-chunks", _post(_LENGTH + _CHUNKED, _CHUNKS) + _NEXT, (200,), 1, (OUTER,), closed=True),
    Case("chunks-and-length", _post(_CHUNKED + _LENGTH, _CHUNKS) + _NEXT, (200,), 1, (OUTER,), closed=True),
    _broken("length-that-hides-a-request", _post(b"Content-Length: 5\r\n" + _CHUNKED, b"0\r\n\r\n" + _NEXT)),
    _broken("length-unmet", _post(b"Content-Length: %d\r\n" % (_SIZE + 1)), half_closed=True),
)

CODINGS = (
    _closed("te-twice", _post(_CHUNKED * 2, _CHUNKS) + _NEXT),
    _closed("te-chunked-chunked", _post(b"Transfer-Encoding: chunked, chunked\r\n", _CHUNKS) + _NEXT),
    _closed("te-gzip-chunked", _post(b"Transfer-Encoding: gzip, chunked\r\n", _CHUNKS) + _NEXT),
    _refused("te-chunked-gzip", _post(b"Transfer-Encoding: chunked, gzip\r\n", _CHUNKS) + _NEXT),
    _refused("te-identity", _post(b"Transfer-Encoding: identity\r\n", _NEXT)),
    _refused("te-identity-and-length", _post(b"Transfer-Encoding: identity\r\n" + _LENGTH) + _NEXT),
    _refused("te-unknown-and-length", _post(b"Transfer-Encoding: xchunked\r\n" + _LENGTH) + _NEXT),
    _refused("te-vertical-tab", _post(b"Transfer-Encoding: \x0bchunked\r\n", _CHUNKS) + _NEXT),
    _refused("te-empty-and-length", _post(b"Transfer-Encoding:\r\n" + _LENGTH) + _NEXT),
    _refused("te-quoted-and-length", _post(b'Transfer-Encoding: "chunked"\r\n' + _LENGTH) + _NEXT),
    _refused("te-folded", _post(b"Transfer-Encoding:\r\n chunked\r\n", _CHUNKS) + _NEXT),
    _refused("te-space-before-colon", _post(_LENGTH + b"Transfer-Encoding : chunked\r\n") + _NEXT),
    _refused("te-in-http-1.0", _post(_CHUNKED, _CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0") + _NEXT),
)

CHUNKS = (
    _both("chunk-extension", _post(_CHUNKED, b"%x;a=b\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _both("chunk-size-and-space", _post(_CHUNKED, b"%x \r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _both("trailers", _post(_CHUNKED, _CHUNKS[:-2] + b"Content-Length: 500\r\nHost: evil\r\n\r\n") + _NEXT),
    _broken("chunk-negative", _post(_CHUNKED, b"-%x\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-signed", _post(_CHUNKED, b"+%x\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-beyond-64-bits", _post(_CHUNKED, b"1%016x\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-of-64-bits", _post(_CHUNKED, b"ffffffffffffffff\r\n" + _BODY) + _NEXT, half_closed=True),
    _broken("chunk-0x", _post(_CHUNKED, b"0x%x\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-size-empty", _post(_CHUNKED, b"\r\n" + _BODY) + _NEXT),
    _broken("chunk-unended", _post(_CHUNKED, b"%x\r\n%b0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-bare-lf", _post(_CHUNKED, _CHUNKS.replace(b"\r\n", b"\n")) + _NEXT),
    _broken("chunk-extension-lf", _post(_CHUNKED, b"%x;\n\r\n%b\r\n0\r\n\r\n" % (_SIZE, _BODY)) + _NEXT),
    _broken("chunk-extension-100-kb", _post(_CHUNKED, b"%x;%b\r\n" % (_SIZE, b"a" * 100_000) + _CHUNKS) + _NEXT),
    _broken("final-chunk-missing", _post(_CHUNKED, _CHUNKS[:-5]), half_closed=True),
    _broken("final-chunk-missing-before-a-request", _post(_CHUNKED, _CHUNKS[:-5]) + _NEXT),
    _broken("trailers-2000", _post(_CHUNKED, _CHUNKS[:-2] + b"X: y\r\n" * 2000 + b"\r\n") + _NEXT),
    _broken("trailer-1-mb", _post(_CHUNKED, _CHUNKS[:-2] + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n") + _NEXT),
)

HEADS = (
    _both("bare-lf", _post(_LENGTH, b"").replace(b"\r\n", b"\n") + _BODY + _NEXT),
    _both("bare-lf-once", _post(b"X: a\n" + _LENGTH) + _NEXT),
    _both("crlf-before-the-request", b"\r\n\r\n" + _post(_LENGTH) + _NEXT),
    _refused("bare-lf-hides-a-length", _post(b"X: a\nContent-Length: 0\r\n" + _LENGTH) + _NEXT),
    _refused("bare-cr", _post(b"X: a\rb\r\n" + _LENGTH) + _NEXT),
    _refused("bare-cr-line-ends", _post(_LENGTH, b"").replace(b"\r\n", b"\r") + _BODY + _NEXT),
    _refused("folded-line", _post(b"X: a\r\n b\r\n" + _LENGTH) + _NEXT),
    _refused("folded-first-line", _post(_LENGTH).replace(b"Host", b" Host") + _NEXT),
    _refused("space-before-colon", _post(b"Content-Length : %d\r\n" % _SIZE) + _NEXT),
    _refused("space-before-the-request", b" " + _post(_LENGTH) + _NEXT),
    _refused("nul-in-value", _post(b"X: a\0b\r\n" + _LENGTH) + _NEXT),
    _refused("nul-in-name", _post(b"X\0: b\r\n" + _LENGTH) + _NEXT),
    _refused("name-empty", _post(b": b\r\n" + _LENGTH) + _NEXT),
    _refused("colon-missing", _post(b"nothing\r\n" + _LENGTH) + _NEXT),
    Case("fields-100", _post(_LENGTH + _fields(98)) + _NEXT, (200, 200), 2, (OUTER, SECOND)),
    _refused("fields-101", _post(_LENGTH + _fields(99)) + _NEXT, 431),
    _refused("fields-120", _post(_LENGTH + _fields(118)) + _NEXT, 431),
    _both("field-16-kib", _post(_LENGTH + b"X: " + b"y" * 16384 + b"\r\n") + _NEXT),
    _both("fields-of-60-kb-in-all", _post(_LENGTH + _fields(80, 740)) + _NEXT),
    _refused(
        "field-256-kib", _post(_LENGTH + b"X: " + b"y" * 262144 + b"\r\n") + _NEXT, 431
    ),  # the server's own limit is more
    _refused("field-512-kib", _post(_LENGTH + b"X: " + b"y" * 524288 + b"\r\n") + _NEXT, 431),
    _refused("fields-of-512-kib-in-all", _post(_LENGTH + _fields(80, 6560)) + _NEXT, 431),
    _refused("name-64-kib", _post(_LENGTH + b"X" * 65536 + b": y\r\n") + _NEXT, 431),
    Case("host-missing", _get(b"GET /pools", b"") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-empty", _get(b"GET /pools", b"Host:\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-twice", _get(b"GET /pools", b"Host: a\r\nHost: b\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-twice-the-same", _get(b"GET /pools", b"Host: a\r\nHost: a\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-empty-and-host", _get(b"GET /pools", b"Host:\r\nHost: a\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-with-space", _get(b"GET /pools", b"Host: a b\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case("host-with-path", _get(b"GET /pools", b"Host: a/b\r\n") + _NEXT, (400, 200), 2, (SECOND,)),
    Case(
        "values-of-high-bytes", _get(b"GET /routers", b"Host: a\r\nIf-None-Match: \xff\r\nAccept: \xfe\r\n"), (200,), 1
    ),
)

LINES = (
    _refused("path-100-kb", _get(b"GET /" + b"a" * 100_000) + _NEXT, 414),
    _refused("query-100-kb", _get(b"GET /pools?model=" + b"a" * 100_000) + _NEXT, 414),
    Case("path-60-kb", _get(b"GET /" + b"a" * 60_000) + _NEXT, (404, 200), 2, (SECOND,)),
    _refused("path-of-high-bytes", _get(b"GET /\xff\xfe") + _NEXT),
    _refused("path-with-nul", _get(b"GET /po\0ols") + _NEXT),
    _refused("path-with-backslash", _get(b"GET \\pools") + _NEXT),
    Case("path-relative", _get(b"GET pools") + _NEXT, (404, 200), 2, (SECOND,)),
    Case("absolute", _get(b"GET http://test/routers") + _NEXT, (200, 200), 2, (SECOND,)),
    Case("absolute-elsewhere", _get(b"GET http://elsewhere/routers") + _NEXT, (200, 200), 2, (SECOND,)),
    Case("absolute-without-path", _get(b"GET http://test") + _NEXT, (404, 200), 2, (SECOND,)),
    Case("absolute-registration", _post(_LENGTH).replace(b"/pools", b"http://test/pools"), (200,), 1, (OUTER,)),
    Case("asterisk", _get(b"OPTIONS *") + _NEXT, (404, 200), 2, (SECOND,)),
    _closed("connect", _get(b"CONNECT test:80") + _NEXT, 405),
    _closed("connect-to-a-route", _get(b"CONNECT /pools") + _NEXT, 405),
    _closed("trace", _get(b"TRACE /pools") + _NEXT, 405),
    _closed("trace-asterisk", _get(b"TRACE *") + _NEXT, 405),
    _refused("http-0.9", b"GET /pools\r\n" + _NEXT),
    _refused("http-0.9-by-name", b"GET /pools HTTP/0.9\r\n\r\n" + _NEXT),
    _refused("http-1.2", _get(b"GET /pools").replace(b"HTTP/1.1", b"HTTP/1.2") + _NEXT),
    _refused("http-2.0", _get(b"GET /pools").replace(b"HTTP/1.1", b"HTTP/2.0") + _NEXT),
    _refused("http-in-small-letters", _get(b"GET /pools").replace(b"HTTP/1.1", b"http/1.1") + _NEXT),
    Case("http-2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + _NEXT, (), 0, closed=True),
    _refused("tls-hello", bytes.fromhex("16030100c8010000c40303") + bytes(193) + _NEXT),
    _refused("two-spaces", _get(b"GET  /pools") + _NEXT),
    _refused("tabs", b"GET\t/pools\tHTTP/1.1\r\nHost: test\r\n\r\n" + _NEXT),
    _refused("method-with-bracket", _get(b"GE(T /pools") + _NEXT),
    Case("method-of-30-kb", _get(b"A" * 30_000 + b" /pools") + _NEXT, (405, 200), 2, (SECOND,)),
)

_UPGRADE = (
    b"Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
)

BODIES = (
    Case("upgrade-to-websocket", _get(b"GET /routers", _UPGRADE) + _NEXT, (200, 200), 2, (SECOND,)),
    Case(
        "upgrade-to-http-2",
        _get(b"GET /routers", _UPGRADE.replace(b"websocket", b"h2c")) + _NEXT,
        (200, 200),
        2,
        (SECOND,),
    ),
    Case("request-as-body-of-get", b"GET /routers HTTP/1.1\r\nHost: test\r\n" + _BEHIND, (200,), 1),
    Case("request-as-body-of-head", b"HEAD /routers HTTP/1.1\r\nHost: test\r\n" + _BEHIND, (200,), 1),
    Case("request-as-body-of-delete", b"DELETE /routers/none HTTP/1.1\r\nHost: test\r\n" + _BEHIND, (404,), 1),
    Case("request-as-registration", b"POST /pools HTTP/1.1\r\nHost: test\r\n" + _BEHIND, (400,), 1),
    _closed(
        "request-as-body-of-text", b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n" + _BEHIND, 415
    ),
    _closed("request-as-body-without-host", b"POST /pools HTTP/1.1\r\n" + _BEHIND, 400),
    _closed("request-as-body-to-nowhere", b"POST /nowhere HTTP/1.1\r\nHost: test\r\n" + _BEHIND, 404),
    _closed("request-as-body-of-put", b"PUT /pools HTTP/1.1\r\nHost: test\r\n" + _BEHIND, 405),
    _closed("request-as-body-of-trace", b"TRACE /pools HTTP/1.1\r\nHost: test\r\n" + _BEHIND, 405),
    Case(
        "empty-chunks-of-get",
        _get(b"GET /routers", b"Host: test\r\n" + _CHUNKED) + b"0\r\n\r\n" + _NEXT,
        (200, 200),
        2,
        (SECOND,),
    ),
    Case("expectation-unknown", _post(b"Expect: 200-ok\r\n" + _LENGTH) + _NEXT, (200, 200), 2, (OUTER, SECOND)),
    Case("pipelined-behind-an-error", request_bytes("GET", "/nowhere") + _NEXT, (404, 200), 2, (SECOND,)),
)

CASES = (*LENGTHS, *CODINGS, *CHUNKS, *HEADS, *LINES, *BODIES)
