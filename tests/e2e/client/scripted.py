"""A server on loopback, in the loop of the test, that answers as the test says: well, badly, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self


class Asked(NamedTuple):
    """One request; the names of `headers` are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int  # which one it came on


class Caller:
    """The connection that a request came on, to be answered."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole response; underscores in the names of `headers` stand for hyphens."""
        fields = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        if status in (204, 304):
            body = b""
        else:
            fields["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self.send(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)

    async def begin_events(self) -> None:
        """The head of a stream that ends with the connection."""
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

    async def event(self, name: str, data: bytes, event_id: str) -> None:
        await self.send(f"event: {name}\nid: {event_id}\ndata: ".encode() + data + b"\n\n")

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        self._writer.transport.abort()

    async def gone(self) -> None:
        """Returns when the other side has closed."""
        await self._writer.wait_closed()


Script = Callable[[Asked, Caller], Awaitable[None]]


async def nothing(_asked: Asked, _caller: Caller) -> None:
    """Never answers; the connection stays."""
    await asyncio.Event().wait()


class ScriptedServer:
    """`async with ScriptedServer(script) as server`: each request is in `asked`, then `script` answers it.

    What the script raises fails the test on leaving, save broken connections.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: list[BaseException] = []
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.hang_up()
        if kind is None:
            assert not self._faults, self._faults

    async def listen(self) -> None:
        """Also again after hang_up, on the port that it had."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def hang_up(self) -> None:
        """Closes the listener and every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._converse(reader, writer, self.connections)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - handed on when the test leaves
            self._faults.append(error)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while not writer.is_closing():
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = Asked(method, target, headers, body, number)
            self.asked.append(asked)
            await self.script(asked, Caller(writer))
