"""The ASGI callable: finds the route, calls its handler, turns errors into problem bodies, counts.

What the routes answer is in the sibling modules; the table that joins them is in routes.py.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from gdsvc import logs
from gdsvc._meter import RequestMeter
from gdsvc.asgi.body import BodyTooLarge, Disconnected, refuse_body
from gdsvc.asgi.heads import REFUSED_METHODS, BadHead, check_head
from gdsvc.asgi.paths import split_path
from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.streams import Stream
from gdsvc.asgi.types import Receive, Scope, Send, header
from gdsvc.errors import GdsvcError, NotFound, Unavailable
from gdsvc.http.problems import BadRequest, MethodNotAllowed, UnsupportedMediaType, internal_problem, problem

LARGE_BYTES = 64 * 1024  # of a body, from which on copying it through the caches costs more than a change of threads

log = logs.get("gdsvc.http")

Handler = Callable[..., Awaitable[Response | Stream]]  # (scope, receive, *names from the path)


class Route(Struct, frozen=True):
    """A path, in which `{…}` stands for one segment, and its handlers by method. HEAD is answered as GET."""

    path: str
    handlers: Mapping[str, Handler]

    @property
    def allow(self) -> str:
        """The value of the Allow header."""
        return ", ".join(sorted({*self.handlers} | ({"HEAD"} if "GET" in self.handlers else set())))


class _Found(Struct, frozen=True):
    position: int
    route: Route
    names: tuple[str, ...]


class RouteTable:
    """Finds routes; a path without names in it costs one lookup of its raw bytes."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._plain = {
            route.path.encode(): _Found(position, route, ())
            for position, route in enumerate(routes)
            if "{" not in route.path
        }
        self._templates = [(tuple(route.path[1:].split("/")), at, route) for at, route in enumerate(routes)]

    def find(self, raw_path: bytes) -> _Found | None:
        """The route of `raw_path` and the names in it; None where there is none."""
        found = self._plain.get(raw_path)
        if found is not None:
            return found
        segments = split_path(raw_path)
        if segments is None:
            return None
        for template, position, route in self._templates:
            if len(template) == len(segments) and all(
                part == segment or part.startswith("{") for part, segment in zip(template, segments, strict=True)
            ):
                names = [segment for part, segment in zip(template, segments, strict=True) if part.startswith("{")]
                return _Found(position, route, tuple(names))
        return None


class App:
    """`app(scope, receive, send)` for one request. `meter` has the routes of `table` in order, then "other".

    `make_way()` is called after each body of LARGE_BYTES or more, for the server's thread to write it out.
    """

    def __init__(self, table: RouteTable, meter: RequestMeter, make_way: Callable[[], None] = lambda: None) -> None:
        self._table = table
        self._meter = meter
        self._make_way = make_way
        self._elsewhere = len(table.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; never raises for anything that a caller sends."""
        started_at = time.perf_counter()
        method = scope["method"]
        response: Response | Stream
        found = self._table.find(scope["raw_path"])
        try:
            response = await self._handler(found, method, scope)(scope, receive, *(found.names if found else ()))
        except Disconnected:  # or broken framing, which granian reports alike; what is not answered it answers with 500
            response = problem(BadRequest("the body ended before it was complete", closes=True))
        except GdsvcError as error:
            response = problem(error)
            if isinstance(error, BodyTooLarge) or (_before_body(error, found) and _announces_body(scope)):
                await refuse_body(send, receive, response)
                self._record(found, method, response, started_at)
                return
        except asyncio.CancelledError:  # by the end of the grace period; nobody else cancels a request
            response = problem(Unavailable("the service is stopping", retry_after_secs=1))
        except Exception:  # the last line of defence: logged whole, the caller learns nothing
            log.exception("http.handler_failed", method=method, route=found.route.path if found else None)
            response = internal_problem()
        if isinstance(response, Stream):  # which may go on for days: counted when it begins
            self._record(found, method, response, started_at)
            await response.run(receive, send, head=method == "HEAD")
            return
        await respond(send, response, head=method == "HEAD")
        if len(response.body) >= LARGE_BYTES:
            self._make_way()
        self._record(found, method, response, started_at)

    def _handler(self, found: _Found | None, method: str, scope: Scope) -> Handler:
        check_head(scope)
        if method in REFUSED_METHODS:
            raise MethodNotAllowed(found.route.allow if found else "", closes=True)
        if found is None:
            raise NotFound("there is nothing at this path")
        handler = found.route.handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise MethodNotAllowed(found.route.allow)
        return handler

    def _record(self, found: _Found | None, method: str, response: Response | Stream, started_at: float) -> None:
        position = self._elsewhere if found is None else found.position
        self._meter.record(position, method, response.status, time.perf_counter() - started_at)


def _before_body(error: GdsvcError, found: _Found | None) -> bool:
    """Whether `error` is an answer that was clear before the body was read."""
    return found is None or isinstance(error, (BadHead, BadRequest, MethodNotAllowed, UnsupportedMediaType))


def _announces_body(scope: Scope) -> bool:
    length = header(scope, b"content-length")
    return header(scope, b"transfer-encoding") is not None or length not in (None, b"0")
