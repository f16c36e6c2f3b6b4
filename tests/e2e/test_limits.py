"""Too much of everything: bodies without an end, brackets without an end, faults without an end, too many pools.

Whatever is sent, the service answers, and the memory it took is given back.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.memory import KEPT, MIB, Memory
from tests.e2e.process import Serve, Service, running
from tests.e2e.wire import Connection, Reply, pool, request_bytes

POST = b"POST /pools HTTP/1.1\r\nHost: test\r\n"
HUGE = 10 * 1000**3
DISCARDED = 16 * MIB  # of a body that is refused, before the connection ends,
IN_SOCKETS = 16 * MIB  # and what the system's buffers take beyond that
CLOSING_SECS = 6.0  # the 2 s of discarding, and a busy machine
BAD_CALLERS = 8
BATCH = 100  # requests in flight on one connection: their replies fit the socket's buffers
NESTED = 100_000
REJECTED = 'gdsvc_registrations_total{outcome="rejected"}'


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("limits"), "--lease-duration-secs", "1000") as service:
        service.post("/pools", pool("other"))
        service.post("/pools", b" " * MIB)
        yield service


@pytest.fixture
def memory(service: Service) -> Iterator[Memory]:
    """Of the service, from before the test; judged after it."""
    memory = Memory(service)
    yield memory
    assert memory.settled_growth() < KEPT
    assert service.names() == ["other"]


def stream(connection: Connection, part: bytes, total: int) -> int:
    """Sends `part` again and again until the service closes, or `total` bytes are sent; how many were."""
    sent = 0
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while sent < total:
            connection.send(part)
            sent += len(part)
    return sent


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_of_10_gb_is_refused_at_once_and_little_of_it_read(
    service: Service, memory: Memory, framing: str
) -> None:
    data = b" " * 65536
    started_at = time.monotonic()
    with service.connect() as connection:
        if framing == "length":
            connection.send(POST + b"Content-Length: %d\r\n\r\n" % HUGE)
            reply = connection.read()  # before a byte of the body
            sent = stream(connection, data, HUGE)
        else:
            connection.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            part = b"%x\r\n%b\r\n" % (len(data), data)
            connection.send(part * 33)  # just beyond 2 MiB
            reply = connection.read()
            sent = stream(connection, part, HUGE)
    assert (reply.status, reply.header("connection")) == (413, "close")
    assert sent < DISCARDED + IN_SOCKETS
    assert time.monotonic() - started_at < CLOSING_SECS
    assert memory.peak_growth() < KEPT


DEEP = {
    "arrays": b"[" * NESTED,
    "closed arrays": b"[" * NESTED + b"]" * NESTED,
    "objects": b'{"a":' * NESTED,
    "closed objects": b'{"a":' * NESTED + b"1" + b"}" * NESTED,
    "in a member": b'{"key":' + b"[" * NESTED + b"]" * NESTED + b"}",
    "in an unknown member": json.dumps(pool("deep")).encode()[:-1] + b',"x":' + b"[" * NESTED + b"]" * NESTED + b"}",
    "in pairs": b"[]" * NESTED,
    "in the other's kind": b"[{" * NESTED + b"]}" * NESTED,
    "quotes": b'["' * NESTED,
    "backslashes": b'{"key":"' + b"\\" * NESTED + b"[" * NESTED,
}


@pytest.mark.parametrize("target", ["/pools", "/routers"])
def test_100_000_nested_brackets_are_no_json(service: Service, memory: Memory, target: str) -> None:
    del memory
    for name, body in DEEP.items():
        asked_at = time.monotonic()
        assert service.post(target, body).status == 400, name
        assert time.monotonic() - asked_at < 1.0, name


def bad_bodies(caller: int, count: int) -> Iterator[bytes]:
    """Distinct bodies, none of them a registration; about 300 bytes each, like a real one."""
    padding = "x" * 200
    for number in range(count):
        name = f"bad-{caller}-{number}"
        match number % 8:
            case 0:
                yield json.dumps(pool(name, model=padding)).encode()[:-1]
            case 1:
                yield json.dumps(pool(name, frontends=[f"ftp://{name}/{padding}"])).encode()
            case 2:
                yield json.dumps(pool(name, capacity={"live_workers": -number, padding: 1})).encode()
            case 3:
                yield json.dumps({"key": {"site_id": name, padding + name: 1}}).encode()
            case 4:
                yield json.dumps({name + padding: number}).encode()
            case 5:
                yield json.dumps(pool(name, model=[padding], **{name: padding})).encode()
            case 6:
                yield f'{{"{name}": "{padding}", "x": 1e999}}'.encode()
            case _:
                yield json.dumps(pool(name + "\x01" + padding)).encode()


def send_bad_bodies(service: Service, caller: int, count: int) -> dict[int, int]:
    """How often each status was the answer."""
    statuses: dict[int, int] = {}
    bodies = list(bad_bodies(caller, count))
    with service.connect() as connection:
        for start in range(0, count, BATCH):
            batch = bodies[start : start + BATCH]
            connection.send(b"".join(request_bytes("POST", "/pools", body) for body in batch))
            for _ in batch:
                status = connection.read().status
                statuses[status] = statuses.get(status, 0) + 1
    return statuses


@pytest.mark.parametrize("total", [8_000, pytest.param(100_000, marks=[pytest.mark.load, pytest.mark.timeout(240)])])
def test_distinct_bad_bodies_leave_nothing_behind(service: Service, memory: Memory, total: int) -> None:
    del memory
    rejected = service.samples()[REJECTED]
    share = total // BAD_CALLERS
    with ThreadPoolExecutor(BAD_CALLERS) as threads:
        counts = list(threads.map(lambda caller: send_bad_bodies(service, caller, share), range(BAD_CALLERS)))
    assert sum(sum(count.values()) for count in counts) == total
    assert set().union(*counts) == {400, 422}
    assert service.samples()[REJECTED] == rejected + total


# ------------------------------------------------------------------------------------------------------ --max-pools


def refused(reply: Reply) -> bool:
    """Whether it is a 429 as it should be."""
    if reply.status != 429:
        return False
    assert reply.header("retry-after") == "1"  # a heartbeat
    assert "--max-pools" in reply.json()["error"]["message"]
    return True


def test_beyond_max_pools_429_until_a_pool_lapses_or_leaves(serve: Serve) -> None:
    service = serve("--max-pools", "3", "--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")
    with service.connect() as caller:
        for name in ("a", "b", "c"):
            assert caller.post("/pools", pool(name)).status == 200
        for _ in range(20):
            assert refused(caller.post("/pools", pool("d")))
        assert caller.post("/pools", pool("a")).status == 200  # renewing needs no room,
        assert caller.post("/pools", pool("a", model="m")).status == 200  # nor does changing
        assert caller.request("DELETE", "/pools/ohio/dynamo/b").status == 204
        assert caller.post("/pools", pool("d")).status == 200
        assert refused(caller.post("/pools", pool("b")))
        registered_at = time.monotonic()
        while refused(caller.post("/pools", pool("e"))):
            for name in ("a", "d"):
                assert caller.post("/pools", pool(name)).status in (200, 429)  # c is silent
            assert time.monotonic() - registered_at < 5.0
            time.sleep(0.1)
        assert set(service.names()) == {"a", "d", "e"}
        assert service.samples()["gdsvc_pools"] == 3
