"""The client against the real service through a bad network: no pool lost, no pool invented, nothing left behind."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
import uvloop

from gdsvc.client import (
    DiscoveryApi,
    Heartbeat,
    HeartbeatState,
    HeartbeatStatus,
    Options,
    RemotePoolDirectory,
    RemoteReplicaDirectory,
)
from gdsvc.client.heartbeat import encode, member_path
from gdsvc.client.kinds import POOLS
from gdsvc.model import PoolKey, PoolListing, PoolLocation, PoolRegistration, RouterReplica, listing_of
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.watch import Event, Removed, Resync, Upserted
from tests.e2e.faulty_proxy import FaultyProxy
from tests.e2e.process import Serve, Service, Tell

SETTLE_SECS = 30.0  # for the last reconnect: the service names pauses of up to 5.5 s, backing off takes up to 15
STEADY, BEATING, COMING_AND_GOING = 20, 5, 30
CHANGE_SECS = 0.02


def pool(name: str, model: str = "m") -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), PoolLocation("eu"), model, ("http://10.0.0.1:8000",))


class Truth:
    """What the test has registered, straight with the service: what is there now, and all that ever was."""

    def __init__(self, api: DiscoveryApi) -> None:
        self.now: dict[PoolKey, PoolListing] = {}
        self.ever: set[PoolListing] = set()
        self.final = False  # ends keep_changing between two changes: one that is cut off may have been made or not
        self._api = api

    async def register(self, registration: PoolRegistration) -> None:
        listing = listing_of(registration)
        self.ever.add(listing)
        answer = await self._api.request("POST", "/pools", body=encode(registration))
        assert answer.status == 200, answer
        self.now[listing.key] = listing

    async def deregister(self, registration: PoolRegistration) -> None:
        answer = await self._api.request("DELETE", member_path(registration))
        assert answer.status in (204, 404), answer
        self.now.pop(registration.key, None)

    async def listed(self) -> list[PoolListing]:
        """What the service says, asked straight."""
        _, items = POOLS.decode_list((await self._api.request("GET", "/pools")).body)
        return items

    async def keep_changing(self, random: Random) -> None:
        for number in range(COMING_AND_GOING):
            await self.register(pool(f"moving-{number:02}"))
        while not self.final:
            await asyncio.sleep(CHANGE_SECS)
            name = f"moving-{random.randrange(COMING_AND_GOING):02}"
            if random.random() < 0.3:
                await self.deregister(pool(name))
            else:
                await self.register(pool(name, f"m{random.randrange(1_000_000)}"))


class Follower:
    """A consumer that does what the events say, and judges each of them."""

    def __init__(self, truth: Truth, kept: Callable[[PoolListing], bool] = lambda _listing: True) -> None:
        self.known: dict[PoolKey, PoolListing] = {}
        self.events = 0
        self.faults: list[str] = []
        self._truth = truth
        self._kept = kept

    async def follow(self, watch: AsyncIterator[Event[PoolListing, PoolKey]]) -> None:
        async for event in watch:
            self.events += 1
            before = set(self.known)
            match event:
                case Resync(snapshot):
                    self.known = {listing.key: listing for listing in snapshot.items}
                case Upserted(listing):
                    self.known[listing.key] = listing
                case Removed(key):
                    self.known.pop(key)  # raises for one that was not there
            self._judge(before)

    def _judge(self, before: set[PoolKey]) -> None:
        lost = {key.dgd_name for key in before - set(self.known)}
        self.faults += [f"lost {name}" for name in lost if not name.startswith("moving")]
        self.faults += [
            f"invented {one}" for one in self.known.values() if one not in self._truth.ever or not self._kept(one)
        ]


Listing = Callable[[], Coroutine[None, None, list[Any]]]


async def same(seen: Listing, expected: Listing) -> None:
    """Waits until both give the same members."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECS
    while (one := await seen()) != (other := await expected()):
        assert loop.time() < deadline, {getattr(member, "key", member) for member in {*one} ^ {*other}}
        await asyncio.sleep(0.05)


