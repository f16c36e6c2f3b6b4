"""The API server of the bench, a process of its own: lists what it was made with, and sends events when told to.

`python -m bench.clusters.api_server PORT SLICES ENDPOINTS [held]`; `held` keeps every list back until `GET /release`.
A streaming list is refused, as by an older server: kubernetes_asyncio cannot read one. `GET /begin` has the watch that
is open get EVENTS events.
"""

import asyncio
import sys
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from bench.clusters.slices import event_line, list_body

EVENTS = 300
SPACING_SECS = 0.002  # between two events: each is handled on its own

_JSON = b"Content-Type: application/json\r\nConnection: close\r\n"
_REFUSED = b"HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2\r\n" + _JSON + b"\r\n{}"
_DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + _JSON + b"\r\n{}"


class ApiServer:
    """`begun` is set while a watch is to get its events; `released` lets lists go."""

    def __init__(self, slices: int, endpoints: int, *, held: bool) -> None:
        self._body = list_body(slices, endpoints)
        # Each slice once not ready and once ready again, so that every event is a change.
        self._events = [
            event_line(number % min(slices, 100), endpoints, slices + 1 + number, ready=number // 100 % 2 == 1)
            for number in range(EVENTS)
        ]
        self._begun, self._released = asyncio.Event(), asyncio.Event()
        if not held:
            self._released.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        try:
            target = urlsplit((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode())
            await self._answer(target.path, dict(parse_qsl(target.query)), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        if path in ("/begin", "/release"):
            (self._begun if path == "/begin" else self._released).set()
            writer.write(_DONE)
        elif "sendInitialEvents" in query:
            writer.write(_REFUSED)
        elif "watch" in query:
            await self._watch(writer)
        else:
            await self._released.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n" % (len(self._body), _JSON))
            writer.write(self._body)
            await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + _JSON + b"\r\n")
        await writer.drain()
        await self._begun.wait()
        self._begun.clear()
        for line in self._events:
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()
            await asyncio.sleep(SPACING_SECS)
        await asyncio.sleep(60)


async def _run(port: int, slices: int, endpoints: int, *, held: bool) -> None:
    server = await asyncio.start_server(ApiServer(slices, endpoints, held=held).serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Until it is stopped by a signal."""
    port, slices, endpoints = map(int, arguments[:3])
    asyncio.run(_run(port, slices, endpoints, held="held" in arguments[3:]))


if __name__ == "__main__":
    main(sys.argv[1:])
