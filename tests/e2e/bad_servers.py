"""A server that says what it is told to, whatever it is asked: web pages, banners, streams that break off, silence."""

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

PATIENCE = 20.0


class Scripted:
    """Answers connection by connection with `replies`, the last of them for ever, then closes; or holds the line.

    A reply is bytes, sent as they are. `requests` holds what came, a connection each. `speaks_first` does not wait for
    a request; `holds` leaves connections open, after the last reply alone, until the end.
    """

    def __init__(
        self,
        *replies: bytes,
        speaks_first: bool = False,
        holds: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[bytes] = []
        self._replies: Sequence[bytes] = replies or (b"",)
        self._speaks_first = speaks_first
        self._holds = holds
        self._tls = tls
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._threads[0].join(PATIENCE)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        turn = 0
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            last = turn >= len(self._replies) - 1
            self._start(self._answer, connection, self._replies[-1 if last else turn], self._holds and last)
            turn += 1

    def _answer(self, connection: socket.socket, reply: bytes, hold: bool) -> None:
        connection.settimeout(PATIENCE)
        with contextlib.suppress(OSError), contextlib.ExitStack() as streams:
            stream = streams.enter_context(connection)
            if self._tls:
                stream = streams.enter_context(self._tls.wrap_socket(connection, server_side=True))
            self.requests.append(b"" if self._speaks_first else _whole_request(stream))
            stream.sendall(reply)
            if hold:
                self._ending.wait(PATIENCE)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(1 << 16):  # to close on what was not read is a reset, which may overtake the reply
                pass


def _whole_request(stream: socket.socket) -> bytes:
    """What comes until a request with a stated length is complete, or the other side closes."""
    request = b""
    while part := stream.recv(1 << 16):
        request += part
        head, ended, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"^content-length: *(\d+)", head, re.I | re.M)
        if ended and len(body) >= (int(length[1]) if length else 0):
            break
    return request


def http(status: str, content_type: str, body: bytes, *headers: str) -> bytes:
    """A whole response with a stated length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def stream(*events: bytes) -> bytes:
    """The beginning of a response that streams events, and these."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + b"".join(events)


def event(name: str, data: bytes, event_id: str) -> bytes:
    """One event as the service writes it."""
    return f"event: {name}\nid: {event_id}\ndata: ".encode() + data + b"\n\n"
