"""One run, from the first registration to the last judgement: the only room that knows the order of things."""

import asyncio
import gc
import os
import resource
import secrets
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from bench.fleet.ledger import Ledger
from bench.fleet.line import Dialer, Line, Reply
from bench.fleet.observer import Observer, Samples
from bench.fleet.plan import Plan, Target
from bench.fleet.pools import body
from bench.fleet.population import RAMP_RATE, Population, request_of
from bench.fleet.relays import Relays
from bench.fleet.report import Result, Seen, progress, result_of
from bench.fleet.watchers import StuckWatcher, Watcher

TICK_SECS: Final = 0.002
SWEEP_SECS: Final = 1.0
GREETING_SECS: Final = 10.0
RAMP_SECS: Final = 30.0  # beyond what RAMP_RATE takes
FIRST_VIEW_SECS: Final = 30.0
SETTLE_SECS: Final = 5.0  # in which the last events arrive
LEAVING_SECS: Final = 30.0
COMPLETE_SECS: Final = 0.2  # between two questions whether the list is complete
RESERVED_FILES: Final = 200

Tell = Callable[[str], None]


class Unreachable(Exception):
    """There is no service, or something else listens there."""


class Lease(msgspec.Struct):
    """What a registration is granted."""

    heartbeat_interval_secs: float
    lease_duration_secs: float


class Clock:
    """Counts, tick by tick, for how long this process was kept from running."""

    def __init__(self) -> None:
        self.longest_lag = 0.0
        self._ticked_at: float | None = None

    def tick(self, now: float) -> float:
        """Seconds since the last tick."""
        passed = 0.0 if self._ticked_at is None else now - self._ticked_at
        self.longest_lag = max(self.longest_lag, passed - TICK_SECS)
        self._ticked_at = now
        return passed

    def start_anew(self) -> None:
        """Forgets the longest lag."""
        self.longest_lag = 0.0


