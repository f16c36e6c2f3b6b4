"""A proxy on loopback before a DynamoDB that throttles, is slow, answers late reads, or cuts connections, as told."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.e2e.store_faults import Write
from tests.e2e.wire import PATIENCE

TARGET = "x-amz-target"
NOT_PASSED = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-encoding"})
WRITES = ("BatchWriteItem", "PutItem", "UpdateItem")


class FaultyTable:
    """`async with FaultyTable(endpoint) as proxy`: from `proxy.url` to `endpoint`; what was done is in `done`.

    `fault(operation)` names what becomes of a call: "throttled", "cut", "lost" (done, but the answer is cut), "denied",
    or "" where nothing does. `old`: the answer before the last one to the same query is given again; `lag_secs`: the
    last one that was true so long ago, or the first. `writes` are the heartbeats that the table has taken.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.fault: Callable[[str], str] = lambda operation: ""
        self.expired: Callable[[str], bool] = lambda key: False  # of the access key that a call is signed with
        self.old = False
        self.lag_secs = 0.0
        self.writes: list[Write] = []
        self.done: Counter[tuple[str, str]] = Counter()
        self.keys: Counter[str] = Counter()  # that calls were signed with
        self.url = ""
        self._answers: dict[bytes, list[tuple[float, bytes]]] = {}
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    def throttle(self, share: float, seed: int = 1) -> None:
        """From now on so many of the writes are throttled."""
        random = Random(seed)
        self.fault = lambda operation: "throttled" if operation in WRITES and random.random() < share else ""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        operation = request.headers.get(TARGET, ".").rpartition(".")[2]
        fault = self.fault(operation)
        self.done[operation, fault] += 1
        body = await request.read()
        key = request.headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]
        self.keys[key] += 1
        if self.expired(key):
            return _refused("ExpiredTokenException")
        match fault:
            case "throttled":
                return _refused("ProvisionedThroughputExceededException")
            case "denied":
                return _refused("AccessDeniedException")
            case "cut":
                return _cut(request)
            case _:
                answer = await self._passed(request, operation, body)
                return _cut(request) if fault == "lost" else answer

    async def _passed(self, request: web.Request, operation: str, body: bytes) -> web.Response:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED}
        async with self._session.post(self._endpoint, data=body, headers=headers) as answer:
            read = await answer.read()
        if operation == "Query":
            read = self._aged(body, read)
        if operation == "BatchWriteItem" and answer.status == 200:
            self._note(body, read)
        return web.Response(body=read, status=answer.status, content_type="application/x-amz-json-1.0")

    def _aged(self, query: bytes, answer: bytes) -> bytes:
        """What is given for the `answer` that is true now."""
        now, answers = time.monotonic(), self._answers.setdefault(query, [])
        answers.append((now, answer))
        if self.lag_secs:
            while len(answers) > 1 and answers[1][0] <= now - self.lag_secs:
                del answers[0]
            return answers[0][1]
        del answers[:-2]
        return answers[0][1] if self.old else answer

    def _note(self, body: bytes, answer: bytes) -> None:
        left = json.dumps(json.loads(answer).get("UnprocessedItems", {}))
        for requests in json.loads(body)["RequestItems"].values():
            for item in (request["PutRequest"]["Item"] for request in requests):
                key, stamp = item["sk"]["S"], item["r"]["S"]
                if stamp not in left:
                    self.writes.append(Write(key.rpartition("/")[2], stamp, time.monotonic()))


def _refused(code: str) -> web.Response:
    said = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "as told"})
    return web.Response(text=said, status=400, content_type="application/x-amz-json-1.0")


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


@contextmanager
def in_a_thread(endpoint: str) -> Iterator[FaultyTable]:
    """A proxy with a loop of its own, for services that are processes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultyTable(endpoint)
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(PATIENCE)
        yield proxy
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
