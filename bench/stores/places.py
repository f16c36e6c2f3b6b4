"""The stores under measurement, running: each as gdsvc is led to it, or in a sentence why it is not there.

The programs are those of the tests: ministack in a virtual environment of its own, etcd and an API server built by Go.
"""

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.processes import ROOT, Server, StartFailed, free_port, serving
from bench.stores.items import LEASE_SECS
from bench.stores.proxy import CONTROL, Counts
from tests.cluster.binaries import NoBuild, built
from tests.cluster.cluster import running_cluster
from tests.dynamodb import ministack

CLUSTER = ROOT / "tests" / "cluster"
READY_SECS = 60.0
REGION = "us-east-1"
HEARTBEATS_TABLE, READINGS_TABLE = "heartbeats", "readings"
NAMESPACE = "gdsvc"
_QUIET = ("--log-level", "warn", "--shutdown-grace-secs", "0", "--lease-duration-secs", str(LEASE_SECS))


class NotThere(Exception):
    """A store that cannot be measured on this machine; the text says why."""


class Place(msgspec.Struct, frozen=True):
    """A running store: the flags and variables that lead a service to it."""

    name: str
    flags: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}

    @contextmanager
    def serving(self, core: int, *flags: str) -> Iterator[Server]:
        """A service on `core` that keeps its registrations here, once it is ready. Raises StartFailed."""
        port = free_port()
        variables = [f"{name}={value}" for name, value in self.environ.items()]
        serve = [sys.executable, "-m", "gdsvc", "serve", "--listen", f"127.0.0.1:{port}"]
        with serving(["env", *variables, *serve, *_QUIET, *self.flags, *flags], port, core) as server:
            _wait_until_ready(server)
            yield server


class Tables(msgspec.Struct, frozen=True):
    """A DynamoDB at `endpoint`, with the counting proxy before it."""

    endpoint: str
    proxy_port: int

    @property
    def url(self) -> str:
        """Of the proxy."""
        return f"http://127.0.0.1:{self.proxy_port}"

    def place(self, table: str) -> Place:
        """The registrations of that table."""
        flags = ("--dynamodb-table", table, "--dynamodb-region", REGION, "--dynamodb-endpoint-url", self.url)
        return Place("dynamodb", ("--registration-storage", "dynamodb", *flags), ministack.CREDENTIALS)

    def tell(self, mode: str) -> None:
        """What the proxy is to do with queries: `pass`, `replay` or `renew`."""
        get(self.proxy_port, CONTROL + mode)

    def counts(self) -> Counts:
        """What went through since this was asked last."""
        return msgspec.json.decode(get(self.proxy_port, CONTROL + "counts")[1], type=Counts)


def memory() -> Place:
    """The service's own."""
    return Place("memory")


@contextmanager
def dynamodb(core: int) -> Iterator[Tables]:
    """On `core`, without a table. Raises NotThere."""
    if find_spec("aiobotocore") is None:
        raise NotThere("aiobotocore is missing (pip install -e '.[dynamodb]')")
    try:
        ministack.program()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotThere(f"ministack cannot be installed: {error}") from None
    port = free_port()
    with ministack.running() as endpoint:
        table_port = endpoint.rpartition(":")[2]
        proxy = [sys.executable, "-m", "bench.stores.proxy", str(port), table_port]
        with serving(proxy, port, core):
            yield Tables(endpoint, port)


@contextmanager
def kubernetes() -> Iterator[Place]:
    """An API server and its etcd, on the cores of this process. Raises NotThere."""
    try:
        binaries = built()
    except NoBuild as error:
        raise NotThere(str(error).splitlines()[0]) from None
    with TemporaryDirectory() as folder, running_cluster(binaries, Path(folder)) as cluster:
        flags = ("--registration-storage", "kubernetes", "--kubernetes-namespace", NAMESPACE)
        yield Place("kubernetes", flags, {"KUBECONFIG": str(cluster.kubeconfig)})


def engines() -> list[str]:
    """What the stores are made of, with the versions that are asked for."""
    found = [ministack.REQUIREMENT]
    for folder, module in {"server": "k8s.io/apiserver", "etcd": "go.etcd.io/etcd/server/v3"}.items():
        required = re.search(rf"{re.escape(module)} (v\S+)", (CLUSTER / folder / "go.mod").read_text())
        found += [f"{module} {required[1]}"] if required else []
    return found


def stay_on(core: int) -> None:
    """This process, and what it starts where that says nothing else, runs on `core` from now on."""
    os.sched_setaffinity(0, {core})


# ---------------------------------------------------------------------------------------------- asking a service


def counter(server: Server, name: str) -> int:
    """A metric without labels, of the service; 0 where it has none of that name."""
    _, exposed = get(server.port, "/metrics")
    found = re.search(rb"^gdsvc_%b (\S+)" % name.encode(), exposed, re.MULTILINE)
    return int(float(found[1])) if found else 0


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _wait_until_ready(server: Server) -> None:
    give_up_at = time.monotonic() + READY_SECS
    while time.monotonic() < give_up_at:
        if get(server.port, "/ready")[0] == 200:
            return
        time.sleep(0.05)  # another program comes up: nothing tells when
    raise StartFailed(f"the service was not ready within {READY_SECS:g} s: {get(server.port, '/ready')[1]!r}")
