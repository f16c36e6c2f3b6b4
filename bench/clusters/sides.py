"""The two sides, each measured in a process of its own: `python -m bench.clusters.sides ours|theirs PORT`.

Both end with the same result: the pools by their keys, with the addresses of their relays. The last line printed is a
Taken as JSON.
"""

import asyncio
import gc
import re
import resource
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.clusters.api_server import EVENTS
from bench.clusters.slices import CLUSTER

PATIENCE_SECS = 240.0
TICK_SECS = 0.002  # how finely the longest stall of the loop is known


class Taken(msgspec.Struct, frozen=True):
    """CPU seconds and wall seconds of the first sync, and CPU seconds of one event; bytes; the longest stall."""

    sync_cpu: float
    sync_secs: float
    event_cpu: float
    memory: int
    peak: int
    stall_secs: float
    pools: int
    steps: int  # of the sync, between which the loop got its turn; 0 where they are not counted


@dataclass
class Progress:
    """How far a side has come: `synced` and the events that it has shown."""

    synced: asyncio.Event
    all_shown: asyncio.Event
    shown: int = 0
    pools: int = 0
    steps: int = 0

    def show(self) -> None:
        """One more event has become a change."""
        self.shown += 1
        if self.shown == EVENTS:
            self.all_shown.set()


Side = Callable[[str, Progress], Coroutine[Any, Any, None]]


async def ours(host: str, progress: Progress) -> None:
    """The service's own path, registrations off: reflector, slices, directory with its encoded listings."""
    from gdsvc.backends.mcs.directory import McsPoolDirectory  # noqa: PLC0415 - each side loads only its own
    from gdsvc.backends.mcs.imported import ImportedSlices  # noqa: PLC0415
    from gdsvc.backends.mcs.naming import Mode  # noqa: PLC0415
    from gdsvc.backends.mcs.pools import PoolServices  # noqa: PLC0415
    from gdsvc.kube import objects  # noqa: PLC0415
    from gdsvc.kube.client import Client  # noqa: PLC0415
    from gdsvc.kube.reflector import Kind, Reflector  # noqa: PLC0415

    imported = ImportedSlices(Mode("mcs"), "2026-01-01T00:00:00Z")
    pools = McsPoolDirectory(imported, PoolServices())
    kind = Kind(objects.ENDPOINT_SLICES_PATH, objects.ENDPOINT_SLICE)
    async with Client(Anonymous(host)) as client, Reflector(client, kind, imported) as reflector:
        while not imported.exact:  # noqa: ASYNC110  steps are driven as a Pulse drives them
            await asyncio.sleep(0 if imported.advance() == 0 else TICK_SECS)
        progress.pools, progress.steps = len(pools.index), reflector.report.steps
        pools.changes.listen(progress.show)
        progress.synced.set()
        await progress.all_shown.wait()


async def theirs(host: str, progress: Progress) -> None:
    """An afternoon with kubernetes_asyncio: its models, its Watch, a dict."""
    from kubernetes_asyncio import client, watch  # noqa: PLC0415

    library: Any = client  # not typed
    configuration = library.Configuration(host=host)
    async with library.ApiClient(configuration) as api_client:
        api = library.DiscoveryV1Api(api_client)
        listed = await api.list_endpoint_slice_for_all_namespaces(resource_version="0")
        pools = dict(map(_pool, listed.items))
        progress.pools = len(pools)
        progress.synced.set()
        kinds: Any = watch
        options = {"resource_version": listed.metadata.resource_version, "timeout_seconds": 50}
        async with kinds.Watch().stream(api.list_endpoint_slice_for_all_namespaces, **options) as stream:
            async for event in stream:
                key, relays = _pool(event["object"])
                if pools.get(key) != relays:
                    pools[key] = relays
                    progress.show()
                if progress.all_shown.is_set():
                    return


def _pool(item: Any) -> tuple[tuple[str, str, str], tuple[str, ...]]:
    service = item.metadata.labels["multicluster.kubernetes.io/service-name"]
    ready = (
        address
        for endpoint in item.endpoints or ()
        if endpoint.conditions.ready is not False and not endpoint.conditions.terminating
        for address in endpoint.addresses
    )
    return (CLUSTER, item.metadata.namespace, service.removesuffix("-pool-relay")), tuple(sorted(ready))


class Anonymous:
    """Credentials for a server that asks for none; also its settings."""

    ssl_ca_cert = cert_file = key_file = tls_server_name = proxy = None
    verify_ssl = True

    def __init__(self, host: str) -> None:
        self.host = host

    @property
    def settings(self) -> Any:
        """Itself."""
        return self

    async def authorization(self) -> None:
        """Nothing proves who asks."""

    async def renew(self) -> None:
        """There is nothing to renew."""


# ------------------------------------------------------------------------------------------------- measuring


async def taken(side: Side, port: int) -> Taken:
    """Runs one side to its end."""
    progress = Progress(asyncio.Event(), asyncio.Event())
    await _warm(side)
    gc.collect()
    gc.freeze()  # as the service does once it is set up: what was imported is not looked at in each collection
    memory, cpu, at = _resident(), time.process_time(), time.perf_counter()
    async with asyncio.timeout(PATIENCE_SECS), _stalls() as stalls, asyncio.TaskGroup() as group:
        task = group.create_task(side(f"http://127.0.0.1:{port}", progress))
        await progress.synced.wait()
        sync_cpu, sync_secs = time.process_time() - cpu, time.perf_counter() - at
        held = _resident() - memory
        await asyncio.sleep(2 * TICK_SECS)  # for a stall that has just ended to be seen
        stall = max(stalls)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - memory
        await asyncio.sleep(0.2)  # for the watch to open
        begin(port, "/begin")
        cpu = time.process_time()
        await progress.all_shown.wait()
        event_cpu = (time.process_time() - cpu) / EVENTS
        await task
    return Taken(sync_cpu, sync_secs, event_cpu, held, peak, stall, progress.pools, progress.steps)


def begin(port: int, path: str) -> None:
    """Tells the API server to go on."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    connection.getresponse().read()
    connection.close()


async def _warm(side: Side) -> None:
    """Loads what the side needs, which is no part of the sync: nothing listens on port 9."""
    with_nothing = Progress(asyncio.Event(), asyncio.Event())
    try:
        async with asyncio.timeout(1.0 if side is ours else 20.0):
            await side("http://127.0.0.1:9", with_nothing)
    except Exception:  # noqa: BLE001 - whatever each raises where there is no server
        pass


@asynccontextmanager
async def _stalls() -> AsyncGenerator[list[float]]:
    """Gives a list of the loop's stalls in seconds, growing; the first is 0."""
    found = [0.0]

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_SECS)
            found.append(time.perf_counter() - before - TICK_SECS)

    task = asyncio.create_task(tick())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _resident() -> int:
    found = re.search(r"^VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main(arguments: Sequence[str]) -> None:
    """Prints what was taken."""
    side, port = arguments
    sides: dict[str, Side] = {"ours": ours, "theirs": theirs}
    print(msgspec.json.encode(uvloop.run(taken(sides[side], int(port)))).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
