"""What a pool says in OpenAI's API: whole replies and parts of streams, as the bytes of an upstream that closes."""

import json
from typing import Any, Final

from tests.e2e.frontend.calling import LAST_CHUNK, chunk
from tests.upstream.scripted import Peer

DONE: Final = chunk(b"data: [DONE]\n\n")
STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)
BROKEN_OFF: Final = "incomplete chunked read|Connection error"  # what the client raises depends on its release
MESSAGES: Final[Any] = [{"role": "user", "content": "hello"}]
EMBEDDINGS: Final = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}
COMPLETION: Final = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}
RESPONSE: Final = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "id": "o",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        }
    ],
}


def reply(document: object, status: int = 200, *headers: bytes) -> bytes:
    """A whole JSON reply."""
    body = json.dumps(document).encode()
    lines = (b"Content-Type: application/json", b"Content-Length: %d" % len(body), b"Connection: close", *headers)
    return b"HTTP/1.1 %d X\r\n%b\r\n\r\n%b" % (status, b"\r\n".join(lines), body)


def error(message: str, code: str) -> dict[str, object]:
    """An error as OpenAI writes it."""
    return {"error": {"message": message, "type": "requests", "param": None, "code": code}}


def word(text: str) -> bytes:
    """One chunk of a streamed chat completion."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return chunk(b"data: %b\n\n" % json.dumps(document).encode())


def event(kind: str, **members: object) -> bytes:
    """One event of a streamed response."""
    document = {"type": kind, "sequence_number": 0, **members}
    return chunk(b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(document).encode()))


class Replies:
    """A pool that answers the requests to come with these bytes, each on a connection of its own.

    `asked` has the heads and bodies, as they came.
    """

    def __init__(self, *replies: bytes) -> None:
        self.asked: list[tuple[bytes, Any]] = []
        self._replies = iter(replies)

    async def __call__(self, peer: Peer) -> None:
        self.asked.append(await request_of(peer))
        await peer.send(next(self._replies))


async def request_of(peer: Peer) -> tuple[bytes, Any]:
    """The head and the JSON body of one request."""
    head = await peer.head()
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return head, json.loads(await peer.receive(int(length)))


RESPONSE_STREAM: Final = b"".join(
    (
        STREAM,
        event("response.created", response=RESPONSE | {"status": "in_progress", "output": []}),
        *(
            event("response.output_text.delta", item_id="o", output_index=0, content_index=0, delta=delta, logprobs=[])
            for delta in ("h", "i")
        ),
        event("response.completed", response=RESPONSE),
        LAST_CHUNK,
    )
)
