"""Pools for hours: frontends that answer at once or in streams, leave in good order or are killed, and come again.

Each has an address of its own on loopback, so that no connection that anybody opens takes its port while it is away.
"""

import asyncio
import itertools
import re
import socket
from contextlib import suppress
from typing import Final

from tests.e2e.frontend.calling import LAST_CHUNK, chunk

CHUNKS: Final = 8
GAP_SECS: Final = 0.02  # between two chunks
REFUSING_SECS: Final = 0.3  # for what still comes on connections that were open before
STREAM_ASKED: Final = b'"stream":true'
STREAMED: Final = b"".join(b"data: %d\n\n" % number for number in range(CHUNKS))
PLAIN: Final = b'{"object":"chat.completion"}'

_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_WHOLE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.I)
_ADDRESSES: Final = itertools.count(2)  # 127.0.0.1 is the others'


class SteadyPool:
    """From `listen` to `leave` or `kill`. `cut` counts the connections that a kill found in use."""

    def __init__(self) -> None:
        number = next(_ADDRESSES)
        self._host = f"127.0.{number // 250}.{number % 250 + 1}"
        self._port = 0
        self._listener: socket.socket | None = None
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self.cut = 0

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    def listen(self) -> None:
        """Takes connections, at the same address as before."""
        self._listener = socket.create_server((self._host, self._port), backlog=1024)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def refuse(self) -> None:
        """Takes no more connections; those that wait to be taken are, since to drop them would be a failure."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._accept()
            self._listener.close()
            self._listener = None

    async def leave(self) -> None:
        """Ends as servers do in good order: what they have in hand is answered."""
        self.refuse()
        await asyncio.sleep(REFUSING_SECS)
        for connection in self._connections.values():
            connection.leave()
        await self._ended()

    async def kill(self) -> None:
        """Ends as servers do that crash: every connection at once."""
        self.refuse()
        for connection in self._connections.values():
            self.cut += connection.is_in_use
            connection.abort()
        await self._ended()

    async def _ended(self) -> None:
        if self._connections:
            await asyncio.wait(self._connections)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while self._listener is not None:
                sock, _ = self._listener.accept()
                connection = _Connection(sock)
                task = asyncio.create_task(connection.run())
                self._connections[task] = connection
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        task.result()


class _Connection:
    """One connection: request after request. It is in use from its beginning, and until a reply is whole."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._writer: asyncio.StreamWriter | None = None
        self._is_leaving = False
        self.is_in_use = True

    async def run(self) -> None:
        """Until the other side has left, or this one is told to."""
        reader, self._writer = await asyncio.open_connection(sock=self._sock)
        try:
            while not self._is_leaving:
                head = await reader.readuntil(b"\r\n\r\n")
                self.is_in_use = True
                await self._answer(await _asks_for_a_stream(reader, head), self._writer)
                self.is_in_use = False
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            self._writer.transport.abort()

    def leave(self) -> None:
        """Ends when what is in hand is answered."""
        self._is_leaving = True
        if not self.is_in_use:
            self.abort()

    def abort(self) -> None:
        """Ends at once."""
        self._is_leaving = True
        if self._writer is not None:
            self._writer.transport.abort()

    async def _answer(self, is_streamed: bool, writer: asyncio.StreamWriter) -> None:
        if not is_streamed:
            writer.write(_WHOLE % (len(PLAIN), PLAIN))
            return
        writer.write(_HEAD)
        for number in range(CHUNKS):
            writer.write(chunk(b"data: %d\n\n" % number))
            await writer.drain()
            await asyncio.sleep(GAP_SECS)
        writer.write(LAST_CHUNK)
        await writer.drain()


async def _asks_for_a_stream(reader: asyncio.StreamReader, head: bytes) -> bool:
    """Reads the body, of which its end says what is asked for."""
    length = _LENGTH.search(head)
    assert length is not None, head
    left, tail = int(length[1]), b""
    while left:
        data = await reader.read(min(left, 1 << 18))
        if not data:
            raise asyncio.IncompleteReadError(tail, left)
        left -= len(data)
        tail = (tail + data)[-64:]
    return STREAM_ASKED in tail
