"""Thousands of slices on a real API server: the first sync, one change among them, and a relist of them all."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.imported import relays
from tests.cluster.programs import stopped
from tests.cluster.watching import equals_truth, relists, synced
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.watcher import Watcher

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

SLICES = 3000
ENDPOINTS = 20
PING_SECS = 0.002


@contextmanager
def pinging(service: Service) -> Iterator[list[float]]:
    """Asks GET /live all the time; gives the seconds that each answer took: the longest is a stall of the loop."""
    took: list[float] = []
    over = threading.Event()

    def ping() -> None:
        with service.connect() as connection:
            while not over.wait(PING_SECS):
                asked_at = time.monotonic()
                assert connection.get("/live").status == 200
                took.append(time.monotonic() - asked_at)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def addresses(number: int, last: int = 0) -> list[str]:
    return [f"10.{number >> 8}.{number & 255}.{each}" for each in range(1, ENDPOINTS)] + [f"10.200.{last}.1"]


def test_thousands_of_slices_are_synced_followed_and_listed_anew(cluster: Cluster, serve: Serve, tell: Tell) -> None:
    cluster.api.put_all(relays(number, *addresses(number)) for number in range(SLICES))
    service = serve()
    with pinging(service) as took:
        synced(service)
    synced_secs = time.monotonic() - service.started_at
    stall_secs = max(took, default=0.0)
    equals_truth(service, cluster)
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        changed_at = time.monotonic()
        cluster.api.put(relays(7, *addresses(7, last=1)))
        assert watcher.next().json()["key"]["dgd_name"] == "pool-00007"
        told_secs = time.monotonic() - changed_at
        with stopped(cluster.server):
            for number in range(0, SLICES, 100):
                cluster.api.delete(relays(number))
            cluster.api.put_all(relays(number, *addresses(number, last=2)) for number in range(1, SLICES, 10))
        with pinging(service) as took_anew:
            names = [watcher.next().name for _ in range(SLICES // 100 + SLICES // 10)]
    equals_truth(service, cluster)
    assert (names.count("removed"), names.count("upserted")) == (SLICES // 100, SLICES // 10)
    assert relists(service, "first") == 1
    tell(
        f"{SLICES} slices of {ENDPOINTS} endpoints: process start to ready {synced_secs:.2f} s, slowest GET /live "
        f"meanwhile {stall_secs * 1e3:.0f} ms, one change told after {told_secs * 1e3:.0f} ms, "
        f"slowest GET /live during the relist {max(took_anew) * 1e3:.0f} ms"
    )
