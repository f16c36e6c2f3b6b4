"""How a connection comes to be: name, TCP, TLS, within one time for all of it; one address after the other."""

import asyncio
import errno
import os
import ssl
from collections.abc import Callable
from typing import Final

from gdsvc.frontend.upstream.connection import Connection
from gdsvc.frontend.upstream.failures import Cause, UpstreamFailed
from gdsvc.frontend.upstream.limits import Limits
from gdsvc.frontend.upstream.names import Address, Lookup, Names
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.tls import Tls, tls_context

Make = Callable[[], Connection]

_ATTEMPTS_SHARE: Final = 0.95  # of the time for all, so that the last attempt still ends by its own
_OURS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))  # no fault of the upstream


class Dialler:
    """Establishes connections."""

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None, lookup: Lookup) -> None:
        self._limits = limits
        self._tls = tls
        self._names = Names(limits.resolve_secs, lookup)

    async def dial(self, origin: Origin, make: Make) -> Connection:
        """A connection to `origin`, TLS included. Raises UpstreamFailed."""
        try:
            async with asyncio.timeout(self._limits.connect_secs):
                return await self._dial_any(origin, make)
        except TimeoutError:
            detail = f"no connection within {self._limits.connect_secs:g} s"
            raise UpstreamFailed(Cause.NOT_ESTABLISHED, origin, detail) from None
        except OSError as error:
            cause = Cause.NO_ROOM if error.errno in _OURS else Cause.NOT_ESTABLISHED
            raise UpstreamFailed(cause, origin, _detail(error)) from None

    async def _dial_any(self, origin: Origin, make: Make) -> Connection:
        if origin.is_secure and self._tls is None:
            self._tls = await asyncio.to_thread(tls_context)
        addresses = await self._names.find(origin.host, origin.port)
        order = addresses.order()
        until = asyncio.get_running_loop().time() + self._limits.connect_secs * _ATTEMPTS_SHARE
        fault = OSError("it has no address")
        for position, address in enumerate(order):
            try:
                async with asyncio.timeout(_share(until, len(order) - position)):
                    connection = await self._dial_one(origin, address, make)
            except OSError as error:  # a timeout is one too
                addresses.failed(address)
                fault = error
            else:
                addresses.works(address)
                return connection
        raise fault

    async def _dial_one(self, origin: Origin, address: Address, make: Make) -> Connection:
        connection = await _connected(address, make)
        if origin.is_secure and self._tls is not None:
            try:
                await connection.secure(Tls(self._tls, origin.host))
            except BaseException:
                connection.abort()
                raise
        if not connection.is_usable:
            raise ConnectionResetError(errno.ECONNRESET, "closed before a request")
        return connection


async def _connected(address: Address, make: Make) -> Connection:
    """The event loop makes the socket: one that we made would have two owners where the connection ends in between."""
    loop = asyncio.get_running_loop()
    host, port = address.sockaddr[:2]
    scope = address.sockaddr[3] if len(address.sockaddr) > 3 else 0
    _, connection = await loop.create_connection(make, f"{host}%{scope}" if scope else host, port)
    return connection


def _share(until: float, attempts: int) -> float:
    """Of the time that is left, what one of so many attempts may take."""
    return max(0.0, until - asyncio.get_running_loop().time()) / attempts


def _detail(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS cannot be established: {error.reason or 'the peer broke off'}"
    return os.strerror(error.errno) if error.errno else str(error)
