"""The reflector alone against a real API server: what it asks, what it is answered, where it goes on."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gdsvc.kube import objects
from gdsvc.kube.client import Client, Reply
from gdsvc.kube.objects import EndpointSlice
from gdsvc.kube.reflector import Kind, Reflector
from gdsvc.kube.watcher import Cause, Failed
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartCluster
from tests.cluster.imported import lease, relays

pytestmark = [pytest.mark.cluster, pytest.mark.loops("uvloop")]

PATIENCE_SECS = 30.0
SLICES = Kind(objects.ENDPOINT_SLICES_PATH, objects.ENDPOINT_SLICE)
SHORT_WATCH_SECS = 5  # the server sends a bookmark two seconds before the end of a watch


@dataclass
class Names:
    """A view that keeps the names there are, and what it was told in words."""

    there: set[str] = field(default_factory=set[str])
    aside: set[str] = field(default_factory=set[str])
    told: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    def init(self) -> None:
        self.aside = set()

    def init_apply(self, item: EndpointSlice) -> None:
        self.aside.add(str(item.metadata.name))

    def init_delete(self, item: EndpointSlice) -> None:
        self.aside.discard(str(item.metadata.name))

    def init_done(self, cause: Cause) -> None:
        self.there = self.aside
        self.told.append(f"swap {cause}")

    def apply(self, item: EndpointSlice) -> None:
        self.there.add(str(item.metadata.name))
        self.told.append(f"apply {item.metadata.name}")

    def delete(self, item: EndpointSlice) -> None:
        self.there.discard(str(item.metadata.name))
        self.told.append(f"delete {item.metadata.name}")

    def completeness(self, *, stale: bool) -> None:
        self.told.append("stale" if stale else "exact")

    def failed(self, failure: Failed) -> None:
        self.failures.append(failure.kind)


@dataclass
class Asking:
    """The client, with watches of `watch_secs` where given; keeps every query."""

    client: Client
    watch_secs: int | None
    queries: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @asynccontextmanager
    async def get(self, path: str, query: dict[str, str]) -> AsyncGenerator[Reply, None]:
        self.queries.append(query)
        sent = (
            query
            if self.watch_secs is None or "watch" not in query
            else query | {"timeoutSeconds": f"{self.watch_secs}"}
        )
        async with self.client.get(path, sent) as reply:
            yield reply

    @property
    def kinds(self) -> list[str]:
        """list, stream (a streaming list) or watch, of each query."""
        return [
            "list" if "watch" not in query else "stream" if "sendInitialEvents" in query else "watch"
            for query in self.queries
        ]


@dataclass
class Stand:
    """A running reflector and what it did."""

    reflector: Reflector[EndpointSlice]
    view: Names
    asking: Asking


@asynccontextmanager
async def reflecting(cluster: Cluster, watch_secs: int | None = None) -> AsyncIterator[Stand]:
    """Over `cluster`, after its first list."""
    from gdsvc.kube.credentials import Credentials  # takes a second, which the default suite need not wait

    credentials = await Credentials.load(str(cluster.kubeconfig))
    view = Names()
    async with Client(credentials) as client:
        asking = Asking(client, watch_secs)
        async with Reflector(asking, SLICES, view) as reflector:
            await until(lambda: "swap first" in view.told)
            yield Stand(reflector, view, asking)


async def until(true: Callable[[], bool]) -> None:
    """Looks again until it is so."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not true():  # noqa: ASYNC110  conditions are of many owners, and none knows of the test
            await asyncio.sleep(0.01)


async def test_the_first_list_streams_and_the_watch_goes_on_in_the_same_answer(cluster: Cluster) -> None:
    cluster.api.put(relays(1))
    async with reflecting(cluster) as stand:
        cluster.api.put(relays(2))
        cluster.api.put(relays(1, "10.9.9.9"))
        cluster.api.delete(relays(2))
        await until(lambda: len(stand.view.told) == 4)
        assert stand.view.told == ["swap first", "apply pool-00002-s", "apply pool-00001-s", "delete pool-00002-s"]
        assert stand.asking.kinds == ["stream"]
        assert stand.view.failures == []


async def test_a_watch_that_ended_goes_on_from_its_bookmark(cluster: Cluster) -> None:
    slice_revision = cluster.api.put(relays(1))
    async with reflecting(cluster, SHORT_WATCH_SECS) as stand:
        lease_revision = cluster.api.put(lease("moves-the-revision"))
        await until(lambda: len(stand.asking.queries) >= 3)
        resumed = [int(query["resourceVersion"]) for query in stand.asking.queries[1:]]
        assert stand.asking.kinds[:3] == ["stream", "watch", "watch"]
        assert resumed[0] >= lease_revision > slice_revision  # no slice had that revision: only a bookmark names it
        cluster.api.put(relays(2))
        await until(lambda: stand.view.there == {"pool-00001-s", "pool-00002-s"})
        assert stand.view.told == ["swap first", "apply pool-00002-s"]
        assert stand.view.failures == []


async def test_a_revision_that_was_compacted_away_is_listed_anew(cluster: Cluster) -> None:
    cluster.api.put(relays(1))
    cluster.api.put(relays(2))
    async with reflecting(cluster) as stand:
        cluster.server.kill()
        cluster.api.delete(relays(1))
        newest = cluster.api.put(relays(3))
        cluster.etcd.compact(newest)
        await asyncio.to_thread(cluster.server.start)
        await until(lambda: "swap expired" in stand.view.told)
        assert stand.view.there == {"pool-00002-s", "pool-00003-s"}
        assert "expired" in stand.view.failures
        assert stand.asking.kinds[-1] == "stream"
        assert "resourceVersion" not in stand.asking.queries[-1]  # the one that had expired is not asked for again
        cluster.api.delete(relays(2))
        await until(lambda: stand.view.there == {"pool-00003-s"})


async def test_a_server_that_refuses_streaming_lists_is_listed_plainly(start_cluster: StartCluster) -> None:
    cluster = start_cluster(server_flags=("--feature-gates=WatchList=false",))
    cluster.api.put(relays(1))
    async with reflecting(cluster) as stand:
        cluster.api.put(relays(2))
        await until(lambda: stand.view.there == {"pool-00001-s", "pool-00002-s"})
        assert stand.asking.kinds == ["stream", "list", "watch"]
        assert stand.asking.queries[1] == {"resourceVersion": "0"}
        assert stand.view.failures == []
