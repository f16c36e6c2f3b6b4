"""Tells callers of HTTP/1.0 that their answer broke off: its body ends with the connection, so a proper end would lie.

Their connection is reset instead, by way of its descriptor: granian can only close it. The app decides what breaks off.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Container
from contextlib import suppress
from typing import Final

from gdsvc.asgi.connections import Address, descriptors, peer_of
from gdsvc.asgi.streams import BrokenOff
from gdsvc.asgi.types import App, Receive, Scope, Send

_OLD: Final = "1"  # HTTP/1.0 as granian writes it; nginx speaks it to what it stands before, unless told otherwise
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # struct linger: on, and no second to send what waits


class Resets:
    """`app`, but that an answer that breaks off ends by a reset where it could be taken for whole."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._next: dict[Address, asyncio.Event] = {}  # to be reset together: to find one costs as much as to find all

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """As the app."""
        if scope["http_version"] != _OLD:
            return self._app(scope, receive, send)
        return self._for_old(scope, receive, send)

    async def _for_old(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except BrokenOff:
            host, port = scope["client"]
            await self._reset((host, int(port)))
            raise

    async def _reset(self, address: Address) -> None:
        """Returns when the connection will be reset by whoever closes it."""
        if not self._next:
            asyncio.get_running_loop().call_soon(self._reset_all)
        done = self._next.setdefault(address, asyncio.Event())
        await done.wait()

    def _reset_all(self) -> None:
        addresses, self._next = self._next, {}
        try:
            _reset_when_closed(addresses)
        finally:
            for done in addresses.values():
                done.set()


def _reset_when_closed(addresses: Container[Address]) -> None:
    try:
        shown = descriptors()
    except OSError:  # no /proc: they are told as little as by other proxies
        return
    for descriptor in shown:
        if (address := peer_of(descriptor)) is not None and address in addresses:
            with suppress(OSError):  # closed since
                _reset_one(descriptor)


def _reset_one(descriptor: int) -> None:
    borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        borrowed.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    finally:
        borrowed.detach()  # its owner closes it
