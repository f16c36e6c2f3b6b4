"""How a program that serves is told to stop, and stops: a signal, a notice to load balancers, the grace, then by force.

What it serves, and what else is to end before its server drains, is its own business.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from gdsvc import logs
from gdsvc.asgi.server import Server

NOTICE_SECS: Final = 2.0  # from failing /ready to closing the listener: two readiness probes of the manifest in deploy/
NOTICE_SHARE: Final = 0.25  # of the grace period, at most

log = logs.get("gdsvc")


class Stopping:
    """Stops a server within `grace_secs` of SIGTERM or SIGINT. `told()` is called once when such a signal comes.

    `last_words()` are fields for the log where it has to be killed in the end.
    """

    def __init__(
        self, grace_secs: float, told: Callable[[], None], last_words: Callable[[], Mapping[str, int]] = dict[str, int]
    ) -> None:
        self._grace_secs = grace_secs
        self._told = told
        self._last_words = last_words
        self._asked = asyncio.Event()
        self._notice_secs = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether the signal has come."""
        return self._asked.is_set()

    def listen(self) -> None:
        """Takes the signals from now on; a second one ends the process at once."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.ask, NOTICE_SECS)
        loop.add_signal_handler(signal.SIGINT, self.ask, 0.0)

    async def serve(self, server: Server) -> None:
        """Returns when the server was told to stop and has drained; raises what ended it where it ended by itself."""
        await self._until_asked(server)
        log.info("service.stopping", notice_secs=self._notice_secs, grace_secs=self._grace_secs)
        if not await server.drain(self._notice_secs, self._grace_secs):
            reason = "requests were still in hand when the grace period ended"
            log.warning("service.killed", reason=reason, **self._last_words())
            _exit_hard()

    def ask(self, notice_secs: float) -> None:
        """Stops, `notice_secs` after readiness has failed."""
        if self.is_asked:
            log.warning("service.killed", reason="told to stop a second time")
            _exit_hard()
        self._notice_secs = min(notice_secs, self._grace_secs * NOTICE_SHARE)
        self._asked.set()
        self._told()

    async def _until_asked(self, server: Server) -> None:
        told = asyncio.create_task(self._asked.wait())
        ended = asyncio.create_task(server.ended())
        try:
            await asyncio.wait({told, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await ended
        finally:
            told.cancel()
            ended.cancel()


def _exit_hard() -> NoReturn:
    sys.stderr.flush()
    os._exit(1)
