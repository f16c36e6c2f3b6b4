"""Pools that register, move, restart, crash and leave beside the load, as those of a fleet do in a day."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from gdsvc.client import Heartbeat, Options
from gdsvc.model import PoolKey, PoolRegistration, pool_id
from tests.e2e.frontend.calling import until
from tests.e2e.frontend.soak.steady_pools import SteadyPool
from tests.e2e.process import Service

STEP_SECS: Final = 1.5  # between two changes
STEPS: Final = (
    "add",
    "move",
    "restart",
    "add",
    "move",
    "remove",
    "crash",
    "add",
    "restart",
    "remove",
    "move",
    "remove",
)
BASE: Final = 3  # pools that never leave, so that two are there while one restarts
SITE, NAMESPACE = "here", "soak"


class Member:
    """One pool, from `join` to `leave`, and to `close` in any case. `cut` sums up what its crashes cut off."""

    def __init__(self, name: str, model: str, discovery: Service, front: Service) -> None:
        self.name = name
        self.cut = 0
        self.pool = SteadyPool()
        self._model = model
        self._discovery = discovery
        self._front = front
        self._beat: Heartbeat | None = None

    async def join(self) -> None:
        """Serves and registers."""
        self.pool.listen()
        await self._register()

    async def close(self) -> None:
        """Leaves nothing behind, in whatever order."""
        await self._silence()
        await self.pool.kill()

    async def move(self) -> None:
        """Serves elsewhere; the old place leaves when nobody is sent there any more."""
        old, self.pool = self.pool, SteadyPool()
        await self._silence()
        self.pool.listen()
        await self._register()
        await old.leave()

    async def restart(self) -> None:
        """Is away for a moment, in good order."""
        await self.pool.leave()
        self.pool.listen()

    async def crash(self) -> None:
        """Is away for a moment; what it had in hand is lost."""
        before = self.pool.cut
        await self.pool.kill()
        self.cut += self.pool.cut - before
        self.pool.listen()

    async def leave(self) -> None:
        """Is taken out of the list, then leaves in good order."""
        await self._silence()
        assert await asyncio.to_thread(self._delete) == 204
        await self._until_shown(None)
        await self.pool.leave()

    def _delete(self) -> int:
        with self._discovery.connect() as connection:
            return connection.request("DELETE", f"/pools/{SITE}/{NAMESPACE}/{self.name}").status

    async def _register(self) -> None:
        registration = PoolRegistration(
            PoolKey(SITE, NAMESPACE, self.name), model=self._model, frontends=(self.pool.url,)
        )
        self._beat = Heartbeat(Options((f"http://127.0.0.1:{self._discovery.port}",)), registration)
        await self._beat.__aenter__()
        await self._until_shown(self.pool.url)

    async def _silence(self) -> None:
        if self._beat is not None:
            beat, self._beat = self._beat, None
            await beat.__aexit__(None, None, None)

    async def _until_shown(self, url: str | None) -> None:
        """Until the frontend routes to that place, or to none."""
        its_id = pool_id(PoolKey(SITE, NAMESPACE, self.name))

        async def shown() -> bool:
            pools = (await asyncio.to_thread(self._front.get, "/pools")).json()["pools"]
            places = [frontend["url"] for pool in pools if pool["id"] == its_id for frontend in pool["frontends"]]
            return bool(places == ([] if url is None else [url]))

        await until(shown)


class Fleet:
    """BASE pools for the model `m`, and one that nothing happens to for `long`; `change` the others."""

    def __init__(self, stack: AsyncExitStack, discovery: Service, front: Service) -> None:
        self._stack = stack
        self._discovery = discovery
        self._front = front
        self._choose = random.Random(7)
        self._names = (f"pool-{number}" for number in itertools.count())
        self._members = list[Member]()
        self._former = list[Member]()
        self.steps = 0

    async def begin(self) -> None:
        """The pools that are there from the beginning."""
        await self._join("long")
        self._members += [await self._join("m") for _ in range(BASE)]

    @property
    def cut(self) -> int:
        """Connections in use that crashes have ended."""
        return sum(member.cut for member in (*self._members, *self._former))

    async def change(self, seconds: float) -> None:
        """One change after the other, for so long."""
        loop = asyncio.get_running_loop()
        until_ = loop.time() + seconds
        for step in itertools.cycle(STEPS):
            if loop.time() + STEP_SECS > until_:
                await asyncio.sleep(until_ - loop.time())
                return
            await asyncio.sleep(STEP_SECS)
            await self._change(step)
            self.steps += 1

    async def _change(self, step: str) -> None:
        match step:
            case "add":
                self._members.append(await self._join("m"))
            case "remove":
                member = self._members.pop(self._choose.randrange(BASE, len(self._members)))
                self._former.append(member)
                await member.leave()
            case "move":
                await self._choose.choice(self._members).move()
            case "restart":
                await self._choose.choice(self._members).restart()
            case _:
                await self._choose.choice(self._members).crash()

    async def _join(self, model: str) -> Member:
        member = Member(next(self._names), model, self._discovery, self._front)
        self._stack.push_async_callback(member.close)
        await member.join()
        return member


@asynccontextmanager
async def fleet(discovery: Service, front: Service) -> AsyncIterator[Fleet]:
    """Nothing is left of it."""
    async with AsyncExitStack() as stack:
        made = Fleet(stack, discovery, front)
        await made.begin()
        yield made
