"""A scripted API server on loopback that knows EndpointSlices: it keeps the rules until it is told to break one.

It runs on the test's own event loop. `script` takes what the next requests get instead of a true answer, in order.
"""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from tests.unit.kube.events import bookmark, error, slice_dict, status


@dataclass(frozen=True)
class Request:
    """What was asked."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""

    @property
    def kind(self) -> str:
        """list, stream (a streaming list) or watch; of a write its method."""
        if self.method != "GET":
            return self.method
        if "watch" not in self.query:
            return "list"
        return "stream" if "sendInitialEvents" in self.query else "watch"


Deed = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class ApiServer:
    """`objects` by name; every change is a revision in `journal`, which compaction shortens."""

    streaming: bool = True
    knows_streaming: bool = True  # False: takes a streaming list for an ordinary watch, as old servers do
    objects: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    journal: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    revision: int = 100
    compacted: int = 0
    script: deque[Deed] = field(default_factory=deque[Deed])
    always: Deed | None = None  # what every request gets once the script is through
    requests: list[Request] = field(default_factory=list[Request])
    watchers: dict[asyncio.StreamWriter, int] = field(default_factory=dict[asyncio.StreamWriter, int])
    silent: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    kept: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])  # good for another request
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def host(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def put(self, name: str, *addresses: str) -> None:
        self.take(slice_dict(name, self.revision + 1, *addresses))

    def take(self, document: dict[str, Any]) -> None:
        """Any EndpointSlice, whose name no other has in any namespace, instead of the one of that name."""
        metadata = document["metadata"]
        kind = "MODIFIED" if metadata["name"] in self.objects else "ADDED"
        self.revision += 1
        named = {"uid": f"uid-{metadata['name']}", **metadata, "resourceVersion": str(self.revision)}
        self.objects[metadata["name"]] = document | {"metadata": named}
        self._tell(kind, self.objects[metadata["name"]])

    def delete(self, name: str, *, told: bool = True) -> None:
        """`told=False` forgets to tell: no watch will ever hear of it."""
        self.revision += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.revision)
        if told:
            self._tell("DELETED", gone)

    def compact(self) -> None:
        self.compacted, self.journal = self.revision, []

    def say(self, line: bytes) -> None:
        """Writes a line to every open watch."""
        for writer in list(self.watchers):
            writer.write(line + b"\n")

    def end_watches(self) -> None:
        for writer in list(self.watchers):
            del self.watchers[writer]
            writer.close()

    @property
    def held(self) -> bool:
        """Whether an answer is open on purpose."""
        return bool(self.watchers or self.silent)

    def kinds(self) -> list[str]:
        return [request.kind for request in self.requests]

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": obj}).encode()
        self.journal.append((self.revision, line))
        self.say(line)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, as `Connection: close` says, and another where the answer did not say it."""
        try:
            self.kept.add(writer)
            while writer in self.kept:
                self.kept.discard(writer)
                request = await _read(reader)
                self.requests.append(request)
                deed = self.script.popleft() if self.script else self.always or self._truth
                await deed(request, writer)
                await writer.drain()
            if deed is silence:
                self.silent.add(writer)
            if writer in self.watchers or writer in self.silent:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.watchers.pop(writer, None)
            self.silent.discard(writer)
            self.kept.discard(writer)
            writer.close()

    async def _truth(self, request: Request, writer: asyncio.StreamWriter) -> None:
        asked = int(request.query.get("resourceVersion", 0))
        if request.kind == "list":
            self._list(asked, writer)
        elif request.kind == "stream" and not self.streaming:
            writer.write(answer(422, status(422, "Invalid", "sendInitialEvents: Forbidden")))
        elif request.kind == "stream" and self.knows_streaming:
            writer.write(HEAD)
            self.watchers[writer] = self.revision
            for obj in self.objects.values():
                writer.write(json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n")
            writer.write(bookmark(self.revision, end=True) + b"\n")
        else:
            self._watch(asked, writer)

    def _list(self, asked: int, writer: asyncio.StreamWriter) -> None:
        if asked > self.revision:
            message = f"Timeout: Too large resource version: {asked}, current: {self.revision}"
            body = status(504, "Timeout", message, causes=[{"reason": "ResourceVersionTooLarge"}])
            writer.write(answer(504, body, "Retry-After: 2"))
        else:
            writer.write(answer(200, self.list_body()))

    def list_body(self) -> bytes:
        metadata = {"resourceVersion": str(self.revision)}
        items = list(self.objects.values())
        return json.dumps({"kind": "EndpointSliceList", "metadata": metadata, "items": items}).encode()

    def _watch(self, asked: int, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        if asked and asked < self.compacted:
            writer.write(error(410, "Expired", f"too old resource version: {asked} ({self.compacted})") + b"\n")
            return
        self.watchers[writer] = asked
        current = [json.dumps({"type": "ADDED", "object": obj}).encode() for obj in self.objects.values()]
        since = [line for revision, line in self.journal if revision > asked]
        for line in since if asked else current:
            writer.write(line + b"\n")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


def answer(
    code: int, body: bytes, *headers: str, content_type: str = "application/json", connection: str = "close"
) -> bytes:
    """A whole response."""
    lines = (f"HTTP/1.1 {code} {responses[code]}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, f"Connection: {connection}", *headers, "\r\n")).encode() + body


def reply(*parts: bytes) -> Deed:
    """Writes the parts, then closes."""

    async def deed(request: Request, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)

    return deed


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answers a head and nothing more, for as long as the caller stays."""
    writer.write(HEAD)


close_at_once = reply(HEAD)
refuse_connection = reply()


async def _read(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    method, asked, _ = first.split(" ")
    target = urlsplit(asked)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(target.path, dict(parse_qsl(target.query)), headers, method, body)


@asynccontextmanager
async def api_server(**options: Any) -> AsyncIterator[ApiServer]:
    """A server on 127.0.0.1, at `port` or a free one, gone with every connection after the block."""
    async with served(ApiServer(**options)) as api:
        yield api


Server = TypeVar("Server", bound=ApiServer)


@asynccontextmanager
async def served(api: Server) -> AsyncIterator[Server]:
    """The same for a server that is made already."""
    async with listening(api.serve, api.port, api.tls) as api.port:
        yield api


@asynccontextmanager
async def listening(serve: Serve, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """`serve` gets each connection to the port of 127.0.0.1 that this gives; after the block all are cut off."""
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """No coroutine: where asyncio makes the task, one that is cancelled before its first step closes nothing."""
        connections[asyncio.get_running_loop().create_task(serve(reader, writer))] = writer

    server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task, writer in connections.items():
            task.cancel()
            writer.transport.abort()
        ended = await asyncio.gather(*connections, return_exceptions=True)
    for fault in ended:
        if isinstance(fault, Exception):
            raise fault
