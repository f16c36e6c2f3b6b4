"""A cluster for a test: etcd, an API server that serves EndpointSlices and Leases, a kubeconfig that leads to it."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.api import SLICES, Api
from tests.cluster.binaries import Binaries
from tests.cluster.programs import ApiServer, Etcd, wait_until

LEASES = "/apis/coordination.k8s.io/v1/leases"
# A slice's revision is not the newest where other kinds change: that a quiet watch hears of it, etcd must tell often.
OUR_ETCD_FLAGS = ("--unsafe-no-fsync", "--watch-progress-notify-interval=500ms")


@dataclass
class Cluster:
    """`server` is the one that services ask. `other` is over the same etcd, and stays where `server` is killed."""

    etcd: Etcd
    server: ApiServer
    other: ApiServer
    kubeconfig: Path
    api: Api  # of `other`, so that slices change while `server` is away


@contextmanager
def running_cluster(
    binaries: Binaries,
    folder: Path,
    *,
    etcd: Path | None = None,
    etcd_flags: tuple[str, ...] = OUR_ETCD_FLAGS,
    server_flags: tuple[str, ...] = (),
) -> Iterator[Cluster]:
    """Started, and ended on leaving, in whatever state the test left it. Its data goes: tests must not fill a disk."""
    try:
        with ExitStack() as programs:
            store = programs.enter_context(Etcd(etcd or binaries.etcd, folder / "etcd", *etcd_flags))
            server = programs.enter_context(ApiServer(binaries.server, folder / "server", store.url, *server_flags))
            other = programs.enter_context(ApiServer(binaries.server, folder / "other", store.url, *server_flags))
            for program in (server, other):  # which wait for etcd by themselves
                program.wait_until_it_answers()
            api = programs.enter_context(Api(other.port, other.certificate))
            api.define("discovery.k8s.io", "endpointslices", "EndpointSlice")
            api.define("coordination.k8s.io", "leases", "Lease")
            for program in (server, other):
                _serves_slices(program)
            yield Cluster(store, server, other, _kubeconfig(folder, server), api)
    finally:
        shutil.rmtree(folder / "etcd", ignore_errors=True)


def _serves_slices(program: ApiServer) -> None:
    """Until `program` has heard of the definitions."""
    with Api(program.port, program.certificate) as api:
        wait_until(lambda: api.serves(SLICES) and api.serves(LEASES), lambda: program.log)


def _kubeconfig(folder: Path, server: ApiServer) -> Path:
    """A file as kubectl writes one; the server asks nobody who they are."""
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": str(server.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
