"""Many at once: one pool registered 16,000 times, 100,000 pools that come and go, lists made once however often read.

Bounds are wide, for busy machines; what was measured is printed.
"""

import json
import signal
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.pipeline import register_all
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.wire import pool, registration, request_bytes

SAME, FEWER_SAME = 16_000, 1_600
SAME_CONNECTIONS = 64
MANY = 100_000
MANY_SECS = 90.0  # for all of them to be registered
LAG_SECS = 2.0  # that a mass expiry may take,
MACHINE_SECS = 3.0  # and what a busy machine adds
ANSWER_SECS = 0.5  # for a heartbeat while all others expire: the loop is never held for more than a twentieth of it
CHANGING, FEWER = 10_000, 1_000
READERS = 20
CODINGS = ("identity", "gzip", "zstd")
JUMPING = (sys.executable, "-W", "error", str(Path(__file__).with_name("jumping_service.py")))
LONG = ("--lease-duration-secs", "1000")  # above all that a test takes; two leases are forgiven, a jump is 3.6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def fact(number: int) -> dict[str, object]:
    """A registration of the usual size."""
    frontends = [f"http://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:8000"]
    return pool(f"pool-{number:06}", model=f"model-{number % 9}", frontends=frontends, capacity={"live_workers": 8})


@pytest.mark.parametrize("times", [FEWER_SAME, pytest.param(SAME, marks=pytest.mark.load)])
def test_one_pool_registered_many_times_at_once_is_listed_once(serve: Serve, times: int) -> None:
    service = serve(*LONG)
    spellings = [registration("same", model="x"), spelled_otherwise("same", model="x")]
    assert spellings[0] != spellings[1]
    assert register_all(service.port, spellings * (times // 2), SAME_CONNECTIONS) == times
    assert service.names() == ["same"]
    samples = service.samples()
    assert samples['gdsvc_registrations_total{outcome="new"}'] == 1
    assert samples['gdsvc_registrations_total{outcome="renewed"}'] == times - 1
    assert samples["gdsvc_conflicts_total"] == 0
    assert samples["gdsvc_pool_encodings_total"] == 1
    assert [event["event"] for event in service.events].count("pool.registered") == 1


def spelled_otherwise(name: str, **members: object) -> bytes:
    """The same registration, its members in reverse order and with white space between."""
    members = dict(reversed(pool(name, **members).items()))
    return request_bytes("POST", "/pools", json.dumps(members, indent=2).encode(), {"Content-Type": "application/json"})


# --------------------------------------------------------------------------------------------- encoded only once


def list_encodings(service: Service) -> dict[str, float]:
    samples = service.samples()
    return {coding: samples[f'gdsvc_list_encodings_total{{coding="{coding}"}}'] for coding in CODINGS}


def read_often(service: Service) -> None:
    """Reads the list in every coding on many connections at once."""

    def read(reader: int) -> set[bytes]:
        with service.connect() as connection:
            return {connection.get("/pools", Accept_Encoding=CODINGS[reader % 3]).body for _ in range(3)}

    with ThreadPoolExecutor(READERS) as threads:
        bodies = list(threads.map(read, range(READERS)))
    assert len(set().union(*bodies)) == len(CODINGS)


@pytest.mark.parametrize("pools", [FEWER, pytest.param(CHANGING, marks=pytest.mark.load)])
def test_an_unchanged_list_is_made_once_and_a_change_encodes_one_pool(serve: Serve, pools: int) -> None:
    service = serve(*LONG)
    assert register_all(service.port, [request(fact(number)) for number in range(pools)]) == pools
    before = list_encodings(service)
    read_often(service)
    assert list_encodings(service) == {coding: count + 1 for coding, count in before.items()}

    encodings = service.samples()["gdsvc_pool_encodings_total"]
    assert encodings == pools
    service.post("/pools", fact(pools // 2) | {"model": "another"})
    read_often(service)
    assert service.samples()["gdsvc_pool_encodings_total"] == encodings + 1
    assert list_encodings(service) == {coding: count + 2 for coding, count in before.items()}


def request(document: dict[str, object]) -> bytes:
    return request_bytes("POST", "/pools", json.dumps(document).encode(), {"Content-Type": "application/json"})


# ---------------------------------------------------------------------------------------------------- 100,000 pools


class Heart(threading.Thread):
    """One pool that beats all the time, and how long each answer took."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.took: list[float] = []
        self._service = service
        self._stopping = threading.Event()

    def run(self) -> None:
        with self._service.connect() as connection:
            while not self._stopping.wait(0.002):
                asked_at = time.monotonic()
                assert connection.post("/pools", pool("heart")).status == 200
                self.took.append(time.monotonic() - asked_at)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@pytest.mark.load
def test_100_000_pools_register_are_listed_and_expire_at_once_without_delaying_a_heartbeat(
    serve: Serve, tell: Tell
) -> None:
    service = serve(*LONG, command=JUMPING)
    started_at = time.monotonic()
    assert register_all(service.port, [request(fact(number)) for number in range(MANY)]) == MANY
    registering = time.monotonic() - started_at
    assert service.names() == [f"pool-{number:06}" for number in range(MANY)]

    heart = Heart(service)
    heart.start()
    try:
        time.sleep(1.0)  # of heartbeats without load, to compare with
        calm = list(heart.took)
        service.send_signal(signal.SIGUSR1)  # as if suspended for longer than is forgiven: every lease has ended
        jumped_at = time.monotonic()
        wait_until_expired(service, MANY)
        expiring = time.monotonic() - jumped_at
    finally:
        heart.stop()
    busy = heart.took[len(calm) :]
    assert service.names() == ["heart"]
    tell(
        f"{MANY} pools registered in {registering:.1f} s ({MANY / registering:.0f}/s), expired in {expiring:.2f} s; "
        f"heartbeats meanwhile: {milliseconds(busy)}, before: {milliseconds(calm)}"
    )
    assert registering < MANY_SECS
    assert expiring < LAG_SECS + MACHINE_SECS
    assert max(busy) < ANSWER_SECS


def wait_until_expired(service: Service, count: int) -> None:
    deadline = time.monotonic() + 30
    while service.samples()["gdsvc_expired_total"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def milliseconds(took: list[float]) -> str:
    return f"median {statistics.median(took) * 1000:.1f}, max {max(took) * 1000:.1f} ms of {len(took)}"
