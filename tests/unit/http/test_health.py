"""What probes, operators and scrapers are told, over memory stores."""

import json
from collections.abc import Iterator
from typing import Any

from gdsvc import metrics
from gdsvc._meter import RequestMeter
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Scope
from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.http.health import HealthRoutes
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.directory import EncodedDirectory
from gdsvc.pool_discovery.lease_clock import LeaseClock

STARTED_AT = "2026-01-01T00:00:00.000Z"
UNUSED: Any = None  # these handlers read no body


class Stand:
    """The health routes and what they look at."""

    def __init__(self) -> None:
        self.time = 0.0
        self.reasons: tuple[str, ...] = ()
        self.clock = LeaseClock(15, lambda: self.time)
        self.pools = MemoryPoolStore(Lease(5, 15), self.clock, STARTED_AT)
        routers = MemoryReplicaStore(Lease(5, 15), self.clock, STARTED_AT)
        registry = metrics.registry([self.readings], RequestMeter(["/pools"]))
        directories: dict[str, EncodedDirectory] = {"pools": self.pools, "routers": routers}
        self.routes = HealthRoutes("1.2.3", STARTED_AT, lambda: self.reasons, directories, registry)

    def readings(self) -> Iterator[metrics.Reading]:
        yield metrics.POOLS, len(self.pools.index)


def scope(accept: bytes = b"") -> Scope:
    """A GET of whatever handler it is given to."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"accept", accept)] if accept else [],
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }


def content_type(response: Response) -> bytes:
    return dict(response.headers)[b"content-type"]


async def test_ready_follows_its_reasons_and_live_does_not() -> None:
    stand = Stand()
    ready = await stand.routes.ready(scope(), UNUSED)
    assert (ready.status, json.loads(ready.body)) == (200, {"ready": True, "reasons": []})
    stand.reasons = ("shutting down",)
    ready = await stand.routes.ready(scope(), UNUSED)
    assert (ready.status, json.loads(ready.body)) == (503, {"ready": False, "reasons": ["shutting down"]})
    live = await stand.routes.live(scope(), UNUSED)
    assert (live.status, json.loads(live.body)) == (200, {"live": True})


async def test_health_tells_of_each_directory_and_its_sources_as_they_are_now() -> None:
    stand = Stand()
    stand.reasons = ("shutting down",)
    await stand.pools.register(PoolRegistration(PoolKey("s", "n", "p")))
    while stand.time < 15.0:
        stand.time += 0.125
        stand.clock.tick()
    health = json.loads((await stand.routes.health(scope(), UNUSED)).body)
    pools, routers = health["directories"].pop("pools"), health["directories"].pop("routers")
    assert health == {
        "version": "1.2.3",
        "started_at": STARTED_AT,
        "ready": False,
        "reasons": ["shutting down"],
        "directories": {},
    }
    assert (pools["complete"], pools["revision"]) == (True, 3), "it came, it lapsed, the list is complete"
    assert (routers["complete"], routers["revision"]) == (True, 1)
    assert [(source["name"], source["complete"], source["as_of"]) for source in pools["sources"]] == [
        ("pool-registrations", True, STARTED_AT)
    ]


async def test_metrics_come_in_the_format_that_is_asked_for() -> None:
    stand = Stand()
    text = await stand.routes.metrics(scope(), UNUSED)
    assert content_type(text).startswith(b"text/plain")
    assert b"\ngdsvc_pools 0.0\n" in text.body
    openmetrics = await stand.routes.metrics(scope(b"application/openmetrics-text"), UNUSED)
    assert content_type(openmetrics).startswith(b"application/openmetrics-text")
    assert openmetrics.body.endswith(b"# EOF\n")
