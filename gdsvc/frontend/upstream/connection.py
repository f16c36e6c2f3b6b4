"""One connection to a frontend: how it is secured, why it ends and what that means for the exchange in hand.

What runs for every exchange is compiled, in Line. Whether and when it is used again is decided elsewhere.
"""

import asyncio
import errno
import os
import socket
import ssl
import struct
from contextlib import suppress
from typing import Final, Protocol, cast

from gdsvc._line import Line
from gdsvc.frontend.upstream.failures import (
    Cause,
    Ending,
    Malformed,
    UpstreamFailed,
    cause_of,
    ending_of,
    is_unread,
)
from gdsvc.frontend.upstream.limits import Limits
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.reply import reply_reader
from gdsvc.frontend.upstream.silence import Silence
from gdsvc.frontend.upstream.tls import Tls

_PROBES: Final = (  # a stream has no total time: a peer that vanished is found after a minute of silence
    (socket.TCP_KEEPIDLE, 30),
    (socket.TCP_KEEPINTVL, 10),
    (socket.TCP_KEEPCNT, 3),
)
_BYTES_ACKED_AT: Final = 120  # in struct tcp_info of linux/tcp.h
_TCP_INFO_SIZE: Final = 128
_TCP_CLOSE: Final = 7  # of the states: after a reset; a proper end leaves CLOSE_WAIT
_LEFT_BEHIND: Final = 1 << 18  # bytes of a reply that are looked for behind a failed write


class Owner(Protocol):
    """Who is told once that the socket of a connection is about to be closed, and of each exchange that failed."""

    def lost(self, connection: "Connection", /) -> None: ...
    def failed(self, cause: Cause, /) -> None: ...


