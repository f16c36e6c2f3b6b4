"""Three replicas over one store, behind a balancer, of which one is killed and started again all the time.

What goes on is decided here; what must be listed meanwhile, judge.py says.
"""

import asyncio
import itertools
import math
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec

from tests.cluster.programs import free_ports
from tests.e2e.process import SERVE, Service
from tests.fleets.balancer import Balancer
from tests.fleets.judge import Asked, Judge, Limits, List, Pool, RoundTrips
from tests.fleets.relays import Relays

REPLICAS = 3
HEARTBEAT_SECS, LEASE_SECS = 1, 3
WATCHED_SECS, KILL_EVERY_SECS = 60.0, 5.0
CHANGES, CHANGE_EVERY_SECS = 10, 4.0  # then it is quiet: lists must become equal to the last byte
AWAY_TURNS = 2  # of changes, until every other pool of those that stopped comes back
LOOK_EVERY_SECS = 0.25
READING_POLLS = 2  # after so many polls a reading that has not ended has failed, and the replica's log says so
PATIENCE_SECS = 90.0  # until all replicas are up, and until all pools are gone
FLAGS = ("--heartbeat-interval-secs", str(HEARTBEAT_SECS), "--lease-duration-secs", str(LEASE_SECS))


class Store(NamedTuple):
    """Where the replicas keep the registrations of so many `pools`.

    `poll_secs`: how often they read it, or make sure that they see it all; `blind` and `seeing`: the events in their
    log that say that they cannot, and that they can again. While they cannot, no lease ends.
    """

    pools: int
    flags: Sequence[str]
    environ: Mapping[str, str]
    poll_secs: float
    blind: bytes
    seeing: bytes


class _Key(msgspec.Struct):
    dgd_name: str


class _Listed(msgspec.Struct):
    key: _Key
    model: str


class _Document(msgspec.Struct):
    complete: bool
    pools: list[_Listed]


_DECODER = msgspec.json.Decoder(_Document)


class Replica:
    """A service that is started anew at one port."""

    def __init__(self, folder: Path, store: Store, port: int) -> None:
        self._folder = folder
        self._store = store
        self.port = port
        self.services: list[Service] = []
        self._up_at = math.inf  # since when it has answered, and read the store
        self._failures = 0  # to read it
        self._last = (b"", _Document(False, []))

    def start(self) -> None:
        flags = ("--listen", f"127.0.0.1:{self.port}", *FLAGS, *self._store.flags)
        self.services.append(Service(self._folder, *flags, command=SERVE, environ=self._store.environ))
        self._up_at, self._failures = math.inf, 0

    def kill(self) -> None:
        self.services[-1].send_signal(signal.SIGKILL)
        self.services[-1].wait()

    def stop(self) -> None:
        """No life of it may have left a traceback."""
        self.services[-1].stop()
        faults = [fault for service in self.services for fault in service.faults()]
        assert not faults, faults

    def heard(self, asked: Asked, body: bytes) -> List:
        """What its list says."""
        if body != self._last[0]:
            self._last = body, _DECODER.decode(body)
        document = self._last[1]
        log = self.services[-1].log_path.read_bytes()
        blind, failures = log.rfind(self._store.blind) > log.rfind(self._store.seeing), log.count(self._store.blind)
        if blind or failures > self._failures or self._up_at == math.inf:
            self._up_at, self._failures = asked.got_at, failures
        models = {each.key.dgd_name: each.model for each in document.pools}
        return List(str(self.port), asked.sent_at - self._up_at, asked, document.complete, models, body)


