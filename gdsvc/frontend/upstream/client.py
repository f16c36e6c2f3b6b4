"""The client itself: owns every connection, closes what is idle for too long, and counts."""

import asyncio
import ssl
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from gdsvc._exchange import Sender
from gdsvc.frontend.upstream.dialling import Dialler
from gdsvc.frontend.upstream.failures import Cause, Closed
from gdsvc.frontend.upstream.limits import Limits
from gdsvc.frontend.upstream.names import Lookup, system_lookup
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.pool import Pool, Tally
from gdsvc.frontend.upstream.request import WRITER, Body, RequestHead
from gdsvc.frontend.upstream.sending import Sending

_DEFAULTS: Final = Limits()


class Counts(Struct, frozen=True):
    """`open` and `idle` are connections of now; the others count since the start."""

    open: int
    idle: int
    established: int
    reused: int
    failed: dict[Cause, int]


class Client(Sender[Sending, Pool, Origin, RequestHead, Body]):
    """Enter it on the loop that it serves. `tls` believes whom an https origin must be; None: the system's authorities.

    Nothing is followed, kept or changed: no redirects, no cookies, no decompression, no proxies of the environment.
    """

    def __init__(
        self, limits: Limits = _DEFAULTS, *, tls: ssl.SSLContext | None = None, lookup: Lookup = system_lookup
    ) -> None:
        super().__init__(WRITER, Sending, {})
        self._limits = limits
        self._dialler = Dialler(limits, tls, lookup)
        self._tally = Tally(Cause)
        self._sweep: asyncio.TimerHandle | None = None

    def counts(self) -> Counts:
        """For scrapes, not for requests: it looks at every origin."""
        tally = self._tally
        idle = sum(len(pool.idle) for pool in self.stocks.values())
        return Counts(len(tally.open), idle, tally.established, tally.reused, dict(tally.failed))

    async def __aenter__(self) -> Self:
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tally.is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._tally.open):
            connection.fail(Closed())
        while self._tally.open:  # noqa: ASYNC110 - each is gone in the next turn of the loop or the one after
            await asyncio.sleep(0)

    def stock_of(self, origin: Origin) -> Pool:
        """A new pool of connections, for an origin that has none."""
        pool = self.stocks[origin] = Pool(origin, self._limits, self._dialler, self._tally, self._forget)
        return pool

    def _forget(self, pool: Pool) -> None:
        if self.stocks.get(pool.origin) is pool:  # not the one that took its place
            del self.stocks[pool.origin]

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(self._limits.idle_secs / 2, self._expire)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for pool in tuple(self.stocks.values()):
            pool.expire(now)
        self._arm()
