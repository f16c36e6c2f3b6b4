"""A Global Frontend before a pool of the demo. Without the openai client only the tests of curl are here."""

import contextlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.frontend.calling import FRONTEND
from tests.e2e.process import POLL_SECS, SERVE, Service, running
from tests.e2e.wire import PATIENCE

# The default suite needs no client of OpenAI's, so it does not import one.
collect_ignore_glob = [] if importlib.util.find_spec("openai") else ["test_openai*.py"]

LEASE = ("--heartbeat-interval-secs=1", "--lease-duration-secs=2")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A frontend that follows a discovery service, which lists the demo's pool `east`; the list is complete."""
    directory = tmp_path_factory.mktemp("demo")
    with contextlib.ExitStack() as stack:
        discovery = stack.enter_context(running(directory, *LEASE, command=SERVE))
        url = f"http://127.0.0.1:{discovery.port}"
        pool = stack.enter_context(subprocess.Popen([sys.executable, "-m", "gdsvc.demo.pool", "east", url]))
        stack.callback(pool.terminate)
        front = stack.enter_context(running(directory, f"--discovery-url={url}", command=FRONTEND))
        deadline = time.monotonic() + PATIENCE
        while not ((pools := front.get("/pools").json())["complete"] and pools["pools"]):
            assert time.monotonic() < deadline, pools
            time.sleep(POLL_SECS)
        yield front
