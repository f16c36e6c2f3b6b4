"""Runs an ASGI app on granian inside our own event loop: binds, starts, drains. Knows nothing of the app."""

import asyncio
import logging
import os
import resource
import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import msgspec
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols, TaskImpl
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server as EmbeddedServer

from gdsvc.asgi.types import App
from gdsvc.errors import GdsvcError

BACKLOG: Final = 4096  # connections that wait for a slot; the kernel caps it at net.core.somaxconn
LEAST_SLOTS: Final = 8192  # idle keep-alives of a fleet, beside the watchers
_IDLE_CONNECTIONS: Final = 7168  # kept free of watchers, so that these never delay a heartbeat
_RESERVED_FILES: Final = 256  # our own: standard streams, upstream connections, TLS handshakes (they hold no slot yet)
_IDLE_MILLISECONDS: Final = 60_000  # granian's most; above two heartbeats, or every one of them would connect anew
# What a connection that sends half a head may hold: granian's own 408 KiB are 3.3 GiB over all slots. Bodies up to
# 60 KB cost the same to read as with those, one of 2 MiB about 2 ms more.
_BUFFER_BYTES: Final = 64 * 1024
_LEAST_SECONDS: Final = 0.1  # what granian gets to stop in, however short the grace: an idle one needs no more
_IDLE_SECONDS: Final = 0.5  # without a request in hand, after which a stop waits for no connection
_SETTLE_SECONDS: Final = 0.25  # of the grace, kept to end by force what did not end in time
_REQUEST_COROUTINE: Final = "future_watcher"  # granian's wrapper of each call of the app
_OURS: Final = ("CancelledError", "BrokenOff")  # ends of requests that are no faults of an app, as granian writes them
_TURNS_TO_START: Final = 4  # of the loop: serve(), its worker's task, and whatever a failed start wakes


