"""Watchers of GET /pools/watch: those that read and keep track, and those that never read."""

import asyncio
import socket
from random import Random
from typing import Final, cast

from bench.fleet.ledger import Ledger
from bench.fleet.line import Dialer
from bench.fleet.stream import Blocks, Broken, Dechunker, head_of
from bench.fleet.track import Track

PATH: Final = b"/pools/watch"
RETURN_SECS: Final = (0.5, 1.5)  # before a watcher whose stream ended comes back
STUCK_BUFFER_BYTES: Final = 4096  # of a reader that does not read, so that the service notices soon


def watch_request(host_field: str, last_event_id: bytes = b"") -> bytes:
    """The request for a stream, from where one ended."""
    resumed = b"Last-Event-ID: " + last_event_id + b"\r\n" if last_event_id else b""
    return b"GET %b HTTP/1.1\r\nHost: %b\r\nAccept: text/event-stream\r\n%b\r\n" % (
        PATH,
        host_field.encode(),
        resumed,
    )


class Watcher(asyncio.Protocol):
    """One watcher, which comes back when its stream ends. `track` is what it has received."""

    def __init__(self, dialer: Dialer, ledger: Ledger, random: Random) -> None:
        self.track = Track()
        self.fault = ""  # why it has no stream, or what was wrong with it
        self.endings = 0
        self._dialer = dialer
        self._ledger = ledger
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._last_event_id = b""
        self._begin()

    @property
    def has_begun(self) -> bool:
        """Whether it has had a first view."""
        return bool(self.track.stretches)

    def dial(self, after_secs: float = 0.0) -> None:
        """Connects."""
        self._dialer.dial(self, self._failed, after_secs)

    def _begin(self) -> None:
        self._head: bytes | None = b""  # None once it has been read
        self._dechunker: Dechunker | None = None
        self._blocks = Blocks()

    def _failed(self) -> None:
        self.fault = self.fault or "the connection was refused"
        self.dial(self._random.uniform(*RETURN_SECS))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._dialer.opened(self._transport)
        self._begin()
        self._transport.write(watch_request(self._dialer.target.host_field, self._last_event_id))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._dialer.lost(self._transport)
        self._transport = None
        self.endings += 1
        self.dial(self._random.uniform(*RETURN_SECS))

    def data_received(self, data: bytes) -> None:
        try:
            if self._head is not None:
                data = self._read_head(self._head + data)
            if self._dechunker is not None:
                data = self._dechunker.feed(data)
            self._read(data)
        except Broken as error:
            self.fault = str(error)
            if self._transport is not None:
                self._transport.abort()

    def _read_head(self, data: bytes) -> bytes:
        """What is behind the head, nothing while it is not whole. Raises Broken."""
        head = head_of(data)
        if head is None:
            self._head = data
            return b""
        if head.status != 200:
            raise Broken(f"GET {PATH.decode()} was answered {head.status}: {data[head.size :][:200]!r}")
        if not head.fields.get(b"content-type", b"").startswith(b"text/event-stream"):
            raise Broken(f"GET {PATH.decode()} is no stream of events")
        self._head = None
        if head.fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._dechunker = Dechunker()
        return data[head.size :]

    def _read(self, text: bytes) -> None:
        if not text:
            return
        now = self._loop.time()
        for block in self._blocks.feed(text):
            event_id = self._ledger.received_by(self.track, block, now)
            if event_id:
                self._last_event_id = event_id


class StuckWatcher:
    """A watcher that asks and then never reads."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    async def connect(self, host: str, port: int, host_field: str) -> None:
        """Asks for the stream. Raises OSError."""
        loop = asyncio.get_running_loop()
        family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STUCK_BUFFER_BYTES)
        self._socket.setblocking(False)
        await loop.sock_connect(self._socket, address)
        await loop.sock_sendall(self._socket, watch_request(host_field))

    def close(self) -> None:
        """Ends it."""
        if self._socket is not None:
            self._socket.close()
