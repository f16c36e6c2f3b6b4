"""What crosses the Global Frontend, byte by byte: a raw caller, and a pool that is addressed by name."""

import socket
from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e.frontend.calling import ASK, CHAT, FRONTEND, calling, chunk, head, request, rest
from tests.e2e.process import Service, running
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

END: Final = b"\r\n\r\n"
FORWARDED: Final = (b"x-forwarded-for: 127.0.0.1", b"x-forwarded-proto: http", b"x-forwarded-host: front")
OURS: Final = (b"via: 1.1 gdsvc", b"x-dynamo-global-router-hop: 1")
LENGTH: Final = b"Content-Length: %d" % len(ASK)
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LONG: Final = b"v" * 60_000


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, door: socket.socket) -> Iterator[Service]:
    """A frontend that knows its pool by name, and trusts nobody."""
    with running(tmp_path_factory.mktemp("named"), f"--pool=a={url(door)}", command=FRONTEND) as service:
        yield service


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory, door: socket.socket) -> Iterator[Service]:
    """A frontend that trusts whoever calls from this machine."""
    flags = f"--pool=a={url(door)}", "--trusted-proxies=10.0.0.0/8,127.0.0.0/8"
    with running(tmp_path_factory.mktemp("trusting"), *flags, command=FRONTEND) as service:
        yield service


def url(door: socket.socket) -> str:
    return f"http://localhost:{door.getsockname()[1]}"


class Recording:
    """A pool that answers a request whose body ends with `end` with `reply`, and keeps what it got."""

    def __init__(self, reply: bytes = OK, end: bytes = ASK) -> None:
        self.received = b""
        self._reply = reply
        self._end = end

    async def __call__(self, peer: Peer) -> None:
        parts, tail = [await peer.head()], b""
        while not tail.endswith(self._end):
            parts.append(await peer.receive_some())
            tail = tail[-len(self._end) :] + parts[-1]
        self.received += b"".join(parts)
        await peer.send(self._reply)


async def passed_on(service: Service, door: socket.socket, sent: bytes, end: bytes = ASK) -> bytes:
    """What the pool gets of a request."""
    pool = Recording(end=end)
    async with Frontend(pool, listener=door), calling(service.port, sent) as caller:
        assert (await caller.head()).startswith(b"HTTP/1.1 200 ")
    return pool.received


def expected(
    door: socket.socket, *fields: bytes, target: bytes = CHAT, forwarded: tuple[bytes, ...] = FORWARDED
) -> bytes:
    """The head of a request as the pool is to get it: fields of the caller, then those of the frontend."""
    host = b"Host: localhost:%d" % door.getsockname()[1]
    return b"\r\n".join((b"POST " + target + b" HTTP/1.1", host, *fields, *forwarded, *OURS, LENGTH)) + END


# ------------------------------------------------------------------------------- towards the pool

