"""Frontends that do what a test says, byte by byte, on raw sockets of the test's own loop."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from gdsvc.frontend.upstream import Client, Limits, Origin, RequestHead, Response

PATIENCE = 10.0  # seconds that something may take on a busy machine before the test fails

GET = RequestHead(b"GET", b"/v1/models")
POST = RequestHead(b"POST", b"/v1/chat/completions", ((b"Content-Type", b"application/json"),))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The server's end of one connection; `number` counts them from 0."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self._unread = b""

    async def head(self) -> bytes:
        """One head, with the empty line."""
        while b"\r\n\r\n" not in self._unread:
            self._unread += await self._some()
        head, end, self._unread = self._unread.partition(b"\r\n\r\n")
        return head + end

    async def receive(self, size: int) -> bytes:
        """Exactly so many bytes."""
        while len(self._unread) < size:
            self._unread += await self._some()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    async def receive_until(self, end: bytes) -> bytes:
        """Everything up to and with `end`."""
        while end not in self._unread:
            self._unread += await self._some()
        data, end, self._unread = self._unread.partition(end)
        return data + end

    async def receive_some(self) -> bytes:
        """What has come, as soon as there is any. Raises EOFError at the end of the stream."""
        data, self._unread = self._unread or await self._some(), b""
        return data

    async def readable(self) -> None:
        """Returns when something has come, or the client has closed; leaves it unread."""
        loop, has_come = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.sock, has_come.set)
        try:
            await has_come.wait()
        finally:
            loop.remove_reader(self.sock)

    async def drain_until(self, end: bytes) -> None:
        """Drops everything up to and with `end`, which must be the last that was sent."""
        tail = self._unread
        while not tail.endswith(end):
            tail = (tail + await self._some())[-len(end) :]
        self._unread = b""

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def left(self) -> int:
        """Returns when the client has closed; says how much it had sent beyond what was received."""
        size = len(self._unread)
        while True:
            try:
                data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 20)
            except ConnectionResetError:
                return size
            if not data:
                return size
            size += len(data)

    def close(self) -> None:
        self.sock.close()

    def end(self) -> None:
        """Ends the stream towards the client, and goes on reading."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def _some(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 16)
        if not data:
            raise EOFError("the client has closed")
        return data


class Frontend:
    """Runs `script` for each connection. What a script raises fails the test when the block is left.

    Listens on a port of its own, or on `listener`, which stays with whoever has it.
    """

    def __init__(self, script: Script, *, host: str = "127.0.0.1", listener: socket.socket | None = None) -> None:
        self._script = script
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = (host, 0)
        self._listener = listener.dup() if listener else socket.create_server(address, family=family, backlog=1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.origin = Origin("http", host, self.port)
        self.peers: list[Peer] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        try:
            async with asyncio.timeout(PATIENCE):
                results = await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            self._listener.close()
            for peer in self.peers:
                peer.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _accept(self) -> None:
        """Not by a coroutine: one that is cancelled may lose a connection that it has just accepted."""
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(sock, len(self.peers))
        self.peers.append(peer)
        self._tasks.append(asyncio.create_task(self._run(peer)))

    async def _run(self, peer: Peer) -> None:
        try:
            await self._script(peer)
        finally:
            peer.close()


def replying(*replies: bytes) -> Script:
    """Answers the requests without a body of one connection with `replies`, then closes."""

    async def script(peer: Peer) -> None:
        for reply in replies:
            await peer.head()
            await peer.send(reply)

    return script


async def serve_for_ever(peer: Peer) -> None:
    """Answers every request without a body until the client leaves."""
    while True:
        try:
            await peer.head()
        except (EOFError, ConnectionResetError):
            return
        await peer.send(OK)


async def body_of(response: Response) -> bytes:
    return b"".join([part async for part in response])


async def ask(client: Client, origin: Origin, head: RequestHead = GET, body: bytes = b"") -> tuple[int, bytes]:
    """One whole exchange."""
    async with client.send(origin, head, body) as response:
        return response.status, await body_of(response)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what the loop does by itself in a moment."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of no event
            await asyncio.sleep(0.001)


def sockets() -> int:
    """How many this process has open."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += str(entry.readlink()).startswith("socket:")
        except OSError:  # the one that listed them
            continue
    return found


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """What the block began it has ended: no task and no socket is left of it."""
    tasks, before = asyncio.all_tasks(), sockets()
    yield
    await until(lambda: asyncio.all_tasks() <= tasks and sockets() <= before)


@asynccontextmanager
async def stand(
    script: Script, limits: Limits | None = None, *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Client, Frontend]]:
    """A client and a frontend that runs `script`. They leave nothing behind."""
    async with asyncio.timeout(PATIENCE), nothing_left(), Frontend(script, host=host) as frontend:
        async with Client(limits or Limits()) as client:
            yield client, frontend
        assert client.counts().open == client.counts().idle == 0
