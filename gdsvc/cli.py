"""The composition root: reads the settings, builds the parts, wires them, runs them on uvloop, stops them in order."""

import gc
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import uvloop

from gdsvc import __version__, logs, metrics
from gdsvc._meter import RequestMeter
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.connections import connections_to
from gdsvc.asgi.scheduling import BatchWhileBusy
from gdsvc.asgi.server import ListenFailed, Server, ServerEnded, Tls, raise_file_limit, slots_for
from gdsvc.backends.pulse import Pulse
from gdsvc.errors import GdsvcError
from gdsvc.http import pools, routers
from gdsvc.http.app import App
from gdsvc.http.health import HealthRoutes
from gdsvc.http.lists import Lists
from gdsvc.http.openapi import OpenApiRoute
from gdsvc.http.prometheus import PrometheusRoutes
from gdsvc.http.routes import PATHS, route_table
from gdsvc.http.watch import PEER_TIMEOUT_SECS, Feed, Watchers, readings
from gdsvc.modes.discovery import Discovery
from gdsvc.modes.registrations import Registrations
from gdsvc.modes.storage import storage_of
from gdsvc.pool_discovery.changes import ChangeLog
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness
from gdsvc.settings import Settings, Usage, format_faults, parse_serve
from gdsvc.stopping import Stopping

log = logs.get("gdsvc")


def serve(argv: Sequence[str], prog: str, show: Callable[[str], None]) -> int:
    """Runs the discovery service until it is told to stop; the exit code. `show` writes help and version."""
    try:
        settings = parse_serve(argv, os.environ, prog, show)
    except Usage as usage:
        sys.stderr.write(format_faults(usage.faults, prog))
        return 2
    logs.configure(settings.log_level, settings.log_format)
    try:
        uvloop.run(Service(settings).run())
    except (ListenFailed, ServerEnded, CannotStart) as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return 1
    return 0


class CannotStart(Exception):
    """What the mode needs from outside cannot be had."""


