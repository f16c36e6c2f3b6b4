"""What the service puts on the wire: framing, methods, statuses, bodies and headers, seen from raw sockets."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.process import Service, running
from tests.e2e.wire import Connection, Reply, pool, request_bytes

LEAST_BODY_LIMIT = 1024  # the lowest that --max-body-bytes takes
LEASE = {"heartbeat_interval_secs": 5, "lease_duration_secs": 15}
NO_BODY = {"HEAD", "GET", "OPTIONS", "TRACE", "CONNECT"}
GET_ROUTES = ("/pools", "/routers", "/live", "/ready", "/health", "/metrics", "/openapi.json")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("http")
    with running(directory, "--max-body-bytes", str(LEAST_BODY_LIMIT)) as service:
        yield service


@pytest.fixture
def caller(service: Service) -> Iterator[Connection]:
    with service.connect() as connection:
        yield connection


def problem(reply: Reply) -> dict[str, str]:
    """The error of a problem body, whose shape is checked."""
    assert reply.header("content-type") == "application/json"
    document = reply.json()
    assert document.keys() == {"error"}
    assert {"message"} <= document["error"].keys() <= {"message", "field"}
    assert document["error"]["message"]
    error: dict[str, str] = document["error"]
    return error


# ------------------------------------------------------------------------------------------- connections, framing


def test_a_connection_is_kept_for_the_next_request(caller: Connection) -> None:
    replies = [caller.post("/pools", pool("kept-alive")) for _ in range(20)]
    assert {reply.status for reply in replies} == {200}
    assert {reply.header("connection") for reply in replies} <= {None, "keep-alive"}


def test_connection_close_is_honoured(caller: Connection) -> None:
    assert caller.get("/live", Connection="close").status == 200
    assert caller.rest() == b""


def test_an_http_1_0_caller_is_answered_and_the_connection_closed(caller: Connection) -> None:
    caller.send(b"GET /live HTTP/1.0\r\n\r\n")
    assert caller.read().status == 200
    assert caller.rest() == b""


def test_pipelined_requests_are_answered_in_their_order(caller: Connection) -> None:
    targets = ["/live", "/nowhere", "/pools", "/metrics", "/routers"] * 20
    caller.send(b"".join(request_bytes("GET", target) for target in targets))
    assert [caller.read().status for _ in targets] == [200, 404, 200, 200, 200] * 20


def test_a_request_that_comes_byte_by_byte_is_understood(caller: Connection) -> None:
    body = json.dumps(pool("byte-by-byte")).encode()
    for byte in request_bytes("POST", "/pools", body):
        caller.send(bytes([byte]))
    assert caller.read().json() == LEASE


def test_a_chunked_body_is_a_body(caller: Connection) -> None:
    body = json.dumps(pool("chunked", model="qwen")).encode()
    caller.send(b"POST /pools HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(body), 7):
        part = body[start : start + 7]
        caller.send(b"%x;note=1\r\n%b\r\n" % (len(part), part))
    caller.send(b"0\r\nX-Trailer: 1\r\n\r\n")
    assert caller.read().json() == LEASE
    assert caller.get("/live").status == 200


def test_a_caller_that_expects_100_gets_it_before_it_sends_the_body(caller: Connection) -> None:
    body = json.dumps(pool("expecting")).encode()
    caller.send(b"POST /pools HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
    assert caller.socket.recv(1000).startswith(b"HTTP/1.1 100 ")
    caller.send(body)
    assert caller.read().json() == LEASE


def test_a_caller_that_expects_100_is_refused_without_sending_the_body(caller: Connection) -> None:
    caller.send(
        b"POST /pools HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 500\r\n\r\n"
    )
    reply = caller.read()
    assert (reply.status, reply.interim) == (415, ())


@pytest.mark.parametrize(
    "chunks", [b"ZZ\r\n{}\r\n0\r\n\r\n", b"2\r\n{}nothing\r\n", b"-2\r\n{}\r\n", b"ffffffffffffffffff\r\n{}"]
)
def test_broken_chunks_are_the_callers_fault(caller: Connection, chunks: bytes) -> None:
    caller.send(b"POST /pools HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert caller.read().status == 400
    assert caller.rest() == b""


def test_a_body_that_ends_early_is_the_callers_fault(caller: Connection) -> None:
    caller.send(b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{}")
    caller.socket.shutdown(socket.SHUT_WR)
    answer = caller.rest()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("target", ["/pools", "/nowhere", "/live"])
def test_a_request_without_a_host_is_malformed(caller: Connection, target: str) -> None:
    caller.send(b"GET %b HTTP/1.1\r\n\r\n" % target.encode())
    reply = caller.read()
    assert reply.status == 400
    assert "Host" in problem(reply)["message"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /pools\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: test\r\n: no name\r\n\r\n",
        b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Length: -2\r\n\r\n{}",
        b"GET /live HTTP/1.1\r\nHost: test\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: test\r\n\r\n",
    ],
    ids=["tls", "http2", "http0.9", "no-name", "two-lengths", "negative-length", "long-header", "long-target"],
)
def test_what_is_no_request_ends_its_connection_and_nothing_else(service: Service, data: bytes) -> None:
    with service.connect() as connection:
        try:
            connection.send(data)
            answer = connection.rest()
        except (ConnectionResetError, BrokenPipeError):  # closed while we still wrote
            answer = b""
    assert answer == b"" or answer[9:12].startswith(b"4"), answer[:200]
    assert service.get("/live").status == 200


def test_a_length_beside_chunks_never_smuggles_a_request(caller: Connection) -> None:
    body = json.dumps(pool("smuggled")).encode()
    caller.send(
        b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + request_bytes("POST", "/pools", body)
    )
    assert caller.read().status == 400
    assert caller.rest() == b""


# ------------------------------------------------------------------------------------------------------- methods


@pytest.mark.parametrize("target", [*GET_ROUTES, "/nowhere", "/pools?model=none"])
def test_head_answers_as_get_without_a_body(caller: Connection, target: str) -> None:
    got, headed = caller.request("GET", target), caller.request("HEAD", target)
    assert headed.status == got.status
    assert got.body
    varying = {"date"} | ({"content-length"} if target in ("/metrics", "/health") else set())
    assert [field for field in headed.headers if field[0] not in varying] == [
        field for field in got.headers if field[0] not in varying
    ]
    assert caller.get("/live").json() == {"live": True}  # nothing of a body was left on the connection


ALLOWED = {
    "/pools": {"GET", "HEAD", "POST"},
    "/routers": {"GET", "HEAD", "POST"},
    "/pools/ohio/dynamo/none": {"DELETE"},
    "/routers/none": {"DELETE"},
    **{target: {"GET", "HEAD"} for target in GET_ROUTES[2:]},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW")


@pytest.mark.parametrize("target", ALLOWED)
def test_other_methods_are_405_and_told_which_are_allowed(service: Service, target: str) -> None:
    for method in METHODS:
        if method in ALLOWED[target]:
            continue
        with service.connect() as connection:
            reply = connection.request(method, target, None if method in NO_BODY else b"{}")
        assert reply.status == 405, method
        assert set((reply.header("allow") or "").split(", ")) == ALLOWED[target], method
        problem(reply)


@pytest.mark.parametrize("target", ["*", "example.org:443", "/", "//pools", "/pools/", "/pools/a/b", "/pools/a/b/c/d"])
def test_an_unknown_target_is_404_or_no_request(caller: Connection, target: str) -> None:
    method = {"*": "OPTIONS", "example.org:443": "CONNECT"}.get(target, "GET")
    assert caller.request(method, target).status in (400, 404, 405)


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data", "application/jsonx", "json"])
@pytest.mark.parametrize("target", ["/pools", "/routers"])
def test_a_body_that_is_not_called_json_is_415(service: Service, target: str, content_type: str) -> None:
    with service.connect() as connection:
        reply = connection.request("POST", target, b"{}", {"Content-Type": content_type})
    assert reply.status == 415
    problem(reply)


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"]
)
def test_json_goes_by_several_names(caller: Connection, content_type: str) -> None:
    body = json.dumps(pool("named")).encode()
    assert caller.request("POST", "/pools", body, {"Content-Type": content_type}).json() == LEASE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 33 + b"]" * 33,
        b'{"key": "\xff"}',
        b'{"key": "\\ud800"}',
        b'{"x": 1e999}',
        b'{"x": NaN}',
        b'{"x": {"y": [Infinity]}}',
        b"{} {}",
        b"\xef\xbb\xbf{}",
    ],
)
@pytest.mark.parametrize("target", ["/pools", "/routers"])
def test_a_body_that_is_no_json_is_400(caller: Connection, target: str, body: bytes) -> None:
    reply = caller.post(target, body)
    assert reply.status == 400
    assert "field" not in problem(reply)
    assert caller.get("/live").status == 200


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "$"),
        ({}, "$.key"),
        ({"key": {"site_id": "ohio", "namespace": "dynamo"}}, "$.key.dgd_name"),
        ({"key": {"site_id": "ohio", "namespace": "", "dgd_name": "a"}}, "$.key.namespace"),
        ({"key": {"site_id": "ohio", "namespace": "dynamo", "dgd_name": 7}}, "$.key.dgd_name"),
        (pool("a", frontends=["http://10.0.0.1", "ftp://10.0.0.1"]), "$.frontends[1]"),
        (pool("a", capacity={"live_workers": -1}), "$.capacity.live_workers"),
        (pool("a", capacity={"live_workers": 2**64}), "$.capacity.live_workers"),
        (pool("a", location={"region": " "}), "$.location.region"),
        (pool("a", capabilities=["x", None]), "$.capabilities[1]"),
    ],
)
def test_a_wrong_registration_is_422_and_names_the_field(caller: Connection, document: object, field: str) -> None:
    reply = caller.post("/pools", document)
    assert reply.status == 422
    error = problem(reply)
    assert error["field"] == field
    assert "expected" in error["message"]


def _padded(name: str, size: int) -> bytes:
    body = json.dumps(pool(name)).encode()
    return body + b" " * (size - len(body))


def test_a_body_of_exactly_the_limit_is_taken(caller: Connection) -> None:
    assert caller.post("/pools", _padded("limit", LEAST_BODY_LIMIT)).status == 200


def test_a_body_of_one_byte_more_is_413_and_the_connection_ends(caller: Connection) -> None:
    reply = caller.post("/pools", _padded("beyond", LEAST_BODY_LIMIT + 1))
    assert (reply.status, reply.header("connection")) == (413, "close")
    assert str(LEAST_BODY_LIMIT) in problem(reply)["message"]
    assert caller.rest() == b""


@pytest.mark.parametrize(("size", "status"), [(LEAST_BODY_LIMIT, 200), (LEAST_BODY_LIMIT + 1, 413)])
def test_the_limit_holds_for_chunked_bodies(caller: Connection, size: int, status: int) -> None:
    body = _padded("chunked-limit", size)
    caller.send(b"POST /pools HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
    caller.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert caller.read().status == status


def test_a_caller_that_writes_a_large_body_before_it_reads_sees_the_413(caller: Connection) -> None:
    assert caller.post("/pools", b" " * 8_000_000).status == 413


# -------------------------------------------------------------------------------------------------- names in paths


@pytest.mark.parametrize("name", ["a/b", "ä ö", "100%", "..", "a?b#c", "%2F"])
def test_a_name_of_any_characters_can_be_deleted_by_its_encoded_path(caller: Connection, name: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    document = {"key": {"site_id": name, "namespace": name, "dgd_name": name}}
    target = f"/pools/{encoded}/{encoded}/{encoded}"
    assert caller.post("/pools", document).status == 200
    deleted = caller.request("DELETE", target)
    assert (deleted.status, deleted.body, deleted.header("content-length")) == (204, b"", None)
    assert caller.request("DELETE", target).status == 404


@pytest.mark.parametrize("segment", ["%ff", "%zz", "%", "%2", "%C3", "%00", "", "%20"])
def test_a_name_that_no_pool_can_have_is_404(caller: Connection, segment: str) -> None:
    reply = caller.request("DELETE", f"/pools/ohio/dynamo/{segment}")
    assert reply.status == 404
    problem(reply)


def test_a_deleted_pool_is_listed_again_by_its_next_heartbeat(service: Service, caller: Connection) -> None:
    for _ in range(2):
        assert caller.post("/pools", pool("back")).status == 200
        assert "back" in service.names()
        assert caller.request("DELETE", "/pools/ohio/dynamo/back").status == 204
        assert "back" not in service.names()
