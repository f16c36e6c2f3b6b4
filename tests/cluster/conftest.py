"""A real API server and etcd for each test, built once; services over them. Nothing is built where no test asks."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.binaries import Binaries, NoBuild, built
from tests.cluster.cluster import Cluster, running_cluster
from tests.e2e.conftest import tell
from tests.e2e.process import Serve, Service, running

__all__ = ["tell"]

StartCluster = Callable[..., Cluster]  # the fixture `start_cluster`: as `running_cluster`, less binaries and folder


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """What the clusters run; the first build takes minutes, which the test that comes first does not have."""
    try:
        return built()
    except NoBuild as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def start_cluster(binaries: Binaries, tmp_path: Path) -> Iterator[StartCluster]:
    """`start_cluster()` gives a cluster that serves EndpointSlices, and is gone after the test."""
    with contextlib.ExitStack() as clusters:

        def start(**options: Any) -> Cluster:
            return clusters.enter_context(running_cluster(binaries, tmp_path, **options))

        yield start


@pytest.fixture
def cluster(start_cluster: StartCluster) -> Cluster:
    """An empty cluster."""
    return start_cluster()


@pytest.fixture
def serve(cluster: Cluster, tmp_path: Path) -> Iterator[Serve]:
    """`serve(*flags)` starts a live service over `cluster`: standard names, slices alone, unless `flags` say else."""
    environ = {"KUBECONFIG": str(cluster.kubeconfig)}
    with contextlib.ExitStack() as services:

        def start(*flags: str, **options: Any) -> Service:
            if "--pool-discovery" not in flags:
                flags = ("--pool-discovery", "mcs", "--registrations", "off", *flags)
            options["environ"] = environ | options.get("environ", {})
            return services.enter_context(running(tmp_path, *flags, **options))

        yield start
