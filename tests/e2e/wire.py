"""A raw HTTP/1.1 client: what goes out is the bytes given, what comes back is taken apart but never interpreted away.

Blocking sockets with a timeout. Knows content lengths, chunks and interim responses; no redirects, no decompression.
"""

import json
import socket
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

PATIENCE = 20.0  # seconds that a reply may take on a busy machine before the test fails


class Reply(NamedTuple):
    """One response; the names of `headers` are in lower case, in the order received."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes
    interim: tuple[int, ...] = ()  # statuses of the 1xx responses before it

    def header(self, name: str) -> str | None:
        """The one value of `name`; None where absent. Fails where the field is repeated."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, (name, values)
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


class Closed(Exception):
    """The server closed the connection before a whole reply; `received` is what came of it."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"closed after {received!r}")
        self.received = received


class Connection:
    """One client connection. Replies are read in order, so that requests may be pipelined."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, patience: float = PATIENCE
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            except BaseException:
                self.socket.close()
                raise
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Sends one whole request and reads its reply. A Host is added, and the length of `body` where there is one."""
        self.send(request_bytes(method, target, body, headers))
        return self.read(head=method == "HEAD")

    def get(self, target: str, **headers: str) -> Reply:
        """GET; underscores in the names of `headers` stand for hyphens."""
        return self.request("GET", target, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, target: str, document: object) -> Reply:
        """POST of `document` as JSON, or of bytes as they are."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.request("POST", target, body, {"Content-Type": "application/json"})

    def read(self, *, head: bool = False) -> Reply:
        """The next reply; with `head` one without a body, whatever its Content-Length. Raises Closed."""
        interim: list[int] = []
        while True:
            status, reason, headers = self._read_head()
            if status >= 200:
                break
            interim.append(status)
        body = b"" if head or status in (204, 304) else self._read_body(dict(headers))
        return Reply(status, reason, headers, body, tuple(interim))

    def rest(self) -> bytes:
        """What still comes until the server closes; TimeoutError where it does not close."""
        while self._receive():
            pass
        rest, self._unread = self._unread, b""
        return rest

    def _read_head(self) -> tuple[int, str, list[tuple[str, str]]]:
        while b"\r\n\r\n" not in self._unread:
            self._receive_or_raise()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        _, status, reason = first.split(" ", 2)
        pairs = [line.partition(":") for line in lines]
        return int(status), reason, [(name.lower(), value.strip()) for name, _, value in pairs]

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return self._read_chunks()
        if "content-length" in headers:
            return self._take(int(headers["content-length"]))
        return self.rest()

    def _read_chunks(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._unread:
                self._receive_or_raise()
            size, _, self._unread = self._unread.partition(b"\r\n")
            chunk = self._take(int(size, 16) + 2)[:-2]
            if not chunk:
                return body
            body += chunk

    def _take(self, length: int) -> bytes:
        parts = [self._unread]
        missing = length - len(self._unread)
        while missing > 0:
            parts.append(self.socket.recv(min(missing, 1 << 20)))
            if not parts[-1]:
                raise Closed(b"".join(parts))
            missing -= len(parts[-1])
        whole = b"".join(parts)
        self._unread = whole[length:]
        return whole[:length]

    def _receive(self) -> bool:
        received = self.socket.recv(1 << 16)
        self._unread += received
        return bool(received)

    def _receive_or_raise(self) -> None:
        if not self._receive():
            raise Closed(self._unread)


def request_bytes(
    method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """A whole request as bytes, for pipelining."""
    fields = {"Host": "test", **(headers or {})}
    if body is not None:
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def pool(name: str, **members: object) -> dict[str, object]:
    """A registration of the pool ohio/dynamo/`name`."""
    return {"key": {"site_id": "ohio", "namespace": "dynamo", "dgd_name": name}, **members}


def registration(name: str, **members: object) -> bytes:
    """POST /pools for that pool, as bytes."""
    body = json.dumps(pool(name, **members)).encode()
    return request_bytes("POST", "/pools", body, {"Content-Type": "application/json"})
