"""The caller's side of the Global Frontend: requests as bytes, on raw sockets of the test's own loop."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.e2e.process import Service
from tests.upstream.scripted import PATIENCE, Peer

FRONTEND: Final = (sys.executable, "-W", "error", "-m", "gdsvc", "frontend")
CHAT: Final = b"/v1/chat/completions"
ASK: Final = b'{"model":"m"}'
LAST_CHUNK: Final = b"0\r\n\r\n"  # without it a reply in chunks is not whole


def request(body: bytes = ASK, *headers: bytes, target: bytes = CHAT, method: bytes = b"POST") -> bytes:
    """A whole request with a length."""
    return head(b"Content-Length: %d" % len(body), *headers, target=target, method=method) + body


def head(*headers: bytes, target: bytes = CHAT, method: bytes = b"POST") -> bytes:
    """The head of a request for localhost, with these lines."""
    return b"\r\n".join((method + b" " + target + b" HTTP/1.1", b"Host: front", *headers, b"", b""))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def calling(port: int, data: bytes = b"") -> AsyncIterator[Peer]:
    """A caller that has sent `data`. What is done with it may take PATIENCE."""
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    caller = Peer(sock, 0)
    try:
        async with asyncio.timeout(PATIENCE):
            await caller.send(data)
            yield caller
    finally:
        caller.close()


async def rest(caller: Peer) -> bytes:
    """What still comes, up to the end of the connection, however it ends."""
    parts = list[bytes]()
    with suppress(EOFError, ConnectionResetError):
        while True:
            parts.append(await caller.receive_some())
    return b"".join(parts)


async def ask(port: int, data: bytes) -> tuple[int, bytes]:
    """Status and everything behind the status line of what comes back for a request on a connection of its own."""
    async with calling(port, data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)) as caller:
        answer = await rest(caller)
    line, _, behind = answer.partition(b"\r\n")
    return int(line.split(b" ")[1]), behind


async def samples(service: Service) -> dict[str, float]:
    """As Service.samples, from within a loop."""
    return await asyncio.to_thread(service.samples)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what another process does, and does not tell."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - of no event
            await asyncio.sleep(0.01)


async def until_sample(service: Service, name: str, value: float) -> None:
    """Waits until the sample has the value."""

    async def reached() -> bool:
        return (await samples(service)).get(name) == value

    await until(reached)


async def ready(service: Service) -> int:
    """The status of GET /ready."""
    return (await asyncio.to_thread(service.get, "/ready")).status
