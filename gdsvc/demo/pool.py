"""One mock pool: speaks OpenAI's API, makes sentences up, and registers itself. `python -m gdsvc.demo.pool NAME URL`.

It decides nothing that a real pool decides; it is slow on purpose, so that streams can be watched.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import uvloop

from gdsvc.asgi.body import BodyTooLarge, Disconnected, read_body
from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.server import Server
from gdsvc.asgi.types import Receive, Scope, Send
from gdsvc.client import Heartbeat, Options
from gdsvc.errors import GdsvcError
from gdsvc.model import PoolKey, PoolLocation, PoolRegistration
from gdsvc.tasks import cancelled

MODEL: Final = "demo"
WORD_SECS: Final = 0.08
MOST_BYTES: Final = 1 << 20
MOST_WORDS: Final = 2000
USUAL_WORDS: Final = 12  # where the request names no number


class Ask(msgspec.Struct):
    """What the mock reads of a request."""

    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None

    @property
    def words(self) -> int:
        """How many are wanted."""
        wanted = self.max_completion_tokens or self.max_tokens or USUAL_WORDS
        return min(max(wanted, 1), MOST_WORDS)


class Mock:
    """The ASGI callable of the pool `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._served = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["method"] == "GET" and scope["path"] == "/v1/models":
            await respond(send, _json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
            return
        if scope["method"] != "POST" or scope["path"] != "/v1/chat/completions":
            await respond(send, _json(404, {"error": {"message": "the mock knows chat completions", "code": None}}))
            return
        try:
            ask = msgspec.json.decode(await read_body(scope, receive, MOST_BYTES), type=Ask)
        except (msgspec.MsgspecError, BodyTooLarge, Disconnected) as error:
            await respond(send, _json(400, {"error": {"message": str(error), "code": None}}))
            return
        self._served += 1
        answer = Answer(self._name, self._served, ask.words)
        if ask.stream:
            await _stream(answer, receive, send)
        else:
            text = "".join([word async for word in answer.spoken()])
            await respond(send, _json(200, answer.document("chat.completion", "message", text, "stop")))


class Answer:
    """What the pool `name` makes up for its request `number`."""

    def __init__(self, name: str, number: int, words: int) -> None:
        self._id = f"{name}-{number}"
        self._created = int(time.time())
        sentence = f"This is pool {name}, request number {number}. I count to the end:".split(" ")
        self._words = [sentence[at] if at < len(sentence) else str(at) for at in range(words)]

    async def spoken(self) -> AsyncIterator[str]:
        """Word by word."""
        for word in self._words:
            await asyncio.sleep(WORD_SECS)
            yield f"{word} "

    def document(self, kind: str, member: str, text: str, finish: str | None) -> dict[str, Any]:
        """A completion, or one chunk of it."""
        choice = {"index": 0, member: {"role": "assistant", "content": text}, "finish_reason": finish}
        return {"id": self._id, "object": kind, "created": self._created, "model": MODEL, "choices": [choice]}


async def _stream(answer: Answer, receive: Receive, send: Send) -> None:
    """Until the last word, or until the caller leaves: a real pool, too, stops to generate then."""
    headers = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    writing, leaving = tasks = asyncio.create_task(_write(answer, send)), asyncio.create_task(_left(receive))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            await writing
    finally:
        await cancelled(tasks)


async def _write(answer: Answer, send: Send) -> None:
    async for word in answer.spoken():
        await _event(send, msgspec.json.encode(answer.document("chat.completion.chunk", "delta", word, None)))
    await _event(send, msgspec.json.encode(answer.document("chat.completion.chunk", "delta", "", "stop")))
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _event(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": b"data: %b\n\n" % data, "more_body": True})


def _json(status: int, document: object) -> Response:
    return Response(status, msgspec.json.encode(document))


async def serve(name: str, discovery_url: str) -> None:
    """Serves and heartbeats until SIGTERM, then takes the pool out."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Server(Mock(name), "127.0.0.1", 0, grace=1.0) as server:
        registration = PoolRegistration(
            PoolKey("demo", "demo", name),
            model=MODEL,
            frontends=(f"http://127.0.0.1:{server.port}",),
            location=PoolLocation(f"{name}-1"),
        )
        async with Heartbeat(Options((discovery_url,)), registration, deregister=True):
            await stop.wait()


def main() -> int:
    """The exit code."""
    name, discovery_url = sys.argv[1:]
    try:
        uvloop.run(serve(name, discovery_url))
    except GdsvcError as error:
        sys.stderr.write(f"pool {name}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
