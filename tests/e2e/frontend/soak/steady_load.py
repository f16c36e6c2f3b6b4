"""Callers at a steady rate: plain, streams, uploads, and such that leave; what came of each is counted."""

import asyncio
import random
import time
from collections import Counter, deque
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.e2e.frontend.calling import request
from tests.e2e.frontend.soak.steady_pools import PLAIN, STREAM_ASKED, STREAMED

RATE: Final = 200  # requests a second
ANSWER_SECS: Final = 20.0  # on a busy machine
KEPT: Final = 64  # connections that callers keep for their next request
UPLOAD: Final = b'{"model":"m","p":"%b"}' % (b"x" * (96 << 10))
LONG_UPLOAD: Final = b'{"model":"long","p":"%b"}' % (b"x" * (9 << 20))  # longer than what is held of a body
LONG_EVERY: Final = 600  # requests: one in three seconds

PLAIN_ASK: Final = request(b'{"model":"m"}')
STREAM_ASK: Final = request(b'{"model":"m",%b}' % STREAM_ASKED)
UPLOAD_ASK: Final = request(UPLOAD)
LONG_ASK: Final = request(LONG_UPLOAD)


class Answer(NamedTuple):
    """What came, to its proper end."""

    status: int
    body: bytes


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, data: bytes) -> Answer:
        """One exchange. Raises IncompleteReadError and OSError where it broke off."""
        self._writer.write(data)
        await self._writer.drain()
        head = await self.head()
        status = int(head[9:12])
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            return Answer(status, await self._chunks())
        length = lowered.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return Answer(status, await self._reader.readexactly(int(length)))

    async def begin(self, data: bytes) -> None:
        """Sends, and waits for nothing."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self) -> bytes:
        return await self._reader.readuntil(b"\r\n\r\n")

    def close(self) -> None:
        self._writer.transport.abort()

    async def _chunks(self) -> bytes:
        parts = list[bytes]()
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(parts)


class Load:
    """`async with` it: RATE requests a second to the port, until left; then all are waited for.

    `outcomes` counts what came of them: `whole`, `left` by the caller, `broken off`, or a status other than 200.
    With `steady` nobody leaves, and nothing is uploaded.
    """

    def __init__(self, port: int, *, steady: bool = False) -> None:
        self._port = port
        self._steady = steady
        self._choose = random.Random(port)
        self._kept: deque[Caller] = deque()
        self._asking: set[asyncio.Task[None]] = set()
        self._driving: asyncio.Task[None] | None = None
        self.sent = 0
        self.outcomes: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._driving = asyncio.create_task(self._drive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._driving is not None
        self._driving.cancel()
        await asyncio.wait({self._driving, *self._asking})
        while self._kept:
            self._kept.pop().close()
        if not self._driving.cancelled():
            self._driving.result()

    @property
    def failures(self) -> dict[str, int]:
        """What did not go well though nobody left."""
        return {what: count for what, count in self.outcomes.items() if what not in ("whole", "left")}

    async def _drive(self) -> None:
        began_at = time.monotonic()
        while True:
            while self.sent < (time.monotonic() - began_at) * RATE:
                self.sent += 1
                task = asyncio.create_task(self._one(self.sent))
                self._asking.add(task)
                task.add_done_callback(self._asked)
            await asyncio.sleep(1 / RATE)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.outcomes[f"fault {fault!r}"] += 1

    async def _one(self, number: int) -> None:
        if self._steady:
            await self._whole(STREAM_ASK if number % 2 else PLAIN_ASK)
        elif number % LONG_EVERY == LONG_EVERY // 10:
            await self._whole(LONG_ASK)
        elif (kind := number % 10) < 5:
            await self._whole(PLAIN_ASK)
        elif kind < 8:
            await self._whole(STREAM_ASK)
        elif kind == 8:
            await self._whole(UPLOAD_ASK)
        else:
            await self._leaving(self._choose.choice((STREAM_ASK, PLAIN_ASK, UPLOAD_ASK, UPLOAD_ASK[:50_000])))

    async def _whole(self, data: bytes) -> None:
        """One exchange that is checked, on a connection of those that were kept."""
        expected = STREAMED if data is STREAM_ASK else PLAIN
        caller = self._kept.popleft() if self._kept else await Caller.connect(self._port)
        try:
            async with asyncio.timeout(ANSWER_SECS):
                answer = await caller.ask(data)
        except (OSError, asyncio.IncompleteReadError) as error:  # a timeout is one of the first
            self.outcomes["no answer in time" if isinstance(error, TimeoutError) else "broken off"] += 1
            caller.close()
            return
        if answer.status != 200:
            self.outcomes[f"{answer.status} {answer.body.decode()}"] += 1
        else:
            self.outcomes["whole" if answer.body == expected else "wrong body"] += 1
        if len(self._kept) < KEPT:
            self._kept.append(caller)
        else:
            caller.close()

    async def _leaving(self, data: bytes) -> None:
        """Sends, and is gone after a moment: before the answer, within it, or behind it."""
        caller = await Caller.connect(self._port)
        try:
            await caller.begin(data)
            await asyncio.sleep(self._choose.random() * 0.15)
        finally:
            caller.close()
        self.outcomes["left"] += 1
