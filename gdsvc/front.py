"""The composition root of `gdsvc frontend`: builds the parts, wires them, runs them on uvloop, stops them in order."""

import asyncio
import gc
import os
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from typing import Final, cast

import uvloop
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from gdsvc import __version__, logs
from gdsvc.asgi.resets import Resets
from gdsvc.asgi.scheduling import BatchWhileBusy
from gdsvc.asgi.server import ListenFailed, Server, ServerEnded, Tls, raise_file_limit
from gdsvc.errors import GdsvcError
from gdsvc.frontend.app import App
from gdsvc.frontend.counts import By, Counts
from gdsvc.frontend.forwarding import Forwarder, Limits
from gdsvc.frontend.headers import Trusted
from gdsvc.frontend.listing import Listing
from gdsvc.frontend.pages import FrontendCollector, Pages
from gdsvc.frontend.policies import plugins
from gdsvc.frontend.policies.plugins import PolicyFault
from gdsvc.frontend.upstream import Client, tls_context
from gdsvc.frontend.upstream import Limits as UpstreamLimits
from gdsvc.modes.frontend import Routing
from gdsvc.settings import FrontendSettings, Usage, format_faults, parse_frontend
from gdsvc.stopping import Stopping

PEER_TIMEOUT_SECS: Final = 60.0  # a caller that vanished while it was written to
IDLE_CONNECTIONS: Final = 4096  # keep-alives of callers, beside those that wait for an answer
BEAT_SECS: Final = 1.0
YOUNG_OBJECTS: Final = 20_000  # before they are looked through for garbage: requests make none, and the default is 700
_FILES_A_REQUEST: Final = 2  # the caller's connection and the pool's

log = logs.get("gdsvc")


class CannotStart(GdsvcError):
    """Something that the settings name cannot be used."""


def frontend(argv: Sequence[str], prog: str, show: Callable[[str], None]) -> int:
    """Runs the Global Frontend until it is told to stop; the exit code. `show` writes help and version."""
    installed = plugins.installed()
    try:
        settings = parse_frontend(argv, os.environ, plugins.names(installed), prog, show)
    except Usage as usage:
        sys.stderr.write(format_faults(usage.faults, prog))
        return 2
    logs.configure(settings.log_level, settings.log_format)
    exit_code = 0
    try:
        uvloop.run(_serve(settings, installed))
    except* (ListenFailed, ServerEnded, PolicyFault, CannotStart) as faults:  # in groups, by the tasks around them
        sys.stderr.write(f"{prog}: {_first(faults)}\n")
        exit_code = 1
    return exit_code


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


async def _serve(settings: FrontendSettings, installed: Sequence[EntryPoint]) -> None:
    """Serves until SIGTERM or SIGINT."""
    routing = Routing(settings, installed)
    client = Client(UpstreamLimits(silence_secs=settings.upstream_idle_secs), tls=_authorities(settings))
    limits = Limits(settings.max_body_bytes, settings.max_buffer_bytes, settings.max_in_flight, settings.access_log)
    forwarder = Forwarder(routing.selector, client, Counts(), limits, Trusted(settings.trusted_proxies))

    def last_words() -> dict[str, int]:
        return {"cut": forwarder.counts.aborted[By.SHUTDOWN]}

    stopping = Stopping(settings.shutdown_grace_secs, lambda: None, last_words)

    def reasons() -> tuple[str, ...]:
        return ("shutting down",) if stopping.is_asked else routing.not_ready()

    pages = Pages(
        forwarder,
        Listing(routing.selector, client),
        reasons,
        _registry(forwarder),
        asyncio.get_running_loop().time,
    )
    server = _server(settings, Resets(App(forwarder, pages.table())))
    stopping.listen()
    async with client, routing.running(), _beating(forwarder), server, BatchWhileBusy():
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        log.info(
            "frontend.listening",
            host=settings.listen_host,
            port=server.port,
            tls=settings.tls_cert_path is not None,
            router_policy="selection-core" if settings.use_selection_core else settings.router_policy,
            version=__version__,
        )
        await stopping.serve(server)
    log.info("frontend.stopped")


@asynccontextmanager
async def _beating(forwarder: Forwarder) -> AsyncGenerator[None]:
    """Gives up, once a second, what has waited for too long."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_SECS)
            forwarder.bounds.advance(forwarder.loop.time())

    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(beat())
        yield
        beating.cancel()


def _server(settings: FrontendSettings, app: Resets) -> Server:
    tls = None
    if settings.tls_cert_path and settings.tls_key_path:
        tls = Tls(settings.tls_cert_path, settings.tls_key_path, settings.tls_client_ca_path)
    files = raise_file_limit() - _FILES_A_REQUEST * settings.max_in_flight
    slots = settings.max_in_flight + max(IDLE_CONNECTIONS // 4, min(IDLE_CONNECTIONS, files))
    return Server(
        app,
        settings.listen_host,
        settings.listen_port,
        tls=tls,
        connection_slots=slots,
        grace=0.0,
        peer_timeout=PEER_TIMEOUT_SECS,
    )


def _authorities(settings: FrontendSettings) -> ssl.SSLContext | None:
    if settings.upstream_ca_path is None:
        return None
    try:
        return tls_context(str(settings.upstream_ca_path))
    except OSError as error:  # ssl.SSLError is one
        raise CannotStart(f"--upstream-ca-path {settings.upstream_ca_path}: {error.strerror or error}") from None


def _registry(forwarder: Forwarder) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(FrontendCollector(forwarder))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
