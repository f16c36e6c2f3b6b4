"""A proxy on loopback before an API server that throttles, is slow, cuts connections, or is not there, as told.

It speaks HTTP to the service and TLS to the server, and knows of Leases only what their writes say.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import aiohttp
from aiohttp import web

from tests.cluster.programs import ApiServer
from tests.e2e.clusters import kubeconfig
from tests.e2e.store_faults import Write
from tests.e2e.wire import PATIENCE

NOT_PASSED = frozenset({"host", "content-length", "transfer-encoding", "connection"})
WRITING = ("POST", "PATCH", "DELETE")
RETRY_AFTER_SECS = 1  # what a real server's priority and fairness asks for
SLOW_SECS = 0.3
WATCHED_SECS = 3.0  # after which a watch is cut, while there is trouble


class FaultyApi:
    """`url` leads to `server`. `throttled`, `slow` and `cut` are shares; a cut write was done as likely as not."""

    def __init__(self, server: ApiServer, seed: int = 1) -> None:
        self.url = ""
        self.throttled = self.slow = self.cut = 0.0
        self.gone = False
        self.writes: list[Write] = []  # of Leases, by their names
        self._target = f"https://127.0.0.1:{server.port}"
        self._certificate = server.certificate
        self._random = Random(seed)
        self._open: set[asyncio.Transport] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, left: asyncio.Event, ready: threading.Event) -> None:
        """Until `left`."""
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=4 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        tls = ssl.create_default_context(cafile=str(self._certificate))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session,
            asyncio.TaskGroup() as self._writing,
        ):
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready.set()
            await left.wait()
            self._leave()
            await runner.cleanup()

    def leave(self) -> None:
        """From now on it is gone, and so are its connections. For any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self.gone = True
        for transport in self._open:
            transport.abort()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._open.add(transport)
        try:
            return await self._treated(request, body)
        finally:
            self._open.discard(transport)

    async def _treated(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if self.gone:
            return _cut(request)
        if request.method not in WRITING:
            with suppress(OSError, aiohttp.ClientError, TimeoutError):
                return await self._streamed(request)
            return _cut(request)
        if self._random.random() < self.throttled:
            return web.Response(status=429, headers={"Retry-After": str(RETRY_AFTER_SECS)}, text="as told")
        if self._random.random() < self.slow:
            await asyncio.sleep(SLOW_SECS)  # what is tested: a server that is slow
        cut, done = self._random.random() < self.cut, self._random.random() < 0.5
        if cut and not done:
            return _cut(request)
        # Whoever asked may leave meanwhile, and so may we: what the server takes is to be known all the same.
        answer = await asyncio.shield(self._writing.create_task(self._written(request, body)))
        return _cut(request) if cut or self.gone else answer

    async def _written(self, request: web.Request, body: bytes) -> web.Response:
        async with self._session.request(
            request.method, self._target + request.raw_path, data=body, headers=_passed(request)
        ) as answer:
            read = await answer.read()
        if request.method != "DELETE" and answer.status in (200, 201):
            document = json.loads(read)
            self.writes.append(Write(document["metadata"]["name"], document["spec"]["renewTime"], time.monotonic()))
        return web.Response(body=read, status=answer.status, content_type=answer.content_type)

    async def _streamed(self, request: web.Request) -> web.StreamResponse:
        async with self._session.get(self._target + request.raw_path, headers=_passed(request)) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            began_at = time.monotonic()
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
                if self.cut and "watch=" in request.raw_path and time.monotonic() - began_at > WATCHED_SECS:
                    return _cut(request)
            await response.write_eof()
        return response


def _passed(request: web.Request) -> dict[str, str]:
    passed = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED}
    return passed | {"Accept-Encoding": "identity"}


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


@contextmanager
def faulty_api(server: ApiServer, folder: Path) -> Iterator[tuple[FaultyApi, Path]]:
    """The proxy, on a loop and in a thread of its own, and a kubeconfig that leads to it."""
    loop, left, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    proxy = FaultyApi(server)
    thread = threading.Thread(target=loop.run_until_complete, args=[proxy.serve(left, ready)])
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        path = folder / "kubeconfig-of-the-proxy"
        path.write_text(json.dumps(kubeconfig(proxy.url)))
        yield proxy, path
    finally:
        loop.call_soon_threadsafe(left.set)
        thread.join(PATIENCE)
        loop.close()
