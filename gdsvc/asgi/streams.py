"""Responses that go on until their writer ends or the caller leaves. What is written is decided elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from gdsvc.asgi.types import Receive, Send

EVENT_STREAM: Final = b"text/event-stream"  # granian sends the head of such a response at once
_HEADERS: Final = (
    (b"content-type", EVENT_STREAM),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or nginx in front of us would collect events before it passes them on
)


class BrokenOff(Exception):
    """Raised out of an app, it breaks off the answer that has begun: the caller sees a transfer that was aborted."""


class End(Enum):
    """How a stream came to its end."""

    WRITTEN = "written"  # by its writer
    LEFT = "left"  # by the caller
    CUT = "cut"  # by whoever cancelled the writer


class Stream:
    """A response of server-sent events. `write` sends its body part by part, to the last; `ended` is told the end."""

    status: Final = 200

    def __init__(self, write: Callable[[Send], Awaitable[None]], ended: Callable[[End], None]) -> None:
        self._write = write
        self._ended = ended

    async def run(self, receive: Receive, send: Send, *, head: bool = False) -> None:
        """Sends the head, then what `write` sends; with `head` nothing more. `ended` is called in any case.

        granian tells of a caller that leaves only by `receive`: its `send` goes on as before.
        """
        end = End.CUT
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": _HEADERS})
            if head:
                await send({"type": "http.response.body", "body": b""})
                end = End.WRITTEN
            else:
                end = await self._until_end(receive, send)
        finally:
            self._ended(end)

    async def _until_end(self, receive: Receive, send: Send) -> End:
        async def written() -> None:
            await self._write(send)

        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(written())
            leaving = tasks.create_task(_leaves(receive))
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            left = not writing.done()
            writing.cancel()
            leaving.cancel()
        if left:
            return End.LEFT
        return End.CUT if writing.cancelled() else End.WRITTEN


async def _leaves(receive: Receive) -> None:
    """Returns when the caller has left; what it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