class Service:
    """The discovery service of one process, from its settings to its last request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopping = Stopping(settings.shutdown_grace_secs, self._told_to_stop)
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._port = settings.listen_port
        self._slots = slots_for(settings.max_watchers, raise_file_limit())
        self._changes = ChangeLog()
        self._bodies = Bodies(settings.max_body_bytes)
        self._watchers = Watchers(settings.max_watchers)
        self._feeds: tuple[Feed, ...] = ()
        self._clock = LeaseClock(settings.lease_duration_secs, on_stall=_tell_stall)
        self._discovery = _discovery(settings, self._clock, self._started_at, self._changes)

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT. Raises ListenFailed, ServerEnded, CannotStart."""
        self._stopping.listen()
        settings = self._settings
        tls = None
        if settings.tls_cert_path and settings.tls_key_path:
            tls = Tls(settings.tls_cert_path, settings.tls_key_path, settings.tls_client_ca_path)
        with ThreadPoolExecutor(1, "gdsvc-lists") as executor:
            batching = BatchWhileBusy()
            app = self._app(executor, batching.make_way)
            server = Server(
                app,
                settings.listen_host,
                settings.listen_port,
                tls=tls,
                connection_slots=self._slots,
                grace=0.0,
                peer_timeout=PEER_TIMEOUT_SECS,
            )
            pulse = Pulse(self._clock, (*self._discovery.advancing, self._changes, self._bodies))
            async with pulse, self._found_out(), server, batching:  # found out while time is kept: it may take seconds
                # What is loaded by now stays: a full collection need not look at it, which would hold the loop.
                gc.collect()
                gc.freeze()
                self._port = server.port
                log.info(
                    "service.listening",
                    host=settings.listen_host,
                    port=server.port,
                    tls=tls is not None,
                    pool_discovery=settings.pool_discovery,
                    registration_storage=settings.registration_storage,
                    version=__version__,
                )
                await self._stopping.serve(server)
        log.info("service.stopped")

    @asynccontextmanager
    async def _found_out(self) -> AsyncGenerator[None]:
        """The discovery, running."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._discovery.running())
            except GdsvcError as error:
                raise CannotStart(str(error)) from None
            yield

    def _app(self, executor: ThreadPoolExecutor, make_way: Callable[[], None]) -> App:
        found = self._discovery
        # To each its own epoch: an id or a tag of one says nothing about another.
        pool_lists = Lists(found.pools, "pools", secrets.token_hex(8), executor)
        router_lists = Lists(found.routers, "routers", secrets.token_hex(8), executor)
        meter = RequestMeter([*PATHS, "other"])
        pool_feed = Feed(found.pools.changes, pool_lists, pools.removal, self._watchers)
        router_feed = Feed(found.routers.changes, router_lists, routers.removal, self._watchers)
        self._feeds = (pool_feed, router_feed)
        pool_routes = pools.PoolRoutes(found.pool_registrar, found.pools, pool_lists, pool_feed, self._bodies)
        readers = [lambda: self._readings(pool_routes, pool_lists), lambda: readings(self._watchers, self._feeds)]
        registry = metrics.registry(readers, meter)
        health = HealthRoutes(
            __version__,
            self._started_at,
            self._not_ready,
            {"pools": found.pools, "routers": found.routers},
            registry,
        )
        router_routes = routers.RouterRoutes(found.replica_registrar, router_lists, router_feed, self._bodies)
        prometheus = PrometheusRoutes(found.pools, found.routers, secrets.token_hex(8), executor)
        table = route_table(pool_routes, router_routes, health, OpenApiRoute(__version__), prometheus)
        return App(table, meter, make_way)

    def _readings(self, routes: pools.PoolRoutes, lists: Lists) -> Iterator[metrics.Reading]:
        found = self._discovery
        yield metrics.POOLS, len(found.pools.index)
        yield metrics.ROUTERS, len(found.routers.index)
        yield metrics.REVISION, found.pools.index.revision
        yield metrics.COMPLETE, found.pools.completeness is Completeness.EXACT
        sources = {source.name: source for source in (*found.pools.sources(), *found.routers.sources())}
        for name, source in sources.items():
            yield metrics.SOURCE_COMPLETE, source.complete, name
        yield from found.readings()
        yield metrics.REGISTRATIONS, routes.rejected, "rejected"
        yield metrics.POOL_ENCODINGS, found.pools.index.encodings
        for coding, count in lists.encodings.items():
            yield metrics.LIST_ENCODINGS, count, coding
        yield metrics.STALLS, self._clock.stalls
        yield metrics.STALLED_SECONDS, self._clock.stalled_secs
        yield metrics.CONNECTIONS, connections_to(self._port)
        yield metrics.CONNECTION_SLOTS, self._slots

    def _not_ready(self) -> tuple[str, ...]:
        return ("shutting down",) if self._stopping.is_asked else self._discovery.not_ready()

    def _told_to_stop(self) -> None:
        self._watchers.stopping = True
        for feed in self._feeds:
            feed.close()


def _discovery(settings: Settings, clock: LeaseClock, started_at: str, changes: ChangeLog) -> Discovery:
    clusters = settings.clusters
    if clusters is None:
        return Registrations(storage_of(settings, clock, started_at, changes))
    from gdsvc.modes.clusters import Clusters  # noqa: PLC0415  it takes seconds to load

    joined = clusters.registrations == "join"
    storage = storage_of(settings, clock, started_at, changes) if joined else None
    return Clusters(settings, clusters, storage, started_at, changes)


def _tell_stall(gap_secs: float, forgiven_secs: float) -> None:
    log.warning(
        "service.stalled",
        stalled_secs=round(gap_secs, 3),
        forgiven_secs=round(forgiven_secs, 3),
        leases="held back" if forgiven_secs >= gap_secs else "run on: half of the last four leases is forgiven already",
    )
