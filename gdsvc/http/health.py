"""What probes, operators and scrapers ask: live, ready, health, metrics."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from prometheus_client import CollectorRegistry

from gdsvc import metrics
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope, header
from gdsvc.errors import Unavailable
from gdsvc.pool_discovery.directory import EncodedDirectory, Source
from gdsvc.pool_discovery.watch import Completeness


class Ready(msgspec.Struct):
    """Body of /ready: whether to send requests here, and where not, why."""

    ready: bool
    reasons: tuple[str, ...] = ()


class DirectoryHealth(msgspec.Struct):
    """What one directory knows and from where; before the first sync nothing, of revision 0."""

    complete: bool
    revision: int
    sources: tuple[Source, ...]


class Health(msgspec.Struct):
    """Body of /health: for people; probes ask /live and /ready."""

    version: str
    started_at: str
    ready: bool
    reasons: tuple[str, ...]
    directories: dict[str, DirectoryHealth]


_ENCODER = msgspec.json.Encoder()


class HealthRoutes:
    """`reasons` tells why the service is not ready (nothing: it is); `directories` are named as their lists are."""

    def __init__(
        self,
        version: str,
        started_at: str,
        reasons: Callable[[], tuple[str, ...]],
        directories: Mapping[str, EncodedDirectory],
        registry: CollectorRegistry,
    ) -> None:
        self._version = version
        self._started_at = started_at
        self._reasons = reasons
        self._directories = directories
        self._registry = registry

    async def live(self, scope: Scope, receive: Receive) -> Response:
        """GET /live: the process answers."""
        del scope, receive
        return Response(200, b'{"live":true}')

    async def ready(self, scope: Scope, receive: Receive) -> Response:
        """GET /ready: 503 while requests should go elsewhere."""
        del scope, receive
        reasons = self._reasons()
        return Response(503 if reasons else 200, _ENCODER.encode(Ready(not reasons, reasons)))

    async def health(self, scope: Scope, receive: Receive) -> Response:
        """GET /health: detail by directory and source."""
        del scope, receive
        reasons = self._reasons()
        directories = {name: _health(directory) for name, directory in self._directories.items()}
        health = Health(self._version, self._started_at, not reasons, reasons, directories)
        return Response(200, _ENCODER.encode(health))

    async def metrics(self, scope: Scope, receive: Receive) -> Response:
        """GET /metrics: rendered in a thread, since the process's own figures are read from files."""
        del receive
        accept = (header(scope, b"accept") or b"").decode("latin-1")
        body, content_type = await asyncio.to_thread(metrics.render, self._registry, accept)
        return Response(200, body, content_type.encode())


def _health(directory: EncodedDirectory) -> DirectoryHealth:
    try:
        revision, completeness = directory.view()
    except Unavailable:
        revision, completeness = 0, Completeness.ESTIMATED
    return DirectoryHealth(completeness is Completeness.EXACT, revision, directory.sources())
