"""Every case of the table of hostile requests against one service: what it answers, what it takes, what it survives."""

import re
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.hostile_requests import CASES, Case
from tests.e2e.process import POLL_SECS, Service, running
from tests.e2e.wire import PATIENCE, Connection

CLOSING_SECS = 5.0  # what is refused is closed at once, or behind the 2 s in which a refused body is discarded
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_OUR_OWN = ('route="/metrics"', 'route="/live"', 'method="GET",route="/pools",status="200"')  # what a test asks


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    long = ("--lease-duration-secs", "1000")
    with running(tmp_path_factory.mktemp("hostile"), *long) as service:
        yield service
        assert not [name for name in service.samples() if 'status="5' in name]


def numbered(case: Case) -> tuple[bytes, list[str]]:
    """The data of the case and the pools that it registers, their names with the number of the case."""
    suffix = _suffix(case)
    return case.data.replace(b"-000", suffix.encode()), [name.replace("-000", suffix) for name in case.registered]


def _suffix(case: Case) -> str:
    return f"-{CASES.index(case):03}"


class Ending(NamedTuple):
    """What came back; `reset` where the service closed while bytes of ours were still unread: answers may be lost."""

    statuses: tuple[int, ...]
    reset: bool


def until_closed(connection: Connection, data: bytes, *, half_closed: bool) -> Ending:
    """Sends `data` and reads until the service closes; TimeoutError where it does not."""
    received = b""
    try:
        connection.send(data)
        if half_closed:
            connection.socket.shutdown(socket.SHUT_WR)
        while chunk := connection.socket.recv(1 << 16):
            received += chunk
    except (ConnectionResetError, BrokenPipeError):
        return Ending(_statuses(received), reset=True)
    return Ending(_statuses(received), reset=False)


def _statuses(received: bytes) -> tuple[int, ...]:
    return tuple(int(status) for status in _STATUS.findall(received))


def reached(service: Service) -> float:
    """Requests that any handler has answered so far, less the test's own."""
    samples = service.samples().items()
    return sum(
        count
        for name, count in samples
        if name.startswith("gdsvc_http_requests_total") and not any(own in name for own in _OUR_OWN)
    )


def settled(service: Service, expected: float) -> float:
    """`reached` once it is as expected or patience ends: a request is counted when its answer is on its way."""
    deadline = time.monotonic() + PATIENCE
    while (count := reached(service)) < expected and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    return count


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_request_is_refused_or_understood_and_nothing_is_served_twice(service: Service, case: Case) -> None:
    data, registered = numbered(case)
    before = reached(service)
    with Connection(service.port, patience=CLOSING_SECS) as connection:
        if case.closed:
            ending = until_closed(connection, data, half_closed=case.half_closed)
            assert ending.statuses == case.statuses or (ending.reset and not ending.statuses), ending
        else:
            connection.send(data)
            replies = [connection.read(head=data.startswith(b"HEAD")) for _ in case.statuses]
            assert tuple(reply.status for reply in replies) == case.statuses
            assert connection.get("/live").json() == {"live": True}  # and nothing came between
    assert settled(service, before + case.reached) == before + case.reached
    assert [name for name in service.names() if name.endswith(_suffix(case))] == registered
