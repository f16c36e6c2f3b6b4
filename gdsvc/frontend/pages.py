"""What the Global Frontend answers itself: live, ready, metrics, its pools, and the models that can be asked for."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gdsvc import metrics
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Scope, header
from gdsvc.frontend.app import Handler
from gdsvc.frontend.counts import gauge
from gdsvc.frontend.forwarding import Forwarder
from gdsvc.frontend.listing import Listing
from gdsvc.frontend.selection import Selector


class Ready(msgspec.Struct):
    """Body of /ready: whether to send requests here, and where not, why."""

    ready: bool
    reasons: tuple[str, ...] = ()


class FrontendView(msgspec.Struct):
    """One frontend in GET /pools. `barred_secs` is how long it is still barred after it failed, 0.0 where it is not."""

    url: str
    set_aside: bool
    barred_secs: float


class PoolView(msgspec.Struct):
    """One pool in GET /pools, as this process routes to it."""

    id: str
    model: str | None
    region: str | None
    in_flight: int
    set_aside: bool
    frontends: tuple[FrontendView, ...]


class PoolsView(msgspec.Struct):
    """Body of GET /pools."""

    complete: bool
    pools: tuple[PoolView, ...]


_ENCODER = msgspec.json.Encoder()


class Pages:
    """`reasons` tells why the frontend is not ready (nothing: it is)."""

    def __init__(
        self,
        forwarder: Forwarder,
        listing: Listing,
        reasons: Callable[[], tuple[str, ...]],
        registry: CollectorRegistry,
        now: Callable[[], float],
    ) -> None:
        self._forwarder = forwarder
        self._listing = listing
        self._reasons = reasons
        self._registry = registry
        self._now = now

    def table(self) -> dict[bytes, Handler]:
        """The pages by raw path."""
        return {
            b"/live": self.live,
            b"/ready": self.ready,
            b"/metrics": self.metrics,
            b"/pools": self.pools,
            b"/v1/models": self.models,
        }

    async def live(self, scope: Scope) -> Response:
        """GET /live: the process answers."""
        del scope
        return Response(200, b'{"live":true}')

    async def ready(self, scope: Scope) -> Response:
        """GET /ready: 503 while requests should go elsewhere."""
        del scope
        reasons = self._reasons()
        return Response(503 if reasons else 200, _ENCODER.encode(Ready(not reasons, reasons)))

    async def metrics(self, scope: Scope) -> Response:
        """GET /metrics: rendered in a thread, since the process's own figures are read from files."""
        accept = (header(scope, b"accept") or b"").decode("latin-1")
        selector = self._forwarder.selector
        in_flight = {cell.pool_id for cell in selector.cells() if cell.in_flight}
        self._forwarder.counts.forget((*selector.catalog.pools, *in_flight), self._now())
        body, content_type = await asyncio.to_thread(metrics.render, self._registry, accept)
        return Response(200, body, content_type.encode())

    async def pools(self, scope: Scope) -> Response:
        """GET /pools: the pools as this process sees them."""
        del scope
        return Response(200, _ENCODER.encode(view(self._forwarder.selector, self._now())))

    async def models(self, scope: Scope) -> Response:
        """GET /v1/models."""
        del scope
        return Response(200, await self._listing.body())


def view(selector: Selector, now: float) -> PoolsView:
    """The pools of the catalog, with what is known of them here; `now` as that of the selector."""
    barred = {(it.frontend.cell.pool_id, it.frontend.url): it for it in selector.standings()}
    cells = {cell.pool_id: cell for cell in selector.cells()}
    shown: list[PoolView] = []
    for pool in selector.catalog.pools.values():
        cell = cells.get(pool.id)
        frontends: list[FrontendView] = []
        for url in pool.frontends:
            standing = barred.get((pool.id, url))
            left = max(0.0, standing.until - now) if standing is not None else 0.0
            frontends.append(FrontendView(url, standing is not None and standing.aside, round(left, 3)))
        in_flight, aside = (cell.in_flight, cell.aside) if cell is not None else (0, False)
        shown.append(PoolView(pool.id, pool.model, pool.region, in_flight, aside, tuple(frontends)))
    return PoolsView(selector.catalog.complete, tuple(shown))


class FrontendCollector(Collector):
    """What was counted, and what is so at the moment of a scrape."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    def collect(self) -> Iterator[Metric]:
        """All families, each once."""
        forwarder = self._forwarder
        yield from forwarder.counts.metrics()
        cells = list(forwarder.selector.cells())
        yield gauge("in_flight", "Requests in flight.", ((cell.pool_id, cell.in_flight) for cell in cells), "pool")
        yield gauge("ejected", "1 where the pool is set aside.", ((cell.pool_id, cell.aside) for cell in cells), "pool")
        counts = forwarder.client.counts()
        states = (("idle", counts.idle), ("busy", counts.open - counts.idle))
        yield gauge("connections", "Open connections to pools.", states, "state")
        yield from _of_catalog(forwarder)


def _of_catalog(forwarder: Forwarder) -> Iterable[Metric]:
    catalog = forwarder.selector.catalog
    selectable = sum(bool(pool.frontends) for pool in catalog.pools.values())
    yield gauge(
        "pools", "Pools of the catalog.", (("yes", selectable), ("no", len(catalog.pools) - selectable)), "selectable"
    )
