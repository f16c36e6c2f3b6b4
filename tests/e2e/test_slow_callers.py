"""Callers that send a byte now and then, or nothing: ended in time, and meanwhile nobody else waits for them."""

import contextlib
import json
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.impatient_service import BODY_SECS, BUDGET_BYTES, HEAD_SECS
from tests.e2e.memory import KEPT, MIB, Memory
from tests.e2e.process import Service, running
from tests.e2e.wire import Closed, Connection, Reply, pool

IMPATIENT = (sys.executable, "-W", "error", str(Path(__file__).with_name("impatient_service.py")))
EVERY_SECS = 0.1  # a byte
LATE_SECS = 2.0  # that a busy machine may add to a limit
ANSWER_SECS = 1.0  # for an ordinary request meanwhile
LARGE = 2 * MIB - 1000  # a body within the default limit

LONG = ("--lease-duration-secs", "1000")
POST = b"POST /pools HTTP/1.1\r\nHost: test\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("slow"), *LONG, command=IMPATIENT) as service:
        yield service


def trickle(connection: Connection, byte: bytes) -> float:
    """Sends `byte` again and again until the service has closed or answered; the seconds that this took."""
    started_at = time.monotonic()
    connection.socket.settimeout(EVERY_SECS)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while True:
            connection.send(byte)
            with contextlib.suppress(TimeoutError):
                connection.socket.recv(1, socket.MSG_PEEK)
                break
    connection.socket.settimeout(LATE_SECS)
    return time.monotonic() - started_at


def assert_others_are_served(service: Service) -> None:
    asked_at = time.monotonic()
    assert service.post("/pools", pool("ordinary")).status == 200
    assert time.monotonic() - asked_at < ANSWER_SECS


class Ended(NamedTuple):
    """How a slow caller was ended: the seconds that it took, and what the service sent."""

    took: float
    received: bytes


def trickled(service: Service, start: bytes, byte: bytes) -> Ended:
    """Sends `start`, then `byte` again and again."""
    with service.connect() as slow:
        slow.send(start)
        return Ended(trickle(slow, byte), received(slow))


def silent(service: Service, requests: int) -> Ended:
    """Says nothing after so many requests."""
    with service.connect() as connection:
        for _ in range(requests):
            assert connection.get("/live").status == 200
        silent_since = time.monotonic()
        last_words = received(connection)
        return Ended(time.monotonic() - silent_since, last_words)


def received(connection: Connection) -> bytes:
    """What comes until the connection is closed, by a reset or without."""
    try:
        return connection.rest()
    except ConnectionResetError:
        return connection._unread


SLOW_HEADS = {
    "method": (b"", b"G"),
    "value": (b"GET /live HTTP/1.1\r\nHost: te", b"s"),
    "fields": (b"GET /live HTTP/1.1\r\nX: y\r\n", b"a: b\r\n"),
}
SLOW_BODIES = {
    "length": (POST + b"Content-Length: 1000\r\n\r\n{", b" "),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}
SILENT = {"from the start": 0, "after a request": 1}


@pytest.fixture(scope="module")
def ended(service: Service) -> Iterator[dict[str, Future[Ended]]]:
    """All slow callers at the same time: they spend it waiting."""
    with ThreadPoolExecutor(len(SLOW_HEADS) + len(SLOW_BODIES) + len(SILENT)) as threads:
        slow = {**SLOW_HEADS, **SLOW_BODIES}
        trickling = {name: threads.submit(trickled, service, *sent) for name, sent in slow.items()}
        yield trickling | {name: threads.submit(silent, service, requests) for name, requests in SILENT.items()}


@pytest.mark.parametrize("name", SLOW_HEADS)
def test_a_head_that_trickles_is_ended(service: Service, ended: dict[str, Future[Ended]], name: str) -> None:
    assert_others_are_served(service)
    took, received = ended[name].result()
    assert received[:13] in (b"", b"HTTP/1.1 408 ")
    assert HEAD_SECS * 0.9 < took < HEAD_SECS + LATE_SECS


@pytest.mark.parametrize("name", SILENT)
def test_a_connection_that_says_nothing_is_ended(ended: dict[str, Future[Ended]], name: str) -> None:
    took, received = ended[name].result()
    assert received in (b"", b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n")
    assert HEAD_SECS * 0.9 < took < HEAD_SECS + LATE_SECS


@pytest.mark.parametrize("name", SLOW_BODIES)
def test_a_body_that_trickles_is_ended_with_408(service: Service, ended: dict[str, Future[Ended]], name: str) -> None:
    assert_others_are_served(service)
    took, received = ended[name].result()
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()
    assert "did not arrive" in json.loads(body)["error"]["message"]
    assert BODY_SECS * 0.9 < took < BODY_SECS + LATE_SECS


def test_many_bodies_that_stop_half_way_are_all_ended(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(service.connect()) for _ in range(200)]
        for connection in slow:
            connection.send(POST + b"Content-Length: 1000\r\n\r\n{")
        assert_others_are_served(service)
        started_at = time.monotonic()
        assert {connection.read().status for connection in slow} == {408}
        assert time.monotonic() - started_at < BODY_SECS + LATE_SECS


class Upload:
    """A large registration of which all but the last byte is sent."""

    def __init__(self, service: Service, number: int) -> None:
        body = json.dumps(pool(f"large-{number}")).encode()
        self.connection = service.connect()
        self._start = POST + b"Content-Length: %d\r\n\r\n" % LARGE + body + b" " * (LARGE - len(body) - 1)

    def send_all_but_the_end(self) -> None:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # refused already
            self.connection.send(self._start)

    def finish(self) -> Reply | None:
        """The reply; None where the connection was reset before it could be read."""
        try:
            with contextlib.suppress(BrokenPipeError):
                self.connection.send(b" ")
            return self.connection.read()
        except (ConnectionResetError, Closed):
            return None
        finally:
            self.connection.close()


def upload_at_once(service: Service, count: int) -> list[Reply | None]:
    """So many large bodies, each complete only once all the others are nearly so."""
    uploads = [Upload(service, number) for number in range(count)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(Upload.send_all_but_the_end, uploads))
    return [upload.finish() for upload in uploads]


def assert_within_budget(service: Service, budget: int, count: int) -> None:
    """More large bodies than the budget holds: some are taken, the others told to come back; memory stays bounded."""
    upload_at_once(service, count)  # whatever a first time costs
    memory = Memory(service)
    replies = upload_at_once(service, count)
    answered = [reply for reply in replies if reply is not None]  # else reset, since bytes of it were still unread
    refused = [reply for reply in answered if reply.status == 503]
    assert {reply.status for reply in answered} == {200, 503}
    assert len(refused) >= (count - 2 * budget // LARGE) // 2
    assert {reply.header("retry-after") for reply in refused} == {"1"}
    assert memory.peak_growth() < 2 * budget + KEPT  # a buffer that grows is copied
    assert service.post("/pools", json.dumps(pool("afterwards")).encode() + b" " * (LARGE - 1000)).status == 200


def test_more_large_bodies_than_the_budget_holds_are_told_to_come_back(service: Service) -> None:
    assert_within_budget(service, BUDGET_BYTES, 60)


@pytest.mark.load
@pytest.mark.timeout(240)
def test_the_budget_of_a_service_as_it_is_shipped_holds(tmp_path: Path) -> None:
    with running(tmp_path, *LONG) as service:
        assert_within_budget(service, 256 * MIB, 300)
