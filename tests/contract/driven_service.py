"""A program, not a test: discovery services on a clock that stands still until it is told to go on.

Reads commands, a line each, and answers each with a line: `open` starts a service of `gdsvc serve`'s own making on a
free port and answers with it; `pass SECS` lets lease time pass; `close` stops the service, as SIGINT would. One
service at a time; a process is good for any number of them, which saves a test the start of an interpreter.
"""

import asyncio
import sys

import uvloop

from gdsvc import logs
from gdsvc.cli import Service
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.settings import parse_serve

LEASE_SECS = 15  # the default
STEP_SECS = 0.0625  # a step that is no stall to the lease clock, and a sum of which is exact
POLL_SECS = 0.001


class Driven:
    """One service and its time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._service = Service(parse_serve(["--listen", "127.0.0.1:0", "--shutdown-grace-secs", "1"], {}))
        LeaseClock.__init__(self._service._clock, LEASE_SECS, lambda: self._now)
        self._running = asyncio.ensure_future(self._service.run())

    async def port(self) -> int:
        while not self._service._port:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(POLL_SECS)
        return self._service._port

    async def pass_time(self, secs: float) -> None:
        until = self._now + secs
        while self._now < until:
            self._now = min(until, self._now + STEP_SECS)
            self._service._clock.tick()
            for advancing in self._service._discovery.advancing:
                advancing.advance()

    async def close(self) -> None:
        self._service._stopping.ask(0.0)
        await self._running


async def main() -> None:
    logs.configure("error", "json")
    driven: Driven | None = None
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        match line:
            case ["open"]:
                driven = Driven()
                answer = str(await driven.port())
            case ["pass", secs] if driven:
                await driven.pass_time(float(secs))
                answer = "passed"
            case ["close"] if driven:
                await driven.close()
                answer = "closed"
            case _:
                answer = "no such command"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
