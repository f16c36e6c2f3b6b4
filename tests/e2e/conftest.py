"""What the tests of the whole service share: services as processes, stopped and their logs judged after each test."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clusters import Cluster, cluster
from tests.e2e.process import Serve, Service, Tell, running
from tests.kube.lease_server import LeaseServer


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve(*flags)` starts a service that is live when it returns, and gone after the test."""
    with contextlib.ExitStack() as services:

        def start(*flags: str, **options: Any) -> Service:
            return services.enter_context(running(tmp_path, *flags, **options))

        yield start


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """`tell(text)` shows what a test measured, whether it passes or not."""

    def write(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return write


@pytest.fixture
def east(tmp_path: Path) -> Iterator[Cluster]:
    """A live API server without slices."""
    with cluster(tmp_path) as made:
        yield made


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Cluster]:
    """A live API server without Leases."""
    with cluster(tmp_path, LeaseServer) as made:
        yield made
