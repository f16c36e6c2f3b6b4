"""Relays as asyncio tasks: each keeps one connection and registers its pool on it at intervals, as real ones do.

A relay waits for an answer no longer than its interval; then, and when its connection breaks, it connects anew.
"""

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

from tests.e2e.wire import registration, request_bytes

CONNECTING = 50  # connections that a fleet opens at the same time


class Relay:
    """One connection: `took` holds the seconds of each answer, `failed` counts the requests that had none."""

    def __init__(self, port: int, patience_secs: float) -> None:
        self.took: list[float] = []
        self.failed = 0
        self._port = port
        self._patience_secs = patience_secs
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> bytes | None:
        """The body of a 200 with a stated length; None where no answer came in time. Fails for another status."""
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_secs):
                body = await self._exchange(request)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            self.failed += 1
            self.close()
            return None
        self.took.append(time.monotonic() - asked_at)
        return body

    async def get(self, target: str) -> Any:
        """The JSON document at `target`, asked for until there is an answer."""
        while (body := await self.ask(request_bytes("GET", target))) is None:
            pass
        return json.loads(body)

    async def beat(self, request: bytes, every_secs: float) -> None:
        """Asks the same at intervals, forever; late answers do not move the later ones."""
        due_at = time.monotonic()
        while True:
            await self.ask(request)
            due_at += every_secs
            await asyncio.sleep(due_at - time.monotonic())

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return await reader.readexactly(int(length))


class Fleet:
    """`async with Fleet(…)`: the pools are registered on entering, and beat, evenly spread, until leaving."""

    def __init__(self, port: int, names: Iterable[str], every_secs: float) -> None:
        self._port = port
        self._names = tuple(names)
        self._every_secs = every_secs
        self.relays = [Relay(port, every_secs) for _ in self._names]
        self._beating: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Fleet":
        gate = asyncio.Semaphore(CONNECTING)

        async def join(relay: Relay, name: str) -> None:
            async with gate:
                assert await relay.ask(registration(name)) is not None

        await asyncio.gather(*map(join, self.relays, self._names))
        self._beating = [
            asyncio.create_task(self._beat(relay, name, position * self._every_secs / len(self._names)))
            for position, (relay, name) in enumerate(zip(self.relays, self._names, strict=True))
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._beating:
            task.cancel()
        ended = await asyncio.gather(*self._beating, return_exceptions=True)
        for relay in self.relays:
            relay.close()
        faults = [end for end in ended if not isinstance(end, asyncio.CancelledError)]
        assert not faults, faults[:3]

    async def _beat(self, relay: Relay, name: str, after_secs: float) -> None:
        await asyncio.sleep(after_secs)
        await relay.beat(registration(name), self._every_secs)


async def listed(relay: Relay) -> set[str]:
    """The dgd_names that GET /pools lists."""
    document = await relay.get("/pools")
    return {item["key"]["dgd_name"] for item in document["pools"]}