class ListenFailed(GdsvcError):
    """The server cannot start: names the address and the reason (taken, not ours, unusable certificate)."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")


class ServerEnded(GdsvcError):
    """granian stopped without being asked to."""


class Tls(msgspec.Struct, frozen=True):
    """PEM files: our chain, its unencrypted key, and the CA of which every client then must show a certificate."""

    cert_path: Path
    key_path: Path
    client_ca_path: Path | None = None


class Server:
    """One listening address, one to a loop. Used as `async with Server(…) as server:`; leaving drains, within `grace`.

    Entering raises ListenFailed. `connection_slots` counts connections, idle ones included; beyond it new ones wait in
    the backlog, and every request behind them. A peer that for `peer_timeout` seconds neither takes what was sent nor
    acknowledges it is given up by the kernel, where it can (Linux). An app must end its own streams before drain():
    granian waits for them.
    """

    def __init__(  # noqa: PLR0913 - one composition root calls it, by name
        self,
        app: App,
        host: str,
        port: int,
        *,
        tls: Tls | None = None,
        connection_slots: int = LEAST_SLOTS,
        grace: float = 20.0,
        peer_timeout: float | None = None,
    ) -> None:
        self.listening = asyncio.Event()
        self._app = app
        self._host = host
        self._port = port
        self._tls = tls
        self._slots = connection_slots
        self._grace = grace
        self._peer_timeout = peer_timeout
        self._granian: Any = None  # granian's Python side carries no types
        self._serving: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def port(self) -> int:
        """The port bound; where port 0 was asked for, the one the kernel chose (known once entered)."""
        return self._port

    async def __aenter__(self) -> Self:
        address = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        if self._tls is not None:
            _check_tls(self._tls, address)
        with _bound(self._host, self._port, address) as listener:  # closed unless granian took it over
            self._port = listener.getsockname()[1]
            if self._peer_timeout is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited
                milliseconds = round(self._peer_timeout * 1000)
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            self._granian = _Granian(listener, self._app, **_options(self._slots, self._tls))
            self._serving = asyncio.create_task(self._granian.serve(), name="granian")
            try:
                for _ in range(_TURNS_TO_START):
                    await asyncio.sleep(0)
            except BaseException:
                await self.drain(0.0, 0.0)
                raise
        if self._serving.done():
            raise ListenFailed(address, f"granian did not start: {self._serving.exception()!r}")
        self.listening.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain(0.0, self._grace)

    async def serve(self) -> None:
        """Start, and return once drained; `listening` tells when connections are accepted. Raises as the parts do."""
        async with self:
            await self.ended()

    async def ended(self) -> None:
        """Wait until the server has stopped; raises ServerEnded where nobody asked it to."""
        serving = self._entered()
        await asyncio.wait({serving})
        if not self._stopping:
            raise ServerEnded("the HTTP server stopped by itself") from serving.exception()

    async def drain(self, notice: float, grace: float) -> bool:
        """Accept for another `notice` seconds, then close listener and idle connections and finish what is in hand.

        `notice` is the time that load balancers need to see the readiness which the caller has failed before. The whole
        takes `grace` seconds at most; False when requests were still in hand then: the caller should exit hard.
        """
        serving = self._entered()
        loop = asyncio.get_running_loop()
        settle = min(_SETTLE_SECONDS, grace / 4)
        deadline = loop.time() + grace - settle
        await asyncio.wait({serving}, timeout=min(notice, grace - settle))
        self._stopping = self._stopping or not serving.done()
        self.listening.clear()
        self._granian.stop()
        finished = await _finished(serving, max(deadline, loop.time() + _LEAST_SECONDS))
        await _end_requests(serving, settle if finished else 0.0, settle)
        serving.cancel()
        await asyncio.wait({serving})
        await asyncio.sleep(0)  # granian's watcher of its own task ends one turn later
        return finished and (serving.cancelled() or serving.exception() is None)

    def _entered(self) -> asyncio.Task[None]:
        if self._serving is None:
            raise RuntimeError("the server was not entered")
        return self._serving


def _requests() -> set[asyncio.Task[Any]]:
    """The requests in hand."""
    return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == _REQUEST_COROUTINE}


async def _finished(serving: asyncio.Task[None], deadline: float) -> bool:
    """Wait for granian to end, until `deadline` at most; whether nothing was left in hand then.

    granian also waits for callers that have sent half a head, which is no request: after _IDLE_SECONDS without one in
    hand they are not waited for.
    """
    loop = asyncio.get_running_loop()
    idle_since = loop.time()
    while not serving.done() and loop.time() < deadline:
        await asyncio.wait({serving}, timeout=min(_LEAST_SECONDS, max(0.0, deadline - loop.time())))
        if _requests():
            idle_since = loop.time()
        elif loop.time() - idle_since >= _IDLE_SECONDS:
            return True
    return serving.done() or not _requests()


async def _end_requests(serving: asyncio.Task[None], patience: float, settle: float) -> None:
    """Cancel the requests that are still there after `patience` seconds, then let granian see it, `settle` at most.

    There may be some although granian has finished: with it gone, a receive() under way never returns.
    """
    requests = _requests()
    if requests:
        await asyncio.wait(requests, timeout=patience)
    for request in requests:
        request.cancel()
    await asyncio.wait({serving, *requests}, timeout=settle)


class _Granian(EmbeddedServer):
    """granian on a socket that we bound.

    Left to itself it binds twice, to try and to serve, and shares the port (SO_REUSEPORT): port 0 ends as a number that
    nobody can ask for, and a second process on our address is not refused but given half of our connections.
    """

    def __init__(self, listener: socket.socket, app: App, **options: Any) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__(app, host, port, **options)  # the address is for its log alone
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._shd = cast(Any, SocketHolder)(self._listener.detach(), False, BACKLOG)


class _GranianLog(logging.Handler):
    """Passes granian's lines on to the logger `granian`: errors as they are, its news and our cancelling at debug."""

    def emit(self, record: logging.LogRecord) -> None:
        target = logging.getLogger("granian")
        cause = record.getMessage().rpartition("\n")[2]  # granian writes the trace of a failed request into the text
        if record.levelno < logging.ERROR or cause.startswith(_OURS):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        if target.isEnabledFor(record.levelno):
            target.handle(record)