TOWARDS_POOL = {
    "nothing of its own": ((), ()),
    "repeated headers, in the order of their values": (  # names may be grouped: RFC 9110 section 5.3
        (b"X-A: 1", b"X-B: 2", b"X-A: 3"),
        (b"x-a: 1", b"x-a: 3", b"x-b: 2"),
    ),
    "latin-1": ((b"X-Name: caf\xe9 \xff",), (b"x-name: caf\xe9 \xff",)),
    "utf-8": ((b"X-Name: \xe2\x82\xac",), (b"x-name: \xe2\x82\xac",)),
    "an empty value": ((b"X-Empty:",), (b"x-empty: ",)),
    "white space around a value": ((b"X-A: \t a  b \t ",), (b"x-a: a  b",)),
    "60 KB": ((b"X-Long: " + LONG,), (b"x-long: " + LONG,)),
    "credentials and cookies": (
        (b"Authorization: Bearer s", b"Cookie: a=1; b=2", b"Cookie: c=3"),
        (b"authorization: Bearer s", b"cookie: a=1; b=2", b"cookie: c=3"),
    ),
    "content headers": (
        (b"Content-Type: application/json; charset=utf-8", b"Accept-Encoding: br, gzip"),
        (b"content-type: application/json; charset=utf-8", b"accept-encoding: br, gzip"),
    ),
    "W3C trace": ((b"Traceparent: 00-0a-0b-01", b"Tracestate: x=1"), (b"traceparent: 00-0a-0b-01", b"tracestate: x=1")),
    "a session": ((b"X-Dynamo-Session-ID: s 1",), (b"x-dynamo-session-id: s 1",)),
    "hop by hop": (
        (b"Keep-Alive: timeout=5", b"Proxy-Connection: close", b"Proxy-Authorization: Basic x", b"Trailer: X-T"),
        (),
    ),
    "TE": ((b"TE: trailers", b"Connection: TE"), ()),
    "named by Connection": (
        (b"Connection: keep-alive, X-Hop ,, x-other", b"X-Hop: 1", b"X-Other: 2", b"X-A: 3"),
        (b"x-a: 3",),
    ),
    "named by a second Connection": ((b"Connection: x-one", b"X-One: 1", b"Connection: x-two", b"X-Two: 2"), ()),
    "a mark of ours that Connection names": ((b"Connection: via, x-forwarded-for, host, content-length",), ()),
    "X-Forwarded-* of a stranger": (
        (
            b"X-Forwarded-For: 9.9.9.9",
            b"X-Forwarded-Proto: https",
            b"X-Forwarded-Host: evil",
            b"Forwarded: for=1.1.1.1",
        ),
        (),
    ),
    "what WSGI would take for those, and for framing": (
        (b"X_Forwarded_For: 9.9.9.9", b"X-Real_IP: 9.9.9.9", b"Transfer_Encoding: chunked", b"Content_Length: 9"),
        (),
    ),
    "other names with a low line": ((b"X_Trace: 1",), (b"x_trace: 1",)),
    "Via of who came before": ((b"Via: 1.0 edge",), (b"via: 1.0 edge",)),
    "an upgrade to another HTTP": ((b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: x"), ()),
}


@pytest.mark.parametrize("name", TOWARDS_POOL)
async def test_headers_reach_the_pool(named: Service, door: socket.socket, name: str) -> None:
    sent, fields = TOWARDS_POOL[name]
    assert await passed_on(named, door, request(ASK, *sent)) == expected(door, *fields) + ASK


async def test_a_trusted_proxy_is_believed_and_its_chain_goes_on(trusting: Service, door: socket.socket) -> None:
    sent = (
        b"X-Forwarded-For: 9.9.9.9",
        b"X-Forwarded-Proto: https",
        b"X-Forwarded-For: 8.8.8.8",
        b"X-Forwarded-Host: api",
    )
    received = await passed_on(trusting, door, request(ASK, *sent))
    forwarded = (b"x-forwarded-proto: https", b"x-forwarded-host: api", b"x-forwarded-for: 9.9.9.9, 8.8.8.8, 127.0.0.1")
    assert received == expected(door, forwarded=forwarded) + ASK


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/chat/completions?a=1&a=2&b",
        b"/v1/chat/completions?q=%2F%2f%20+%zz%",
        b"/v1/chat%2Fcompletions",
        b"/v1//chat/../completions/./x;y=1",
        b"/v1/a@b:c,d!$&'()*+=~_-.",
        b"/v1/x?a=[1]{2}|",
        b"/v1/x??",
        b"/v1/caf%C3%A9?%E2%82%AC",
    ],
)
async def test_the_target_reaches_the_pool_as_it_came(named: Service, door: socket.socket, target: bytes) -> None:
    assert await passed_on(named, door, request(target=target)) == expected(door, target=target) + ASK


@pytest.mark.parametrize("target", [b"/v1/../metrics", b"/v1/%2e%2E/admin", b"/v1/x/.%2e/../admin", b"/v1/..%2fadmin"])
async def test_dots_do_not_lead_out_of_the_api(named: Service, door: socket.socket, target: bytes) -> None:
    """A pool behind a server that takes dot segments away would be asked for what this frontend does not offer."""
    pool = Recording()
    async with Frontend(pool, listener=door), calling(named.port, request(target=target)) as caller:
        assert (await caller.head()).startswith(b"HTTP/1.1 404 ")
    assert pool.received == b""


async def test_a_target_in_absolute_form_loses_scheme_and_host(named: Service, door: socket.socket) -> None:
    received = await passed_on(named, door, request(target=b"http://front" + CHAT + b"?a=1"))
    assert received == expected(door, target=CHAT + b"?a=1") + ASK


async def test_a_small_body_in_chunks_reaches_the_pool_with_a_length(named: Service, door: socket.socket) -> None:
    sent = head(b"Transfer-Encoding: chunked") + chunk(ASK[:3]) + chunk(ASK[3:]) + b"0\r\nX-Trailer: 1\r\n\r\n"
    assert await passed_on(named, door, sent) == expected(door) + ASK


@pytest.mark.parametrize("length", [b"5", b"99"])
async def test_chunks_come_before_a_length_that_lies(named: Service, door: socket.socket, length: bytes) -> None:
    """RFC 9112 section 6.3; and nothing else is read from that connection."""
    sent = head(b"Content-Length: " + length, b"Transfer-Encoding: chunked") + chunk(ASK) + b"0\r\n\r\n"
    pool = Recording()
    async with Frontend(pool, listener=door), calling(named.port, sent + request(b"{}")) as caller:
        answer = await rest(caller)
    assert pool.received == expected(door) + ASK
    assert answer.count(b"HTTP/1.1") == 1


