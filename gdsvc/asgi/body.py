"""Reads request bodies within a limit, and refuses those beyond it in a way that lets the caller see the answer."""

import asyncio
from typing import Final

from gdsvc.asgi.responses import Response, respond_and_close
from gdsvc.asgi.types import Receive, Scope, Send, header
from gdsvc.errors import GdsvcError, Unavailable

DISCARDED_BYTES: Final = 16 * 1024 * 1024  # an ordinary client writes all before it reads: this much is let through
DISCARD_SECONDS: Final = 2.0  # and a slow one holds its connection no longer than this
_LENGTH_DIGITS: Final = 19  # what is longer is beyond any limit, and int() need not see it


class BodyTooLarge(GdsvcError):
    """The body exceeds `limit` bytes; whether the rest is still to come is not known."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body exceeds {limit} bytes")
        self.limit = limit


class BodyTooSlow(GdsvcError):
    """The body did not arrive in the time that a body has."""


class Disconnected(GdsvcError):
    """The body ended early: the caller left, or broke the framing of its chunks; granian does not tell which.

    Answer all the same, with 400 say: to an app that returns without an answer granian adds a 500 of its own.
    """


class Budget:
    """Bytes that bodies still arriving may hold in memory, over all connections."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> None:
        """Holds `size` more. Raises Unavailable where that is too much; nothing is held then."""
        if self.held + size > self.limit:
            raise room_is_spent()
        self.held += size

    def give_back(self, size: int) -> None:
        """Holds `size` less."""
        self.held -= size


def room_is_spent() -> Unavailable:
    """What to raise where bodies that arrive hold as much as they may."""
    return Unavailable("too many large bodies are arriving at once", retry_after_secs=1)


async def read_body(scope: Scope, receive: Receive, limit: int, budget: Budget | None = None) -> bytes:
    """The whole body, at most `limit` bytes; what has come of it while more is to come is held in `budget`.

    Raises BodyTooLarge at once where Content-Length exceeds the limit, else as soon as the chunks do; Disconnected
    when it ends early; Unavailable where the budget is spent. A body of stated length ends with its last byte: the
    empty message that granian sends behind it is not waited for (one more trip between threads per request), so a
    later receive() may still give it.
    """
    length = _stated_length(scope)
    if length is not None and length > limit:
        raise BodyTooLarge(limit)
    body = b""
    rest: bytearray | None = None  # one buffer, since a list of two-byte chunks takes twenty times their size
    size = held = 0
    more = length != 0
    try:
        while more:
            chunk, more = await _next_chunk(receive)
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(limit)
            if size == len(chunk):
                body = chunk
            elif chunk:
                rest = bytearray(body) if rest is None else rest
                rest += chunk
            more = more and size != length
            if more and budget is not None:
                budget.take(len(chunk))
                held += len(chunk)
    finally:
        if held and budget is not None:
            budget.give_back(held)
    return body if rest is None else bytes(rest)


async def refuse_body(send: Send, receive: Receive, response: Response) -> None:
    """Answer before the body has come: the caller sees `response` even if it writes all before it reads.

    The order matters. The answer goes first and says `Connection: close`, which makes the server close as soon as the
    body ends; then what still arrives is dropped; then the app returns, which closes the connection whatever is still
    to come. Closing with unread bytes at once would reset the connection, and the caller would see only that.
    """
    await respond_and_close(send, response)
    await discard(receive)


async def discard(receive: Receive, at_most: int = DISCARDED_BYTES, seconds: float = DISCARD_SECONDS) -> None:
    """Read and drop what still arrives, until the body ends, the caller leaves, or one of the bounds is reached."""
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more and at_most > 0:
                chunk, more = await _next_chunk(receive)
                at_most -= len(chunk)
    except (TimeoutError, Disconnected):
        return


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    """The next part of the body, and whether more follows."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected("the body ended early")
    return message.get("body", b""), message.get("more_body", False)


def _stated_length(scope: Scope) -> int | None:
    stated = header(scope, b"content-length")
    if stated is None or not stated.isdigit():
        return None
    return int(stated[:_LENGTH_DIGITS])
