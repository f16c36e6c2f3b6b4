"""The stub upstream, a process of its own: as little HTTP as will do, since wrk shares its core.

`python -m bench.frontend.stub PORT`. It answers every POST as it was told last by `GET /KIND`, which also counts anew;
`GET /answered` says how many requests it has answered since, those in hand by the share of them that is done: a round
ends in the midst of many. It reads a body by its Content-Length and by nothing else.
"""

import asyncio
import os
import re
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final, cast

import uvloop

from bench.frontend import bodies

SPACING_SECS: Final = 0.004  # between two chunks of a paced stream
SPREAD: Final = 4  # streams that begin together are so many milliseconds apart: else all would beat as one
BACKLOG: Final = 4_096
ANSWERED: Final = b"/answered"

_HEAD: Final = b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
_JSON: Final = _HEAD + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_EVENTS: Final = (
    _HEAD + b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_REFUSED: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

_REPLIES: Final = tuple(_JSON % (len(body), body) for body in bodies.replies())
_CHUNKS: Final = tuple(b"%x\r\n%b\r\n" % (len(event), event) for event in bodies.events())
_LAST: Final = b"0\r\n\r\n"
_STREAM: Final = (_EVENTS, *_CHUNKS, _LAST)  # each is a write of its own
_WHOLE: Final = b"".join(_STREAM)


class Stub:
    """How requests are answered, and how many have been."""

    def __init__(self) -> None:
        self.answer: Callable[[Connection], None] = Connection.reply
        self.answered = 0.0
        self.is_upload = False
        self.replies = cycle(_REPLIES)
        self.turns = cycle(range(SPREAD))

    def become(self, kind: str) -> bool:
        """Answers as KINDS has it from now on, and counts anew. Whether there is such a kind."""
        answer = KINDS.get(kind)
        if answer is None:
            return False
        self.answer, self.answered, self.is_upload = answer, 0.0, kind == "upload"
        return True


class Connection(asyncio.Protocol):
    """One connection, request by request."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._transport: asyncio.Transport
        self._kept = b""  # of a head that is not whole
        self._length = self._missing = 0  # of a body
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # which uvloop's does not derive from

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            data = self._head(self._kept + data)
            if not self._missing:
                return
        self._missing -= len(data)
        if self._stub.is_upload:
            self._stub.answered += len(data) / self._length
        if self._missing < 0:
            self._refuse()  # nobody here pipelines
        elif self._missing == 0:
            self._stub.answer(self)

    def _head(self, data: bytes) -> bytes:
        """What follows a whole head that announces a body; every other one is dealt with."""
        head, end, rest = data.partition(b"\r\n\r\n")
        self._kept = b"" if end else data
        if not end:
            return b""
        if head.startswith(b"GET "):
            self._told(head.split(b" ", 2)[1])
            return b""
        length = _LENGTH.search(head)
        if length is None or not int(length[1]):
            self._refuse()
            return b""
        self._length = self._missing = int(length[1])
        return rest

    def _told(self, path: bytes) -> None:
        if path != ANSWERED and not self._stub.become(path[1:].decode()):
            self._refuse()
            return
        said = b"%.6f" % self._stub.answered
        self._transport.write(_JSON % (len(said), said))

    def _refuse(self) -> None:
        self._missing = 0
        self._transport.write(_REFUSED)
        self._transport.close()

    # -- kinds of answers

    def reply(self) -> None:
        """One JSON document."""
        self._stub.answered += 1
        self._transport.write(next(self._stub.replies))

    def reply_to_upload(self) -> None:
        """The same; what has been read is counted already."""
        self._transport.write(next(self._stub.replies))

    def stream_at_once(self) -> None:
        """All chunks in one write."""
        self._stub.answered += 1
        self._transport.write(_WHOLE)

    def stream_one_by_one(self) -> None:
        """Each chunk in a system call of its own, without a pause: a transport would put them together."""
        self._stub.answered += 1
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        try:
            rest = _written(descriptor, _STREAM)
        except OSError:  # the reader has gone, as at the end of a round
            self._transport.abort()
            return
        self._transport.write(rest)

    def stream_paced(self) -> None:
        """A chunk every SPACING_SECS."""
        self._transport.write(_EVENTS)
        self._later(next(self._stub.turns) / 1e3, 0)

    def begin_stream(self) -> None:
        """One chunk, and then nothing."""
        self._transport.write(_EVENTS + _CHUNKS[0])

    def _next_chunk(self, number: int) -> None:
        self._stub.answered += 1 / bodies.CHUNKS
        following = number + 1
        if following == len(_CHUNKS):
            self._transport.write(_CHUNKS[number] + _LAST)
        else:
            self._transport.write(_CHUNKS[number])
            self._later(SPACING_SECS, following)

    def _later(self, secs: float, number: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(secs, self._next_chunk, number)


KINDS: Final[Mapping[str, Callable[[Connection], None]]] = {
    "json": Connection.reply,
    "upload": Connection.reply_to_upload,
    "paced": Connection.stream_paced,
    "burst": Connection.stream_one_by_one,
    "coalesced": Connection.stream_at_once,
    "idle": Connection.begin_stream,
}


def _written(descriptor: int, pieces: Sequence[bytes]) -> bytes:
    """What the socket did not take at once; mostly nothing. Raises OSError."""
    for number, piece in enumerate(pieces):
        try:
            written = os.write(descriptor, piece)
        except BlockingIOError:
            written = 0
        if written < len(piece):
            return piece[written:] + b"".join(pieces[number + 1 :])
    return b""


async def _run(port: int) -> None:
    stub = Stub()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(stub), "127.0.0.1", port, backlog=BACKLOG)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Until it is stopped by a signal."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_run(int(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
