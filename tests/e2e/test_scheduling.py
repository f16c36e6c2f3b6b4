"""The kernel's policy for the threads of a live service: batches under load, the ordinary one otherwise."""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.process import HASTY, POLL_SECS, SERVE, Serve, Service
from tests.e2e.wire import PATIENCE

BATCH, OTHER = getattr(os, "SCHED_BATCH", -1), getattr(os, "SCHED_OTHER", -1)
BURST = 200  # requests in one write
# Another policy than both, then the service in the same process.
START_IDLE = (
    "import os, sys; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); os.execv(sys.argv[1], sys.argv[1:])"
)
GET = b"GET /live HTTP/1.1\r\nHost: test\r\n\r\n"

pytestmark = pytest.mark.skipif(BATCH < 0, reason="this system has no SCHED_BATCH")


def policies(service: Service) -> set[int]:
    return {os.sched_getscheduler(int(thread.name)) for thread in Path(f"/proc/{service.pid}/task").iterdir()}


def settled(service: Service, wanted: set[int]) -> set[int]:
    """The policies of the service's threads once they are as wanted, or patience ends."""
    deadline = time.monotonic() + PATIENCE
    while (seen := policies(service)) != wanted and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    return seen


def load_until(service: Service, wanted: set[int], seconds: float = PATIENCE) -> set[int]:
    """The policies of the service's threads after a load that ends once they are as wanted."""
    deadline = time.monotonic() + seconds
    with service.connect() as connection:
        while (seen := policies(service)) != wanted and time.monotonic() < deadline:
            connection.send(GET * BURST)
            for _ in range(BURST):
                assert connection.read().status == 200
    return seen


def test_threads_are_batched_under_load_and_ordinary_again_after_it(serve: Serve) -> None:
    service = serve(command=HASTY)
    assert settled(service, {OTHER}) == {OTHER}  # starting was work, too
    assert load_until(service, {BATCH}) == {BATCH}
    assert settled(service, {OTHER}) == {OTHER}


def test_the_policy_of_whoever_started_the_service_is_kept(serve: Serve) -> None:
    service = serve(command=(sys.executable, "-c", START_IDLE, *SERVE))
    assert policies(service) == {os.SCHED_IDLE}
    assert load_until(service, {BATCH}, seconds=1.0) == {os.SCHED_IDLE}