class Connection(Line, asyncio.Protocol):
    """The protocol of one transport."""

    def __init__(self, origin: Origin, limits: Limits, owner: Owner) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence = Silence(self._loop, limits.silence_secs, self._is_silent)
        silence = None if limits.silence_secs is None else self._silence
        super().__init__(reply_reader(limits.head_bytes), self._loop.create_future, silence, limits.held_bytes)
        self.origin = origin
        self._sock: socket.socket | None = None  # or what the event loop has in place of one
        self._limits = limits
        self._owner = owner
        self._tls: Tls | None = None
        self.is_uploading = False  # bit by bit: what is not sent yet is the caller's to give
        self._unsent = 0  # bytes, when it was last looked at
        self._writing_paused = False
        self._flows: asyncio.Future[None] | None = None  # what an upload or a handshake waits for

    # ----------------------------------------------------------------------------------- exchanges

    def fail(self, failure: Exception) -> None:
        """Ends the exchange in hand with `failure`, which whoever waits for it will see. The first one counts."""
        if self.is_busy and self.failure is None:
            self.failure = failure
            if isinstance(failure, UpstreamFailed):
                self._owner.failed(failure.cause)
        if self.transport is not None:
            self.transport.abort()
        self.wake()

    # ------------------------------------------------------------------------------------- reading

    def deciphered(self, data: bytes) -> None:
        """What came, in TLS."""
        if (tls := self._tls) is not None:
            if plain := self._opened(tls, data):
                self.receive(plain)
            if tls.is_ended:
                self._ended(Ending.END_OF_STREAM, whole=True)

    def refused(self, fault: Exception) -> None:
        """What came is no reply."""
        self._fail(Cause.MALFORMED, f"its reply cannot be passed on: {fault}")

    def superfluous(self) -> None:
        """What came follows a whole reply and belongs to no request: here the connection ends."""
        self._ended(Ending.END_OF_STREAM, whole=False)

    def eof_received(self) -> None:
        if (info := self._tcp_info()) and info[
            0
        ] == _TCP_CLOSE:  # a write was told of the reset before this read could be
            self._ended(Ending.RESET, whole=False)
        else:
            self._ended(Ending.END_OF_STREAM, whole=self._tls is None)  # TLS ends by its own farewell

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_busy and exc is not None and self._tls is None:
            self._read_what_is_left()
        self._ended(ending_of(exc), whole=False)
        self.is_lost = True
        self._silence.close()
        self.reply.close()
        self.resume_writing()
        self._owner.lost(self)

    def _ended(self, ending: Ending, *, whole: bool) -> None:
        """The connection ends. Only a proper end of the stream makes a body without a length `whole`."""
        reply = self.reply
        if self.is_busy and self.failure is None and not (reply.end() if whole else reply.complete):
            unread = is_unread(self._bytes_acknowledged(), self.written_before)
            cause = cause_of(ending, begun=reply.begun, reused=self.served > 0, unread=unread)
            self._fail(cause, f"{ending.value} {'within the' if reply.begun else 'before a'} reply")
            return
        reply.keep_alive = False
        if self.transport is not None and not self.is_lost:
            self.transport.abort()
        self.wake()

    def _read_what_is_left(self) -> None:
        """A peer that replies early and closes resets our upload; its reply may wait behind the failed write."""
        if self._sock is None:
            return
        left = _LEFT_BEHIND
        with suppress(OSError, Malformed), socket.socket(fileno=os.dup(self._sock.fileno())) as sock:
            while left > 0 and not self.reply.complete and (data := sock.recv(left, socket.MSG_DONTWAIT)):
                self.reply.feed(data)
                left -= len(data)

    # ------------------------------------------------------------------------------------- writing

    async def drained(self) -> bool:
        """Waits until the socket takes more; False where it never will, or took nothing for `Limits.stall_secs`."""
        if self._writing_paused and self.is_usable:
            await self._resumed()
        self._silence.heard()
        return self.is_usable

    async def _resumed(self) -> None:
        """While a body is not read on, its caller is not either, and could leave without our seeing it."""
        self._is_stalled()  # from here on it counts
        stall = Silence(self._loop, self._limits.stall_secs, self._stalled)
        stall.start()
        try:
            while self._writing_paused and self.is_usable:
                self._flows = self._loop.create_future()
                await self._flows
        finally:
            stall.close()

    def _stalled(self) -> bool:
        if self._limits.silence_secs is not None or not self._is_stalled():  # else silence has been judged already
            return False
        self._fail(Cause.SILENT, f"it took nothing of the request for {self._limits.stall_secs:g} s")
        return True

    def _is_stalled(self) -> bool:
        """Whether nothing was sent since it was last asked."""
        unsent, self._unsent = self._unsent, self.transport.get_write_buffer_size() if self.transport else 0
        return self._unsent == unsent

    async def permitted(self) -> bool:
        """Waits for `100 Continue`, but not for long; False where a final reply came instead, or none will."""
        if not self.reply.begun:
            self.permission = self._loop.create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.continue_secs):
                    await self.permission
        return self.is_usable and not self.reply.status

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._silence.heard()
        _set(self._flows)

    # ---------------------------------------------------------------------------------------- TLS

    async def secure(self, tls: Tls) -> None:
        """Shakes hands. Raises ssl.SSLError and OSError."""
        self._tls = self.cipher = tls
        tls.shake()
        self._write_pending(tls)
        while not tls.is_established:
            if not self.is_usable:
                raise ConnectionResetError(errno.ECONNRESET, "closed during the TLS handshake")
            self._flows = self._loop.create_future()
            await self._flows

    def _write_pending(self, tls: Tls) -> None:
        """Sends what TLS itself has to say."""
        if data := tls.outgoing():
            self.write_sealed(data)

    def _opened(self, tls: Tls, data: bytes) -> bytes:
        try:
            if not tls.is_established:
                if not tls.shake(data):
                    return b""
                _set(self._flows)
                data = b""
            return tls.receive(data)
        except ssl.SSLError as error:
            if self._flows is not None and not self._flows.done() and not tls.is_established:
                self._flows.set_exception(error)
            else:
                self._fail(Cause.MALFORMED, "its TLS is broken")
            return b""
        finally:
            self._write_pending(tls)

    # ----------------------------------------------------------------------------------- the rest

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.born_at = self._loop.time()
        if (sock := transport.get_extra_info("socket")) is not None:
            self._sock = sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _PROBES:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def _is_silent(self) -> bool:
        """Asked when nothing was heard for the time allowed: whether that is the upstream's doing."""
        if self.is_paused or (self.is_uploading and not self._writing_paused):
            return False
        if not self._is_stalled():  # a large body goes out slowly
            return False
        self._fail(Cause.SILENT, f"silent for {self._limits.silence_secs:g} s")
        return True

    def _bytes_acknowledged(self) -> int | None:
        """`tcpi_bytes_acked`, or None where the system does not say."""
        info = self._tcp_info()
        return int(struct.unpack_from("=Q", info, _BYTES_ACKED_AT)[0]) if len(info) == _TCP_INFO_SIZE else None

    def _tcp_info(self) -> bytes:
        """struct tcp_info, whose first byte is the state; empty where the system does not say."""
        try:
            return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE) if self._sock else b""
        except (OSError, ValueError):  # uvloop says with the second that the socket is closed
            return b""

    def _fail(self, cause: Cause, detail: str) -> None:
        self.fail(UpstreamFailed(cause, self.origin, detail))


def _set(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