class Fleet:
    """Replicas, the relays of the pools, and who judges the lists; `fleet` makes one."""

    def __init__(
        self,
        store: Store,
        replicas: Sequence[Replica],
        relays: Relays,
        session: aiohttp.ClientSession,
        trips: RoundTrips,
    ) -> None:
        limits = Limits(LEASE_SECS, 2 * store.poll_secs)
        self.replicas = replicas
        self.relays = relays
        self.pools = [Pool(f"{number:03}", "first") for number in range(store.pools)]
        self.judge = Judge(limits, self.pools)
        self._session = session
        self._trips = trips
        self._look_at = 0.0

    async def look(self) -> list[List]:
        """The lists of those that have one, judged; not before it is time for the next look."""
        await asyncio.sleep(max(0.0, self._look_at - time.monotonic()))  # the pace of the looks
        self._look_at = time.monotonic() + LOOK_EVERY_SECS
        lists = [each for each in await asyncio.gather(*map(self._list, self.replicas)) if each is not None]
        self.judge.hear(lists)
        return lists

    async def look_until(self, holds: Callable[[list[List]], bool], what: str) -> None:
        """Until it is so of the lists of all replicas."""
        until = time.monotonic() + PATIENCE_SECS
        while len(lists := await self.look()) < REPLICAS or not holds(lists):
            assert time.monotonic() < until, what

    async def look_for(self, secs: float) -> None:
        """Again and again."""
        until = time.monotonic() + secs
        while time.monotonic() < until:
            await self.look()

    async def kill_one_after_the_other(self) -> None:
        """Until it is cancelled."""
        for replica in itertools.cycle(self.replicas):
            replica.kill()
            replica.start()
            await asyncio.sleep(KILL_EVERY_SECS)  # the pace of the kills

    async def change(self) -> None:
        """Pools stop, some for ever and some to come back as another; others change, or are taken out."""
        third, half = len(self.pools) // 3, len(self.pools) // 2
        stopping, changing, leaving = self.pools[:third], self.pools[third:half], self.pools[half:][: 2 * CHANGES]
        away: list[list[Pool]] = []
        for turn in range(CHANGES):
            away.append(stopping[turn::CHANGES])
            await self.relays.stop(away[-1])
            if turn >= AWAY_TURNS:
                self.relays.start(away[turn - AWAY_TURNS][::2], "again")
            self.relays.change(changing[turn::CHANGES], "changed")
            await asyncio.gather(*map(self.relays.deregister, leaving[turn::CHANGES]))
            await asyncio.sleep(CHANGE_EVERY_SECS)  # the pace of the changes

    @property
    def told(self) -> str:
        """What was judged, and how heartbeats were answered."""
        spares = sorted(self.judge.spares)
        spare = f"of bounds {spares[len(spares) // 2]:.2f} s were spared at the median, {spares[-1]:.2f} s at most"
        return f"{dict(self.judge.counts)}; heartbeats: {dict(self.relays.statuses)}; {spare}"

    def lacking(self) -> dict[str, int]:
        """What was judged too seldom for the test to say anything, and how often it was."""
        counts, pools = self.judge.counts, len(self.pools)
        enough = {"ALIVE": 3 * pools, "STOPPED": pools, "DEREGISTERED": pools, "rounds in which all had settled": 1}
        for replica in self.replicas:
            enough |= {f"complete lists of {replica.port}": 20, f"grown lists of {replica.port}": 1}
        return {what: counts[what] for what in enough if counts[what] < enough[what]}

    async def _list(self, replica: Replica) -> List | None:
        service, sent_at = replica.services[-1], time.monotonic()
        try:
            async with self._session.get(f"http://127.0.0.1:{replica.port}/pools") as reply:
                body = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        now = time.monotonic()
        self._trips.took(now - sent_at, now)
        if reply.status != 200 or service is not replica.services[-1]:
            return None
        return replica.heard(Asked(sent_at, now, self._trips.spare_secs(now)), body)


@asynccontextmanager
async def fleet(folder: Path, store: Store) -> AsyncGenerator[Fleet]:
    """All replicas are up, all lists are complete, and all pools have begun to beat."""
    ports = free_ports(REPLICAS)
    replicas = [Replica(folder, store, port) for port in ports]
    trips = RoundTrips(3 * LEASE_SECS, READING_POLLS * store.poll_secs)
    async with AsyncExitStack() as stack:
        for replica in replicas:
            stack.callback(replica.stop)
            replica.start()
        balancer = stack.enter_context(Balancer(folder, ports))
        balancer.wait_until_it_answers()
        timeout = aiohttp.ClientTimeout(total=3.0)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        url = f"http://127.0.0.1:{balancer.port}"
        running = Relays.running(url, HEARTBEAT_SECS, LEASE_SECS, trips)
        relays = await stack.enter_async_context(running)
        made = Fleet(store, replicas, relays, session, trips)
        await made.look_until(lambda lists: True, "a replica does not come up")
        relays.start(made.pools, "first")
        await made.look_for(LEASE_SECS)
        await made.look_until(lambda lists: all(each.complete for each in lists), "a list does not become complete")
        yield made


async def endure(made: Fleet) -> None:
    """A minute of kills and changes; then every pool stops, and is gone from every replica."""
    async with asyncio.TaskGroup() as group:
        killing = group.create_task(made.kill_one_after_the_other())
        changing = group.create_task(made.change())
        await made.look_for(WATCHED_SECS)
        await changing
        killing.cancel()
    await made.relays.stop_all()
    await made.look_until(
        lambda lists: all(made.judge.settled(each) and not each.models for each in lists), "a pool that stopped stays"
    )
