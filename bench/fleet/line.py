"""Kept-alive HTTP/1.1 connections, as lean as they can be: pre-built requests out, status and body of replies in."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

from msgspec import Struct

from bench.fleet.plan import Target
from bench.fleet.stream import Broken, head_of

DIALING: Final = 100  # connections that are opened at the same time
DIAL_SECS: Final = 10.0


class Reply(Struct, frozen=True):
    """An answer, or status 0 where there was none; when the request was sent, and when this was known."""

    status: int
    body: bytes
    sent_at: float
    received_at: float


OnReply = Callable[[Reply], None]


class Dialer:
    """`async with Dialer(target)`: opens connections, a bounded number at a time, in tasks that end with the block."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._gate = asyncio.Semaphore(DIALING)
        self._ssl = ssl.create_default_context(cafile=target.ca) if target.tls else None
        self._dialing: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.Transport] = set()
        self.fault = ""  # why the last connection could not be opened
        self._closed = False
        self._all_lost = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        for task in self._dialing:
            task.cancel()
        await asyncio.gather(*self._dialing, return_exceptions=True)
        for transport in self._open:
            transport.abort()
        if self._open:
            await self._all_lost.wait()

    def dial(self, protocol: asyncio.Protocol, failed: Callable[[], None], after_secs: float = 0.0) -> None:
        """Connects `protocol`, `after_secs` from now; `failed()` where that cannot be done."""
        if not self._closed:
            task = asyncio.get_running_loop().create_task(self._dial(protocol, failed, after_secs))
            self._dialing.add(task)
            task.add_done_callback(self._dialing.discard)

    def opened(self, transport: asyncio.Transport) -> None:
        """To be called when a connection is made."""
        self._open.add(transport)

    def lost(self, transport: asyncio.Transport) -> None:
        """To be called when it is lost."""
        self._open.discard(transport)
        if self._closed and not self._open:
            self._all_lost.set()

    async def _dial(self, protocol: asyncio.Protocol, failed: Callable[[], None], after_secs: float) -> None:
        loop = asyncio.get_running_loop()
        target = self.target
        await asyncio.sleep(after_secs)
        try:
            async with self._gate, asyncio.timeout(DIAL_SECS):
                await loop.create_connection(lambda: protocol, target.host, target.port, ssl=self._ssl)
        except (OSError, TimeoutError) as error:
            self.fault = str(error) or f"no connection within {DIAL_SECS:g} s"
            failed()


class Line(asyncio.Protocol):
    """One connection, opened when there is something to ask and again after it was lost. Requests go one by one."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._dialing = self._ending = False
        self._waiting: deque[tuple[bytes, OnReply]] = deque()
        self._asking: tuple[OnReply, float] | None = None
        self._unread: list[bytes] = []
        self._missing = 0  # bytes, at least, of the reply that has begun to come

    @property
    def is_ready(self) -> bool:
        """Whether a request would be written at once."""
        return self._transport is not None and self._asking is None and not self._ending

    def ask(self, request: bytes, on_reply: OnReply) -> None:
        """Sends `request` when its turn comes."""
        self._waiting.append((request, on_reply))
        self._next()

    def give_up(self, sent_before: float) -> None:
        """Ends the connection where an answer has been out since before then."""
        if self._asking is not None and self._asking[1] < sent_before:
            self.abort()

    def abort(self) -> None:
        """Ends the connection; what was asked on it has no answer."""
        if self._transport is not None:
            self._ending = True
            self._transport.abort()

    def _next(self) -> None:
        if self._asking is not None or self._ending or not self._waiting:
            return
        if self._transport is None:
            if not self._dialing:
                self._dialing = True
                self._dialer.dial(self, self._failed)
            return
        request, on_reply = self._waiting.popleft()
        self._asking = (on_reply, self._loop.time())
        self._transport.write(request)

    def _failed(self) -> None:
        self._dialing = False
        waiting, self._waiting = self._waiting, deque()
        now = self._loop.time()
        for _, on_reply in waiting:
            on_reply(Reply(0, b"", now, now))

    def _reply(self, status: int, body: bytes) -> None:
        if self._asking is not None:
            on_reply, sent_at = self._asking
            self._asking = None
            on_reply(Reply(status, body, sent_at, self._loop.time()))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._dialing = False
        self._transport = cast(asyncio.Transport, transport)
        self._dialer.opened(self._transport)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._dialer.lost(self._transport)
        self._transport = None
        self._ending = False
        self._unread = []
        self._reply(0, b"")
        self._next()

    def data_received(self, data: bytes) -> None:
        if self._unread:
            self._unread.append(data)
            self._missing -= len(data)
            if self._missing > 0:  # a list of 10,000 pools comes in a hundred pieces
                return
            data = b"".join(self._unread)
            self._unread = []
        try:
            head = head_of(data)
            length = int(head.fields.get(b"content-length", b"0")) if head is not None else 0
        except (Broken, ValueError):
            self.abort()
            return
        self._missing = head.size + length - len(data) if head is not None else 1
        if head is None or self._missing > 0:
            self._unread = [data]
            return
        if head.fields.get(b"connection", b"").lower() == b"close":
            self.abort()
        self._reply(head.status, data[head.size : head.size + length])
        self._next()