class Run:
    """`await Run(plan, target, tell).result(stop)`: the figures. `stop` ends the measuring early."""

    def __init__(self, plan: Plan, target: Target, tell: Tell) -> None:
        self._plan = bounded(plan)
        self._target = target
        self._tell = tell
        self._random = Random(secrets.randbits(64))
        self._site = f"fleet-{secrets.token_hex(4)}"
        self._clock = Clock()
        self._acting = False

    async def result(self, stop: asyncio.Event) -> Result:
        """Runs the plan. Raises Unreachable."""
        async with Dialer(self._target) as dialer:
            lease = await self._greet(dialer)
            self._ledger = Ledger(self._site, lease.lease_duration_secs)
            interval_secs = self._plan.heartbeat_secs or lease.heartbeat_interval_secs
            self._relays = Relays(self._plan, self._ledger, interval_secs, self._random)
            self._population = Population(self._plan, self._ledger, self._relays, dialer, self._random)
            self._observer = Observer(dialer, self._ledger)
            self._watchers = [Watcher(dialer, self._ledger, self._random) for _ in range(self._plan.watchers)]
            stuck = [StuckWatcher() for _ in range(self._plan.stuck)]
            try:
                async with asyncio.TaskGroup() as tasks:
                    ticking = tasks.create_task(self._tick())
                    result = await self._stages(stuck, stop)
                    ticking.cancel()
            finally:
                for watcher in stuck:
                    watcher.close()
            return result

    async def _greet(self, dialer: Dialer) -> Lease:
        """Registers the first pool, to see who listens and what it grants."""
        line = Line(dialer)
        host = self._target.host_field
        reply = await asked(line, request_of(host, "POST", "/pools", body(self._site, 0, 1)))
        if reply.status == 0:
            raise Unreachable(f"nothing answers at {host}: {dialer.fault or 'no reply'}")
        try:
            lease = msgspec.json.decode(reply.body, type=Lease) if reply.status == 200 else None
        except msgspec.DecodeError:
            lease = None
        if lease is None:
            raise Unreachable(f"{host} is no discovery service: POST /pools was answered {reply.status}")
        return lease

    async def _stages(self, stuck: Sequence[StuckWatcher], stop: asyncio.Event) -> Result:
        plan = self._plan
        self._population.found(now())
        await self._until(
            lambda: self._population.known() == plan.pools,
            plan.pools / RAMP_RATE + RAMP_SECS,
            lambda: f"{self._population.known()} of {plan.pools} pools are registered",
        )
        await self._until_complete()
        for watcher in self._watchers:
            watcher.dial()
        for reader in stuck:
            await reader.connect(self._target.host, self._target.port, self._target.host_field)
        await self._until(
            lambda: all(watcher.has_begun or watcher.fault for watcher in self._watchers),
            FIRST_VIEW_SECS,
            lambda: f"{sum(w.has_begun for w in self._watchers)} of {plan.watchers} watchers have had a first view",
        )
        before = await self._observer.look()
        self._observer.greatest_bytes = 0.0
        measured = await self._measure(stop, before)
        await self._until(self._has_settled, SETTLE_SECS, lambda: "not all watchers have had the last events")
        answers = await self._observer.check_list()
        result = result_of(measured, self._ledger, self._watchers, answers=answers)
        self._population.leave()
        await self._until(lambda: not self._population.is_leaving(), LEAVING_SECS, lambda: "pools are still leaving")
        return result

    async def _until_complete(self) -> None:
        """Waits, for a lease at most, until lists show who is missing, and no resync for completeness is to come."""
        give_up_at = now() + self._ledger.lease_secs + 1
        while not await self._observer.is_complete():
            if now() > give_up_at:
                self._tell("the service says that its list is not complete; going on")
                return
            await asyncio.sleep(COMPLETE_SECS)

    async def _measure(self, stop: asyncio.Event, before: Samples) -> Seen:
        gc.collect()
        gc.freeze()  # the fleet stays: looking through it again and again would only delay beats
        started_at, cpu = now(), time.process_time()
        self._relays.start_anew()
        self._clock.start_anew()
        self._acting = True
        async with asyncio.TaskGroup() as tasks:
            looking = [
                tasks.create_task(self._observer.watch_metrics()),
                tasks.create_task(self._observer.watch_lists(self._ledger.lease_secs)),
            ]
            while not stop.is_set() and now() < started_at + self._plan.seconds:
                await asyncio.sleep(min(SWEEP_SECS, started_at + self._plan.seconds - now()))
                self._population.give_up(now() - self._relays.interval_secs)
                self._tell(progress(now() - started_at, self._relays, self._ledger, self._observer))
            self._acting = False
            for task in looking:
                task.cancel()
        seconds = now() - started_at
        return Seen(
            plan=self._plan,
            seconds=seconds,
            lease_secs=self._ledger.lease_secs,
            interval_secs=self._relays.interval_secs,
            relays=self._relays.counted(),
            population=self._population.counted(),
            before=before,
            after=await self._observer.look(),
            greatest_bytes=self._observer.greatest_bytes,
            lists=self._observer.lists,
            cpu_share=(time.process_time() - cpu) / seconds,
            longest_lag_secs=self._clock.longest_lag,
            load=os.getloadavg()[0],
        )

    def _has_settled(self) -> bool:
        tracks = [watcher.track for watcher in self._watchers if watcher.has_begun]
        return self._ledger.lost(tracks) == 0 and all(map(self._ledger.up_to_date, tracks))

    async def _tick(self) -> None:
        """Everything that relays and pools do of themselves."""
        while True:
            instant = now()
            passed = self._clock.tick(instant)
            if self._acting:
                self._population.advance(instant, passed)
            self._population.tick(instant)
            self._relays.beat_due(instant)
            await asyncio.sleep(TICK_SECS)

    async def _until(self, true: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
        """Returns when it is so; says what is not so after `seconds`, and goes on."""
        deadline = now() + seconds
        while not true():
            if now() > deadline:
                self._tell(f"after {seconds:.0f} s {why()}; going on")
                return
            await asyncio.sleep(0.05)


def now() -> float:
    """The clock of the whole generator: that of the running loop."""
    return asyncio.get_running_loop().time()


def bounded(plan: Plan) -> Plan:
    """The plan with no more connections than this process may have files, of which it gets as many as it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = max(1, hard - RESERVED_FILES - plan.watchers - plan.stuck)
    return msgspec.structs.replace(plan, connections=min(plan.connections, plan.pools * plan.relays, room))


async def asked(line: Line, request: bytes) -> Reply:
    """The answer to one request."""
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    line.ask(request, lambda reply: None if answer.done() else answer.set_result(reply))
    try:
        async with asyncio.timeout(GREETING_SECS):
            return await answer
    except TimeoutError:
        return Reply(0, b"", now(), now())