async def test_a_body_that_is_not_held_whole_is_framed_as_it_came(named: Service, door: socket.socket) -> None:
    body = b'{"model":"m"' + b" " * (9 << 20) + b"}"
    received = await passed_on(named, door, head(b"Content-Length: %d" % len(body)) + body, end=b" }")
    assert received == expected(door).replace(b"%d" % len(ASK) + END, b"%d" % len(body) + END) + body
    chunked = await passed_on(
        named, door, head(b"Transfer-Encoding: chunked") + chunk(body) + b"0\r\n\r\n", end=b"0\r\n\r\n"
    )
    before, _, content = chunked.partition(END)
    assert before.endswith(b"Transfer-Encoding: chunked")
    assert unchunked(content) == body


def unchunked(data: bytes) -> bytes:
    parts = list[bytes]()
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        parts.append(data[:length])
        assert data[length : length + 2] == b"\r\n"
        data = data[length + 2 :]
    assert parts[-1] == b""
    return b"".join(parts)


async def test_who_waits_for_100_continue_gets_it(named: Service, door: socket.socket) -> None:
    pool = Recording()
    sent = head(LENGTH, b"Expect: 100-continue")
    async with Frontend(pool, listener=door), calling(named.port, sent) as caller:
        assert await caller.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await caller.send(ASK)
        assert (await caller.head()).startswith(b"HTTP/1.1 200 ")
    assert pool.received == expected(door) + ASK


# ------------------------------------------------------------------------------- towards the caller


async def answered(
    service: Service, door: socket.socket, reply: bytes, *fields: bytes
) -> tuple[bytes, list[bytes], bytes]:
    """Status line, fields but Date and Server, and body, as the caller gets them of the pool's reply."""
    async with (
        Frontend(Recording(reply), listener=door),
        calling(service.port, request(ASK, b"Connection: close", *fields)) as caller,
    ):
        answer = await rest(caller)
    before, _, body = answer.partition(END)
    status, *lines = before.split(b"\r\n")
    return status, [line for line in lines if not line.startswith((b"date:", b"server:", b"connection:"))], body


VIA: Final = b"via: 1.1 gdsvc"
TWO: Final = b"content-length: 2"

TOWARDS_CALLER = {
    "a plain reply": (b"200 OK\r\nContent-Length: 2\r\n\r\n{}", b"200 OK", (TWO, VIA), b"{}"),
    "two cookies": (
        b"200 OK\r\nSet-Cookie: a=1; Path=/\r\nContent-Length: 2\r\nSet-Cookie: b=2\r\n\r\n{}",
        b"200 OK",
        (b"set-cookie: a=1; Path=/", TWO, b"set-cookie: b=2", VIA),
        b"{}",
    ),
    "hop by hop and named by Connection": (
        b"200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\n"
        b"X-Keep: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"200 OK",
        (b"x-keep: 2", TWO, VIA),
        b"{}",
    ),
    "latin-1": (b"200 OK\r\nX-A: \xe9\r\nContent-Length: 2\r\n\r\n{}", b"200 OK", (b"x-a: \xe9", TWO, VIA), b"{}"),
    "a header of 60 KB": (
        b"200 OK\r\nX-A: " + LONG + b"\r\nContent-Length: 2\r\n\r\n{}",
        b"200 OK",
        (b"x-a: " + LONG, TWO, VIA),
        b"{}",
    ),
    "gzip stays gzip": (
        b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
        b"200 OK",
        (b"content-encoding: gzip", b"content-length: 4", VIA),
        b"\x1f\x8b\x08\x00",
    ),
    "chunks that came at once, and trailers that are dropped": (
        b"200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nX-T: 1\r\n\r\n",
        b"200 OK",
        (TWO, VIA),
        b"{}",
    ),
    "a stream in chunks": (
        b"200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\nX-T: 1\r\n\r\n",
        b"200 OK",
        (b"content-type: text/event-stream", VIA, b"transfer-encoding: chunked"),
        b"2\r\n{}\r\n0\r\n\r\n",
    ),
    "an empty body": (b"200 OK\r\nContent-Length: 0\r\n\r\n", b"200 OK", (b"content-length: 0", VIA), b""),
    "204": (b"204 No Content\r\n\r\n", b"204 No Content", (VIA,), b""),
    "304": (b'304 Not Modified\r\nETag: "x"\r\n\r\n', b"304 Not Modified", (b'etag: "x"', VIA), b""),
    "1xx before it": (
        b"103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"200 OK",
        (TWO, VIA),
        b"{}",
    ),
    "an error of the pool": (
        b"429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}",
        b"429 Too Many Requests",
        (b"retry-after: 7", TWO, VIA),
        b"{}",
    ),
    "500 of the pool": (b"500 X\r\nContent-Length: 2\r\n\r\n{}", b"500 Internal Server Error", (TWO, VIA), b"{}"),
    "503 of the pool": (b"503 X\r\nContent-Length: 2\r\n\r\n{}", b"503 Service Unavailable", (TWO, VIA), b"{}"),
    "a status without a name": (b"299 X\r\nContent-Length: 2\r\n\r\n{}", b"299 <none>", (TWO, VIA), b"{}"),
}


