"""A TCP proxy on loopback that treats connections badly, at random but the same for the same seed.

It cuts connections, resets them, lets them stall in both directions, delays what goes through, and refuses new ones.
"""

import asyncio
import contextlib
from random import Random
from types import TracebackType
from typing import Self

CHUNK_BYTES = 16 * 1024


class FaultyProxy:
    """`async with FaultyProxy(port, seed) as proxy`: from `proxy.port` to `port` of 127.0.0.1.

    `faults` counts what was done to connections, by name. `behave()` ends the bad treatment, of open ones too.
    """

    def __init__(self, target_port: int, seed: int, *, longest_secs: float) -> None:
        self.port = 0
        self.faults: dict[str, int] = {}
        self._target_port = target_port
        self._random = Random(seed)
        self._longest_secs = longest_secs
        self._behaves = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def behave(self) -> None:
        self._behaves.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._connect(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._happens("refused", 0.15):
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            gate = asyncio.Event()
            gate.set()
            pumps = [self._pump(reader, there_writer, gate), self._pump(there_reader, writer, gate)]
            running = [asyncio.ensure_future(pump) for pump in (*pumps, self._mistreat(gate))]
            self._tasks.update(running)
            try:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in running:
                    one.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                self._tasks.difference_update(running)
        finally:
            there_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        """Passes on what comes; returns at the end, or where it cuts, in the middle of what came as likely as not."""
        while data := await reader.read(CHUNK_BYTES):
            await gate.wait()
            if self._happens("delayed", 0.2):
                await self._sleep(self._random.uniform(0, 0.2))
            if self._happens("cut", 0.03):
                writer.write(data[: self._random.randrange(len(data))])
                await writer.drain()
                return
            writer.write(data)
            await writer.drain()

    async def _mistreat(self, gate: asyncio.Event) -> None:
        """Returns when the connection is to be reset; stalls it now and then until that."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._longest_secs))
            if self._happens("stalled", 0.5):
                gate.clear()
                await self._sleep(self._random.uniform(0, self._longest_secs))
                gate.set()
            elif self._happens("reset", 0.5):
                return

    def _happens(self, fault: str, probability: float) -> bool:
        if self._behaves.is_set() or self._random.random() >= probability:
            return False
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return True

    async def _sleep(self, secs: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                await self._behaves.wait()
