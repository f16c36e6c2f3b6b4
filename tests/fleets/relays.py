"""Relays of many pools, each with a connection of its own to a balancer, and its own moment of the second."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

import aiohttp

from tests.fleets.judge import Pool, RoundTrips

AGAIN_SECS = 0.1  # after a heartbeat that was lost; after one that was refused, when the answer says
LOST = 0  # the status of what was not answered
PATIENCE_SECS = 6.0  # longer than the balancer's, which is longer than a replica takes for a write


class Relays:
    """`async with Relays.running(…) as relays`: heartbeats to `url`, every `every_secs` for each pool that was started.

    What became of them is told to the pools; `statuses` counts the answers.
    """

    def __init__(self, session: aiohttp.ClientSession, every_secs: float, lease_secs: float, trips: RoundTrips) -> None:
        self._session = session
        self._every_secs = every_secs
        self._lease_secs = lease_secs
        self._trips = trips
        self._models: dict[Pool, str] = {}
        self._stops: dict[Pool, asyncio.Event] = {}
        self._beats: dict[Pool, asyncio.Task[None]] = {}
        self.statuses: Counter[int] = Counter()

    @classmethod
    @asynccontextmanager
    async def running(cls, url: str, every_secs: float, lease_secs: float, trips: RoundTrips) -> AsyncGenerator[Self]:
        """Whatever beats at the end is stopped."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0)
        timeout = aiohttp.ClientTimeout(total=PATIENCE_SECS)
        async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
            relays = cls(session, every_secs, lease_secs, trips)
            try:
                yield relays
            finally:
                await relays.stop_all()

    def start(self, pools: Sequence[Pool], model: str) -> None:
        """Their heartbeats begin, spread over an interval."""
        for number, pool in enumerate(pools):
            self._models[pool] = model
            self._stops[pool] = asyncio.Event()
            first_secs = self._every_secs * number / len(pools)
            self._beats[pool] = asyncio.create_task(self._beat(pool, self._stops[pool], first_secs))

    def change(self, pools: Iterable[Pool], model: str) -> None:
        """From their next heartbeat on they register `model`."""
        for pool in pools:
            self._models[pool] = model

    async def stop(self, pools: Sequence[Pool]) -> None:
        """Returns once their last heartbeats have ended."""
        beats = [self._beats.pop(pool) for pool in pools]
        for pool in pools:
            self._stops[pool].set()
        await asyncio.gather(*beats)

    async def stop_all(self) -> None:
        """As `stop`, of whatever beats."""
        await self.stop(list(self._beats))

    async def deregister(self, pool: Pool) -> None:
        """Stops it and takes it out. Fails where it is alive for certain and told not to be there."""
        await self.stop([pool])
        alive_until = pool.alive_until(self._lease_secs)
        pool.deregistering()
        status, again_secs = await self._ask("DELETE", f"/pools/s/n/{pool.name}")
        while status in (LOST, 502, 503):
            alive_until = -math.inf  # an attempt whose answer is lost may have been carried out
            await asyncio.sleep(again_secs)  # as a relay that was refused waits
            status, again_secs = await self._ask("DELETE", f"/pools/s/n/{pool.name}")
        assert status == 204 or (status == 404 and time.monotonic() > alive_until), (pool.name, status)
        pool.deregistered(time.monotonic())

    async def _beat(self, pool: Pool, stop: asyncio.Event, first_secs: float) -> None:
        due_at = time.monotonic() + first_secs
        while not await _set_before(stop, due_at):
            model, sent_at = self._models[pool], time.monotonic()
            pool.sending(model)
            status, again_secs = await self._ask("POST", "/pools", _registration(pool.name, model))
            now = time.monotonic()
            self.statuses[status] += 1
            if status != LOST:
                self._trips.took(now - sent_at, now)
            if status == 200:
                pool.answered(sent_at, now, model, self._lease_secs)
            due_at = max(due_at + self._every_secs, now) if status == 200 else now + again_secs
        pool.stopped(time.monotonic())

    async def _ask(self, method: str, path: str, document: object = None) -> tuple[int, float]:
        """The answer's status, LOST where none came; and after how many seconds to come again."""
        try:
            async with self._session.request(method, path, json=document) as reply:
                await reply.read()
                return reply.status, float(reply.headers.get("Retry-After", AGAIN_SECS))
        except (aiohttp.ClientError, TimeoutError, OSError):
            return LOST, AGAIN_SECS


def _registration(name: str, model: str) -> object:
    return {"key": {"site_id": "s", "namespace": "n", "dgd_name": name}, "model": model}


async def _set_before(stop: asyncio.Event, due_at: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(due_at - time.monotonic()):
            await stop.wait()
    return stop.is_set()