@pytest.mark.parametrize("name", TOWARDS_CALLER)
async def test_replies_reach_the_caller(named: Service, door: socket.socket, name: str) -> None:
    reply, status, fields, body = TOWARDS_CALLER[name]
    line, received, content = await answered(named, door, b"HTTP/1.1 " + reply)
    assert (line, sorted(received), content) == (b"HTTP/1.1 " + status, sorted(fields), body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(named: Service, door: socket.socket, status: int) -> None:
    reply = b"HTTP/1.1 %d X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" % status
    line, fields, body = await answered(named, door, reply)
    assert line == b"HTTP/1.1 502 Bad Gateway"
    assert b"upstream_redirected" in body
    assert not any(field.startswith(b"location") for field in fields)


async def test_dates_and_names_of_servers_are_the_pools(named: Service, door: socket.socket) -> None:
    reply = b"HTTP/1.1 200 OK\r\nDate: D\r\nServer: uvicorn\r\nContent-Length: 2\r\n\r\n{}"
    async with Frontend(Recording(reply), listener=door), calling(named.port, request()) as caller:
        fields = (await caller.head()).split(b"\r\n")
    assert [field for field in fields if field.startswith((b"date", b"server"))] == [b"date: D", b"server: uvicorn"]


# ------------------------------------------------------------------------------- refused

REFUSED = {
    "two lengths": (head(b"Content-Length: 13", b"Content-Length: 14") + ASK, 400),
    "a coding that is not chunked": (head(b"Transfer-Encoding: gzip") + ASK, 400),
    "chunked twice": (head(b"Transfer-Encoding: chunked, chunked") + chunk(ASK) + b"0\r\n\r\n", 400),
    "chunked, then something else": (head(b"Transfer-Encoding: chunked, identity") + chunk(ASK), 400),
    "chunked written oddly": (head(b"Transfer-Encoding: \x0bchunked") + chunk(ASK) + b"0\r\n\r\n", 400),
    "white space before a colon": (head(b"Transfer-Encoding : chunked") + chunk(ASK) + b"0\r\n\r\n", 400),
    "a length that is no number": (head(b"Content-Length: +13") + ASK, 400),
    "a chunk size that is no number": (head(b"Transfer-Encoding: chunked") + b"0x0d\r\n" + ASK + b"\r\n0\r\n\r\n", 400),
    "a folded header": (head(b"X-A: 1\r\n folded", LENGTH) + ASK, 400),
    "a NUL in a header": (head(b"X-A: \0", LENGTH) + ASK, 400),
    "a target with a space": (request(target=b"/v1/a b"), 400),
    "no Host": (request().replace(b"Host: front\r\n", b""), 400),
    "two Hosts": (request(ASK, b"Host: other"), 400),
    "OPTIONS": (head(method=b"OPTIONS"), 405),
    "GET of what is for POST": (head(method=b"GET"), 405),
    "HEAD of what is for POST": (head(method=b"HEAD"), 405),
    "DELETE": (head(method=b"DELETE"), 405),
    "CONNECT": (b"CONNECT front:443 HTTP/1.1\r\nHost: front:443\r\n\r\n", 405),
    "TRACE": (head(method=b"TRACE"), 405),
    "a method that nobody knows": (head(method=b"BREW"), 405),
    "WebSocket": (
        head(
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Key: x",
            method=b"GET",
            target=b"/v1/realtime",
        ),
        501,
    ),
    "a circle": (request(ASK, b"X-Dynamo-Global-Router-Hop: 1"), 508),
    "a path of something else": (request(target=b"/v2/chat"), 404),
    "256 KB of headers": (request(ASK, *[b"X-Long: " + LONG] * 4), 431),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_reaches_no_pool(named: Service, door: socket.socket, name: str) -> None:
    sent, status = REFUSED[name]
    pool = Recording()
    async with Frontend(pool, listener=door), calling(named.port, sent) as caller:
        answer = await caller.receive_until(END)
        assert int(answer.split(b" ")[1]) == status, answer
    assert pool.received == b""
