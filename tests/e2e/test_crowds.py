"""More connections than anyone needs: idle ones, and such as never finish a request. No heartbeat waits for them."""

import asyncio
import contextlib
import resource
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.e2e.fleet import Fleet, Relay, listed
from tests.e2e.memory import KEPT, Memory
from tests.e2e.process import POLL_SECS, Serve, Service
from tests.e2e.wire import PATIENCE, Connection, request_bytes

IDLE = 2000  # more than granian serves by default
HALF = 300
POOLS = 100
HEARTBEAT_SECS, LEASE_SECS = 1, 3
LEASES = 3
ANSWER_SECS = 0.5  # for half of the heartbeats, all of which must come within an interval
LOOKS_SECS = 0.1
HALF_A_HEAD = b"GET /pools HTTP/1.1\r\nHost: test\r\nX-Unfinished: "
SHORT = ("--heartbeat-interval-secs", str(HEARTBEAT_SECS), "--lease-duration-secs", str(LEASE_SECS))
FILES = 5000  # that a test may have open

pytestmark = [pytest.mark.load, pytest.mark.usefixtures("many_files")]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process open more connections than most systems allow at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def crowd(service: Service, count: int, said: bytes) -> Iterator[list[Connection]]:
    """So many connections that have said this and then say nothing."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(count)]
        for connection in connections:
            connection.send(said)
        yield connections


def counted(service: Service, at_least: int) -> tuple[float, float]:
    """gdsvc_connections, once it is as expected or patience ends, and gdsvc_connection_slots."""
    deadline = time.monotonic() + PATIENCE
    while (samples := service.samples())["gdsvc_connections"] < at_least and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    return samples["gdsvc_connections"], samples["gdsvc_connection_slots"]


class Watched(NamedTuple):
    """What came of a fleet: pools missing from some list, requests without an answer, seconds that each answer took."""

    missing: set[str]
    failed: int
    took: list[float]


async def watch_fleet(port: int, names: Iterable[str], seconds: float) -> Watched:
    expected = set(names)
    missing: set[str] = set()
    async with Fleet(port, expected, every_secs=HEARTBEAT_SECS) as fleet:
        observer = Relay(port, PATIENCE)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            missing |= expected - await listed(observer)
            await asyncio.sleep(LOOKS_SECS)
        observer.close()
        took = sorted(second for relay in fleet.relays for second in relay.took)
        return Watched(missing, sum(relay.failed for relay in fleet.relays), took)


def assert_a_fleet_lives(service: Service, prefix: str, leases: float) -> None:
    names = [f"{prefix}-{number}" for number in range(POOLS)]
    watched = asyncio.run(watch_fleet(service.port, names, leases * LEASE_SECS))
    assert watched.missing == set()
    assert watched.failed == 0
    assert watched.took[len(watched.took) // 2] < ANSWER_SECS
    assert len(watched.took) > POOLS * (leases * LEASE_SECS / HEARTBEAT_SECS - 1)
    assert service.samples()["gdsvc_expired_total"] == 0


def test_2000_idle_connections_cost_no_pool_its_lease(serve: Serve) -> None:
    service = serve(*SHORT)
    before = Memory(service)
    with crowd(service, IDLE, request_bytes("GET", "/live")) as idle:
        assert {connection.read().status for connection in idle} == {200}
        count, slots = counted(service, IDLE + 1)
        assert count == IDLE + 1
        assert slots - count > POOLS  # there is room for more
        assert_a_fleet_lives(service, "beside-idle", LEASES)
        assert {connection.get("/live").status for connection in idle[::100]} == {200}  # still there
    assert before.settled_growth() < KEPT


def test_300_half_requests_cost_no_pool_its_lease(serve: Serve) -> None:
    service = serve(*SHORT)
    before = Memory(service)
    with crowd(service, HALF, HALF_A_HEAD + b"x" * 30_000) as unfinished:
        assert counted(service, HALF + 1)[0] == HALF + 1
        assert_a_fleet_lives(service, "beside-half", 1.5)
        for connection in unfinished[::10]:
            connection.send(b"\r\n\r\n")
            assert connection.read().status == 200  # late, but whole
    assert before.settled_growth() < KEPT


@pytest.mark.load
@pytest.mark.timeout(240)
def test_connections_that_fill_their_buffers_are_bounded_in_memory(serve: Serve) -> None:
    service = serve(*SHORT)
    before = Memory(service)
    connections, said = 2000, HALF_A_HEAD + b"x" * 60_000
    with crowd(service, connections, said):
        assert counted(service, connections + 1)[0] == connections + 1
        assert_a_fleet_lives(service, "beside-full", 1.5)
        assert before.peak_growth() < connections * 2 * len(said) + KEPT
