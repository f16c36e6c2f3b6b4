"""The discovery service is killed and comes back knowing nobody: the frontend loses no pool, and no caller anything."""

import asyncio
import random
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.fleet import Relay
from tests.e2e.frontend.calling import FRONTEND
from tests.e2e.frontend.soak.steady_load import Load
from tests.e2e.frontend.soak.steady_pools import SteadyPool
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.test_crowds import many_files
from tests.e2e.wire import registration

__all__ = ["many_files"]  # the fixture

POOLS: Final = 500
PLACES: Final = 3  # that the pools share
HEARTBEAT_SECS, LEASE_SECS = 2, 6
LEASE: Final = (f"--heartbeat-interval-secs={HEARTBEAT_SECS}", f"--lease-duration-secs={LEASE_SECS}")
AWAY_SECS: Final = 1.0
LOOK_SECS: Final = 0.2  # shorter than the heartbeat that would bring a dropped pool back

pytestmark = [
    pytest.mark.soak,
    pytest.mark.loops("asyncio"),
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("many_files"),
]


class Looking:
    """What GET /pools of the frontend says, again and again."""

    def __init__(self, front: Service) -> None:
        self._front = front
        self.fewest = POOLS
        self.complete = list[bool]()

    async def all_listed(self) -> bool:
        """Whether the list is complete, and all pools are in it."""
        view = (await asyncio.to_thread(self._front.get, "/pools")).json()
        self.fewest = min(self.fewest, len(view["pools"]))
        if self.complete[-1:] != [view["complete"]]:
            self.complete.append(view["complete"])
        return bool(view["complete"] and len(view["pools"]) == POOLS)

    async def run(self) -> None:
        while True:
            await self.all_listed()
            await asyncio.sleep(LOOK_SECS)


def port_of_its_own() -> int:
    """One that no connection gets by chance while nobody listens; relays that try again might connect to themselves."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(first // 2, first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


async def beat(port: int, number: int, places: list[SteadyPool]) -> None:
    """A relay that goes on through whatever happens."""
    relay = Relay(port, HEARTBEAT_SECS)
    try:
        await asyncio.sleep(number * HEARTBEAT_SECS / POOLS)
        place = places[number % PLACES].url
        await relay.beat(registration(f"pool-{number}", model="m", frontends=[place]), HEARTBEAT_SECS)
    finally:
        relay.close()


async def test_a_restart_of_the_discovery_service_costs_no_pool_and_no_answer(serve: Serve, tell: Tell) -> None:
    start = partial(serve, *LEASE, "--listen", f"127.0.0.1:{port_of_its_own()}")
    discovery = await asyncio.to_thread(start)
    front = await asyncio.to_thread(serve, f"--discovery-url=http://127.0.0.1:{discovery.port}", command=FRONTEND)
    places = [SteadyPool() for _ in range(PLACES)]
    try:
        for place in places:
            place.listen()
        async with asyncio.TaskGroup() as relays:
            beating = [relays.create_task(beat(discovery.port, number, places)) for number in range(POOLS)]
            await _restart_under_load(start, discovery, front, tell)
            for relay in beating:
                relay.cancel()
    finally:
        for place in places:
            await place.kill()


async def _restart_under_load(start: Callable[[], Service], discovery: Service, front: Service, tell: Tell) -> None:
    async with asyncio.timeout(10 * LEASE_SECS):
        while not await Looking(front).all_listed():  # noqa: ASYNC110 - of no event
            await asyncio.sleep(LOOK_SECS)
    looking = Looking(front)
    async with Load(front.port, steady=True) as load, asyncio.TaskGroup() as tasks:
        looks = tasks.create_task(looking.run())
        await asyncio.sleep(AWAY_SECS)
        discovery.send_signal(signal.SIGKILL)
        await asyncio.sleep(AWAY_SECS)
        await asyncio.to_thread(start)
        with suppress(TimeoutError):
            async with asyncio.timeout(3 * LEASE_SECS):
                while looking.complete != [True, False, True]:  # noqa: ASYNC110 - of no event
                    await asyncio.sleep(LOOK_SECS)
        await asyncio.sleep(HEARTBEAT_SECS)
        looks.cancel()
    tell(f"{load.sent} requests over a restart, {POOLS} pools: {dict(load.outcomes)}; at least {looking.fewest} pools")
    assert looking.complete == [True, False, True]
    assert looking.fewest == POOLS
    assert dict(load.outcomes) == {"whole": load.sent}
