"""What granian is to a stream, in process: takes what is sent or lets it wait, and says when the caller has left."""

import asyncio

from gdsvc.asgi.streams import Stream
from gdsvc.asgi.types import Received, ResponseStart, Sent


class Pipe:
    """Runs one Stream as a task of the running loop. `clogged` lets its next write wait until `unclog`."""

    def __init__(self, stream: Stream, *, head: bool = False, clogged: bool = False) -> None:
        self.start: ResponseStart | None = None
        self.ended = False  # properly: by a last part
        self.parts: list[bytes] = []
        self._read = 0
        self._flows = asyncio.Event()
        self._left = asyncio.Event()
        self._moved = asyncio.Event()
        self._one_write = False
        self._asked = False
        self.waiting = False  # whether a write is not taken
        if not clogged:
            self._flows.set()
        self.task = asyncio.ensure_future(stream.run(self._receive, self._send, head=head))

    @property
    def clogged(self) -> bool:
        return not self._flows.is_set()

    def clog(self) -> None:
        self._flows.clear()

    def unclog(self) -> None:
        self._flows.set()

    def take_one(self) -> None:
        """Takes the write that waits, and not the next."""
        self._one_write = True
        self._flows.set()

    def read(self) -> bytes:
        """What was written since the last time."""
        fresh, self._read = self.parts[self._read :], len(self.parts)
        return b"".join(fresh)

    async def moved(self) -> None:
        """Returns when the next write begins or is taken."""
        self._moved.clear()
        await self._moved.wait()

    async def leave(self) -> None:
        """The caller disconnects; returns when the stream has noticed."""
        self._left.set()
        await self.task

    async def _receive(self) -> Received:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Sent) -> None:
        assert not self.ended, "nothing follows the last part"
        if message["type"] == "http.response.start":
            assert self.start is None
            self.start = message
            return
        assert self.start is not None
        self.waiting = True
        self._moved.set()
        await self._flows.wait()
        if self._one_write:
            self._one_write = False
            self._flows.clear()
        self.waiting = False
        self.parts.append(message["body"])
        self._moved.set()
        self.ended = not message.get("more_body", False)
