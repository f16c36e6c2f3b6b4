"""A scripted API server in a thread of its own, for services that are processes; its kubeconfig, slices to put there.

The server keeps its objects and its port over a kill, as one with an etcd behind it does.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.process import POLL_SECS, Service
from tests.e2e.watcher import Watcher
from tests.e2e.wire import PATIENCE
from tests.kube.api_server import ApiServer, served
from tests.unit.backends.mcs.slice_objects import (
    KARMADA_DISPATCH,
    KARMADA_IMPORT,
    MANAGED_BY,
    MCS_CLUSTER,
    MCS_SERVICE,
    PROVISION_CLUSTER,
    SERVICE_NAME,
    WORK_NAMESPACE,
)

TOKEN = "token-that-no-log-may-hold"
FAST = (sys.executable, "-W", "error", str(Path(__file__).with_name("fast_service.py")))
Document = dict[str, Any]
Result = TypeVar("Result")


class Cluster:
    """One API server. `tell` runs a function with it on its own loop; `kill` and `revive` take it off its port."""

    def __init__(self, directory: Path, kind: type[ApiServer] = ApiServer) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self.api = kind()
        self._kind = kind
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._leave: asyncio.Event | None = None
        self._served: Future[None] | None = None

    @property
    def environ(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig)}

    def tell(self, act: Callable[[ApiServer], Result]) -> Result:
        """What `act` gives, called with the server on the server's loop."""

        async def acting() -> Result:
            return act(self.api)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(PATIENCE)

    def put(self, *documents: Document) -> None:
        for document in documents:
            self.tell(partial(ApiServer.take, document=document))

    def delete(self, *names: str) -> None:
        for name in names:
            self.tell(partial(ApiServer.delete, name=name))

    def say(self, *lines: bytes) -> None:
        """Writes lines to every open watch."""
        for line in lines:
            self.tell(partial(ApiServer.say, line=line))

    def kill(self) -> None:
        assert self._leave is not None
        assert self._served is not None
        self._loop.call_soon_threadsafe(self._leave.set)
        self._served.result(PATIENCE)

    def revive(self) -> None:
        ready = threading.Event()

        async def serving() -> None:
            kept = {name: getattr(self.api, name) for name in ("objects", "revision", "port", "streaming")}
            async with served(self._kind(**kept, compacted=self.api.revision)) as self.api:
                self._leave = asyncio.Event()
                ready.set()
                await self._leave.wait()

        self._served = asyncio.run_coroutine_threadsafe(serving(), self._loop)
        assert ready.wait(PATIENCE)

    def start(self) -> None:
        self._thread.start()
        self.revive()
        self.kubeconfig.write_text(json.dumps(kubeconfig(self.api.host)))

    def close(self) -> None:
        if self._served is not None and not self._served.done():
            self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


@dataclass(frozen=True)
class Site:
    """The pools of one source cluster, as `service` tells of them: many tests can share it where each has a site."""

    name: str
    service: Service

    def pools(self) -> list[Document]:
        """Its listings, sorted by name."""
        pools = self.service.get(f"/pools?site_id={self.name}").json()["pools"]
        assert isinstance(pools, list)
        return pools

    def names(self) -> list[str]:
        """The dgd_names of its pools."""
        return [item["key"]["dgd_name"] for item in self.pools()]

    def relays(self) -> dict[str, list[str]]:
        """The relay identities of its pools by dgd_name."""
        return {item["key"]["dgd_name"]: item["relay_identities"] for item in self.pools()}

    def watch(self) -> Watcher:
        """Told of its pools alone."""
        return Watcher(self.service.port, f"/pools/watch?site_id={self.name}")


@contextmanager
def cluster(directory: Path, kind: type[ApiServer] = ApiServer) -> Iterator[Cluster]:
    """A live API server, gone after the block."""
    made = Cluster(directory, kind)
    made.start()
    try:
        yield made
    finally:
        made.close()


def kubeconfig(server: str) -> Document:
    """What kubectl would be given for `server`; JSON is YAML too."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": TOKEN}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }


def imported(
    service: str, *endpoints: Document, cluster: str = "east", name: str = "", family: str = "IPv4"
) -> Document:
    """A slice of `service` in namespace relay, by the labels of the MCS API; its port is http, 8000."""
    labels = {MCS_SERVICE: service, MCS_CLUSTER: cluster, MANAGED_BY: "example.test"}
    return _slice(name or f"{cluster}-{service}", labels, endpoints, family)


def dispatched(service: str, *endpoints: Document, cluster: str = "east") -> Document:
    """A slice of Karmada's MultiClusterService."""
    made = _slice(
        f"{cluster}-{service}-7k2fx", {SERVICE_NAME: service, MANAGED_BY: KARMADA_DISPATCH}, endpoints, "IPv4"
    )
    made["metadata"]["annotations"] = {PROVISION_CLUSTER: cluster}
    return made


def derived(service: str, *endpoints: Document, cluster: str, importer: str) -> Document:
    """A slice of a ServiceImport as it is in the member cluster `importer`, where the annotation names that one."""
    labels = {SERVICE_NAME: f"derived-{service}", MANAGED_BY: KARMADA_IMPORT}
    made = _slice(f"imported-{cluster}-{service}-7k2fx", labels, endpoints, "IPv4")
    made["metadata"]["annotations"] = {WORK_NAMESPACE: f"karmada-es-{importer}"}
    return made


def pod(*addresses: str, name: str | None = None, **conditions: bool) -> Document:
    """An endpoint; a condition that is not given is not written."""
    reference = {"targetRef": {"kind": "Pod", "namespace": "relay", "name": name}} if name else {}
    return {"addresses": list(addresses), "conditions": conditions, **reference}


def eventually(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Returns once `holds()` is true; fails where it does not become so."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(POLL_SECS)


def _slice(name: str, labels: dict[str, str], endpoints: tuple[Document, ...], family: str) -> Document:
    return {
        "metadata": {"name": name, "namespace": "relay", "labels": labels},
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
    }
