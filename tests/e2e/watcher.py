"""A watcher on a raw socket: takes its stream apart as it comes, and tells a proper end from a broken connection."""

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.e2e.wire import PATIENCE, Connection, request_bytes
from tests.event_stream import Event, Parser

RECEIVE_BYTES = 1 << 18


class Watcher:
    """One stream. `ended`: by a last chunk; `broken`: without it. `events` holds what was read and not taken yet."""

    def __init__(
        self, port: int, target: str = "/pools/watch", headers: Mapping[str, str] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.connection = Connection(port, host=host)
        self.parser = Parser()
        self.events: list[Event] = []
        self.ended = self.broken = False
        self._unread = b""
        self.connection.send(request_bytes("GET", target, headers=headers))
        self.status, _, self.headers = self.connection._read_head()
        if self.status == 200:
            assert dict(self.headers)["transfer-encoding"] == "chunked"
            self._unread, self.connection._unread = self.connection._unread, b""
            self._take_chunks()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    @property
    def last_id(self) -> str:
        return self.parser.last_id

    @property
    def revision(self) -> int:
        """Of the last id; -1 before the first."""
        return int(self.last_id.split("-")[1]) if self.last_id else -1

    def next(self) -> Event:
        """The next event. Fails where the stream ends first; TimeoutError where none comes."""
        while not self.events:
            assert self.receive(), "the stream ended"
        return self.events.pop(0)

    def until(self, revision: int) -> list[Event]:
        """The events up to the one that leads to `revision`, or to a later one."""
        while self.revision < revision:
            assert self.receive(), f"the stream ended at {self.revision}"
        events, self.events = self.events, []
        return events

    def until_over(self) -> None:
        """Reads to the end, whatever it is."""
        while self.receive():
            pass

    def comments_within(self, seconds: float) -> list[float]:
        """When comments came, from now on."""
        came: list[float] = []
        started_at = time.monotonic()
        while (left := started_at + seconds - time.monotonic()) > 0:
            self.connection.socket.settimeout(left)
            before = len(self.parser.comments)
            try:
                self.receive()
            except TimeoutError:
                break
            came += [time.monotonic() - started_at] * (len(self.parser.comments) - before)
        self.connection.socket.settimeout(PATIENCE)
        return came

    def receive(self) -> bool:
        """Reads once; False where the stream is over."""
        if self.ended or self.broken:
            return False
        try:
            received = self.connection.socket.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            received = b""
        self._unread += received
        self._take_chunks()
        self.broken = not received and not self.ended
        return not self.broken and not self.ended

    def leave(self) -> None:
        """Ends the stream from this side, also where another thread waits for it to tell something."""
        self.connection.socket.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Leaves with a reset, as a process does that is killed with bytes unread."""
        self.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _take_chunks(self) -> None:
        while b"\r\n" in self._unread and not self.ended:
            size, _, rest = self._unread.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            assert rest[length : length + 2] == b"\r\n"
            self._unread = rest[length + 2 :]
            self.ended = length == 0
            self.events += self.parser.feed(rest[:length])