async def survive(service: Service, seed: int, secs: float, longest_secs: float) -> str:
    """Runs for `secs` through a bad network, then lets it heal; what was done to it."""
    straight = Options((f"http://127.0.0.1:{service.port}",))
    statuses: list[HeartbeatStatus] = []
    async with AsyncExitStack() as stack:
        truth = Truth(await stack.enter_async_context(DiscoveryApi(straight)))
        proxy = await stack.enter_async_context(FaultyProxy(service.port, seed, longest_secs=longest_secs))
        through = Options((f"http://127.0.0.1:{proxy.port}",), request_timeout_secs=2 * longest_secs)
        beating = [pool(f"beating-{number}") for number in range(BEATING)]
        steady = [pool(f"steady-{number}") for number in range(STEADY)]
        truth.ever |= {listing_of(one) for one in beating}
        for one in steady:
            await truth.register(one)
            await stack.enter_async_context(Heartbeat(straight, one))
        for one in beating:
            await stack.enter_async_context(
                Heartbeat(through, one, on_state=lambda state: statuses.append(status_of(state)))
            )
            truth.now[one.key] = listing_of(one)
        await stack.enter_async_context(Heartbeat(through, RouterReplica("r", "http://10.0.0.2:80")))
        directory = await stack.enter_async_context(RemotePoolDirectory(through, silence_secs=2 * longest_secs))
        where = Filter(models=frozenset({"m"}))
        filtered = await stack.enter_async_context(RemotePoolDirectory(through, where, silence_secs=2 * longest_secs))
        routers = await stack.enter_async_context(RemoteReplicaDirectory(through, silence_secs=2 * longest_secs))
        consumers = [Follower(truth), Follower(truth, lambda listing: listing.model == "m")]
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        following = [
            tasks.create_task(consumer.follow(one.list_and_watch()))
            for consumer, one in zip(consumers, (directory, filtered), strict=True)
        ]
        changing = tasks.create_task(truth.keep_changing(Random(seed)))
        await asyncio.sleep(secs)
        truth.final = True
        await changing
        proxy.behave()
        await same(truth.listed, lambda: _now(truth))  # soon, or the moving ones expire: a beating one may come late

        async def held(at: int) -> list[PoolListing]:
            return [listing for _, listing in sorted(consumers[at].known.items())]

        async def expected_m() -> list[PoolListing]:
            return [listing for listing in await truth.listed() if listing.model == "m"]

        await same(lambda: held(0), truth.listed)
        await same(lambda: held(1), expected_m)
        assert list((await directory.list()).items) == await truth.listed()

        async def routers_seen() -> list[RouterReplica]:
            return list((await routers.list()).items)

        async def routers_expected() -> list[RouterReplica]:
            return [RouterReplica("r", "http://10.0.0.2:80")]

        await same(routers_seen, routers_expected)  # the first beat may come late, too
        for task in following:
            task.cancel()
    assert [fault for consumer in consumers for fault in consumer.faults] == []
    assert HeartbeatStatus.LAPSED not in statuses
    assert HeartbeatStatus.REGISTERED in statuses
    events = [consumer.events for consumer in consumers]
    return f"{secs:g} s of {proxy.faults}; {events} events, {statuses.count(HeartbeatStatus.RETRYING)} beats missed"


async def _now(truth: Truth) -> list[PoolListing]:
    return [listing for _, listing in sorted(truth.now.items())]


def status_of(state: HeartbeatState) -> HeartbeatStatus:
    return state.status


def run(service: Service, seed: int, secs: float, longest_secs: float) -> str:
    """On a loop of its own; fails where a task, or something unclosed, is left."""

    async def alone() -> str:
        told = await survive(service, seed, secs, longest_secs)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return told

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if seed % 2 else asyncio.new_event_loop) as runner:
        told = runner.run(alone())
    gc.collect()  # what is unclosed complains when it goes, and complaints fail the test
    return told


@pytest.mark.slow
@pytest.mark.load
def test_a_bad_network_loses_no_pool_and_invents_none(serve: Serve, tell: Tell) -> None:
    tell(run(serve(), seed=1, secs=3.0, longest_secs=0.7))


@pytest.mark.load
@pytest.mark.timeout(200)
@pytest.mark.parametrize("seed", [2, 3])
def test_a_minute_of_bad_network_loses_no_pool_and_invents_none(serve: Serve, tell: Tell, seed: int) -> None:
    tell(run(serve(), seed=seed, secs=60.0, longest_secs=2.0))
