"""A discovery service that withholds, repeats and reorders events, for whoever says that it would notice."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

Lie = Callable[[int, int, bytes], Sequence[bytes]]  # (watcher, revision, event): what this watcher is sent instead
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LEASE = b'{"heartbeat_interval_secs":1,"lease_duration_secs":3}'


class LyingService:
    """Handles connections of asyncio.start_server. Nothing expires; every other fault is the lie's."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._revision = 0
        self._bodies: dict[str, bytes] = {}
        self._watchers: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection until it ends."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b" ", 2)
                length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
                writer.write(self._answer(method, path.decode(), await reader.readexactly(int(length or 0))))
                if path == b"/pools/watch":
                    self._watchers.append(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, method: bytes, path: str, body: bytes) -> bytes:
        match method, path:
            case b"POST", "/pools":
                name = json.loads(body)["key"]["dgd_name"]
                if self._bodies.get(name) != body:
                    self._bodies[name] = body
                    self._publish(b"upserted", body)
                return OK % (len(LEASE), LEASE)
            case b"DELETE", _:
                key: Any = json.loads(self._bodies.pop(path.rpartition("/")[2]))["key"]
                self._publish(b"removed", json.dumps({"key": key}).encode())
                return b"HTTP/1.1 204 No Content\r\n\r\n"
            case b"GET", "/pools/watch":
                return STREAM + _chunk(
                    b"retry: 1000\nevent: resync\nid: e-%d\ndata: %b\n\n" % (self._revision, self._list())
                )
            case b"GET", "/metrics":
                return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
            case _:
                listed = self._list()
                return OK % (len(listed), listed)

    def _list(self) -> bytes:
        return b'{"complete":true,"pools":[%b]}' % b",".join(self._bodies.values())

    def _publish(self, event: bytes, data: bytes) -> None:
        self._revision += 1
        block = b"event: %b\nid: e-%d\ndata: %b\n\n" % (event, self._revision, data)
        for position, watcher in enumerate(self._watchers):
            for told in self._lie(position, self._revision, block):
                watcher.write(_chunk(told))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
