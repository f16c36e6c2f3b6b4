"""One Global Frontend for all tests that can share it, before a pool whose replies each test scripts itself."""

import socket
from collections.abc import Iterator

import pytest

from tests.e2e.frontend.calling import FRONTEND
from tests.e2e.process import Service, running


@pytest.fixture(scope="session")
def door() -> Iterator[socket.socket]:
    """Where the pool listens: open between the tests as well, so that nobody else gets the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory, door: socket.socket) -> Iterator[Service]:
    """A frontend that knows one pool, `a`."""
    pool = f"--pool=a=http://127.0.0.1:{door.getsockname()[1]}"
    with running(tmp_path_factory.mktemp("frontend"), pool, command=FRONTEND) as service:
        yield service