def _options(slots: int, tls: Tls | None) -> dict[str, Any]:
    """What we ask of granian, each with its reason."""
    options: dict[str, Any] = {
        "interface": Interfaces.ASGINL,  # no lifespan: start and stop are ours, and its shutdown waits for streams
        "http": HTTPModes.http1,  # what relays, routers and probes speak; h2 multiplexes past our connection limits
        "websockets": False,  # an upgrade is an ordinary request then, which no route answers
        "task_impl": TaskImpl.asyncio,  # the other one grew from 62 to 209 MB under load, without a gain
        "backlog": BACKLOG,
        "backpressure": slots,  # the default, 1024, lets as many idle connections hang all heartbeats
        "http1_settings": HTTP1Settings(
            header_read_timeout=_IDLE_MILLISECONDS,  # closes idle keep-alives, too
            max_buffer_size=_BUFFER_BYTES,  # longer heads are 431
        ),
        **_logging_options(),
    }
    if tls is not None:
        options |= {
            "ssl_cert": tls.cert_path,
            "ssl_key": tls.key_path,
            "ssl_protocol_min": SSLProtocols.tls12,  # the default refuses 1.2 clients
            "ssl_ca": tls.client_ca_path,
            "ssl_client_verify": tls.client_ca_path is not None,
        }
    return options


def _logging_options() -> dict[str, Any]:
    """Route granian's own logger; an incremental dictConfig, since a full one closes every handler of the process."""
    own = logging.getLogger("_granian")
    if not any(isinstance(handler, _GranianLog) for handler in own.handlers):
        own.addHandler(_GranianLog())
        own.propagate = False
    wanted = logging.getLogger("granian").isEnabledFor(logging.DEBUG)
    return {
        "log_level": LogLevels.info if wanted else LogLevels.error,
        "log_dictconfig": {"version": 1, "incremental": True, "formatters": {}, "handlers": {}, "loggers": {}},
    }


def _bound(host: str, port: int, address: str) -> socket.socket:
    """A listening socket of ours alone; on IPv6 it takes IPv4 callers as well where the system can."""
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(target[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except socket.gaierror as error:
        raise ListenFailed(address, error.strerror or "unknown host") from None
    except OSError as error:
        raise ListenFailed(address, os.strerror(error.errno or 0)) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; a small event must not wait for an ACK
    return listener


def _check_tls(tls: Tls, address: str) -> None:
    """Find out here what granian's TLS library would abort the process for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    unusable = f"{tls.cert_path} and {tls.key_path} are no certificate with its unencrypted key"
    try:
        for path in filter(None, (tls.cert_path, tls.key_path, tls.client_ca_path)):
            path.open("rb").close()
        context.load_cert_chain(tls.cert_path, tls.key_path, password="")  # or it would ask the terminal
        unusable = f"{tls.client_ca_path} holds no certificate"
        if tls.client_ca_path is not None:
            context.load_verify_locations(tls.client_ca_path)
    except ssl.SSLError as error:
        raise ListenFailed(address, f"{unusable} ({error})") from None
    except OSError as error:
        raise ListenFailed(address, f"{error.filename}: {error.strerror}") from None


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one, and give the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems name a hard limit that they do not grant
        return soft
    return hard


def slots_for(max_watchers: int, file_limit: int) -> int:
    """Connections to serve at once: room for `max_watchers` and many idle ones, as far as `file_limit` allows.

    Each is an open file. granian spins at full load on an accept that finds none free, so some are kept back.
    """
    wanted = max(LEAST_SLOTS, max_watchers + _IDLE_CONNECTIONS)
    return min(wanted, max(file_limit - _RESERVED_FILES, file_limit // 2))
