"""Watchers that are cut off anywhere and come back, against what the server lists: they know the same, told once.

Feed and store run in process; clients see bytes, and judge by a slow client that believes all it is told. A history is
a list of random changes, from a seed; the machine at the end lets hypothesis choose.
"""

import asyncio
import json
import random
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gdsvc.asgi.types import Scope
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.http.lists import Lists
from gdsvc.http.pools import removal
from gdsvc.http.watch import Feed, Watchers
from gdsvc.model import Lease, PoolKey, PoolLocation, PoolRegistration
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.asgi_pipe import Pipe
from tests.event_stream import Parser, View

CHANGES = 10_000
MOST_TURNS = 100_000  # of the loop, until what was published is written
JOURNAL = 300  # short, so that it overflows often
TTL = 15
MODELS, REGIONS, SITES = ("m1", "m2", "m3", None), ("eu", "us", None), ("a", "b", "c")
NAMES = 40
FILTERS = (
    EVERYTHING,
    Filter(models=frozenset({"m1"})),
    Filter(regions=frozenset({"eu"}), models=frozenset({"m1", "m2"})),
    Filter(site_ids=frozenset({"a", "b"})),
    Filter(models=frozenset({"nobody has it"})),
)


class Server:
    """One process of the service, as far as watchers see it, on a clock of its own."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.time = 0.0
        self.clock = LeaseClock(TTL, lambda: self.time)
        self.store = MemoryPoolStore(Lease(5, TTL), self.clock, "2026-01-01T00:00:00.000Z")
        self.store._fanout = Fanout(capacity=JOURNAL, journal=JOURNAL)
        lists = Lists(self.store, "pools", secrets.token_hex(8), executor)
        self.watchers = Watchers(100)
        self.feed = Feed(self.store.changes, lists, removal, self.watchers)

    async def register(self, name: int, site: str, model: str | None, region: str | None) -> None:
        location = None if region is None else PoolLocation(region)
        await self.store.register(PoolRegistration(PoolKey(site, "n", f"{name}"), location, model))

    async def deregister(self, name: int, site: str) -> None:
        await self.store.deregister(PoolKey(site, "n", f"{name}"))

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.time += 0.1
            self.clock.tick()
        self.store.view()

    def listed(self, where: Filter) -> list[object]:
        self.store.view()
        items: list[object] = json.loads(self.store.encoded(where).join(b"[", b"]"))
        return items

    def _is_settled(self) -> bool:
        return self.feed._flush is None and all(
            watcher.writing_since is not None
            or (watcher.revision == self.store.changes.published and watcher.waiting and not watcher.waiting.done())
            for watcher in self.feed._watchers
        )

    async def settle(self) -> None:
        """Until every watcher has been written all there is, or its write is not taken."""
        settled = 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            settled = settled + 1 if self._is_settled() else 0
            if settled == 3:  # a write that is taken goes on a turn later
                return
        pytest.fail("the watchers do not come to rest")


class Client:
    """A watcher of one filter, over any number of streams."""

    def __init__(self, where: Filter) -> None:
        self.where = where
        self.view = View()
        self.last_id = ""
        self.pipe: Pipe | None = None
        self._parser = Parser()

    async def connect(self, server: Server, *, by_header: bool, clogged: bool = False) -> None:
        """Watches from where it was; the former stream, if any, must have been cut."""
        assert self.pipe is None
        named = self.last_id.encode()
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/pools/watch",
            "raw_path": b"/pools/watch",
            "query_string": b"" if by_header or not named else b"since=" + named,
            "headers": [(b"last-event-id", named)] if by_header and named else [],
            "client": ("127.0.0.1", "1"),
            "server": ("127.0.0.1", "2"),
        }
        self._parser = Parser()
        self.pipe = Pipe(server.feed.watch(scope, self.where), clogged=clogged)

    async def cut(self, at: float) -> None:
        """The connection breaks: of what was written last, only the share `at` arrives, to a byte."""
        pipe, self.pipe = self.pipe, None
        assert pipe is not None
        written = pipe.read()
        self._hear(written[: int(at * (len(written) + 1))])
        await pipe.leave()

    def read(self) -> None:
        assert self.pipe is not None
        self._hear(self.pipe.read())

    def _hear(self, received: bytes) -> None:
        for event in self._parser.feed(received):
            self.view.apply(event)
        self.last_id = self._parser.last_id or self.last_id

    def assert_knows(self, server: Server) -> None:
        assert self.view.list() == server.listed(self.where)
        assert self.view.complete is (server.store.view()[1].value == "exact")


class History:
    """Random changes of one server after another, and the clients that live through them."""

    def __init__(self, seed: int, executor: ThreadPoolExecutor) -> None:
        self.random = random.Random(seed)
        self.executor = executor
        self.server = Server(executor)
        self.clients = [Client(where) for where in FILTERS]
        self.restarts = 0

    async def change(self) -> None:
        """At least one revision, often exactly one."""
        choice = self.random
        before = self.server.store.view()[0]
        while self.server.store.view()[0] == before:
            name, site = choice.randrange(NAMES), choice.choice(SITES)
            if choice.random() < 0.8:
                await self.server.register(name, site, choice.choice(MODELS), choice.choice(REGIONS))
            else:
                await self.server.deregister(name, site)
            if choice.random() < 0.02:
                self.server.wait(choice.choice([0.1, 1.0, 5.0]))

    async def come_or_go(self, client: Client) -> None:
        """Cuts the client, or lets it come back, or blocks or unblocks it."""
        choice = self.random
        if client.pipe is None:
            await client.connect(self.server, by_header=choice.random() < 0.5, clogged=choice.random() < 0.1)
            return
        act = choice.random()
        if act < 0.6:
            await client.cut(choice.random())
        elif act < 0.7:
            client.pipe.clog()
        else:
            client.pipe.unclog()

    async def restart(self) -> None:
        """Another process: it has another epoch and knows nobody yet."""
        for client in self.clients:
            if client.pipe is not None:
                await client.cut(self.random.random())
        self.server = Server(self.executor)
        self.restarts += 1

    async def catch_up(self) -> None:
        """Lets every client read all there is, and compares what they know."""
        for client in self.clients:
            if client.pipe is not None and client.pipe.task.done():  # given up as too slow
                await client.cut(1.0)
            if client.pipe is None:
                await client.connect(self.server, by_header=True)
            assert client.pipe is not None
            client.pipe.unclog()
        await self.server.settle()
        for client in self.clients:
            client.read()
            client.assert_knows(self.server)

    async def end(self) -> None:
        for client in self.clients:
            if client.pipe is not None:
                await client.cut(1.0)
        assert self.server.watchers.count == 0
        assert self.server.watchers.closed["failed"] == 0


async def live_through(seed: int, changes: int) -> None:
    """Clients come and go, block and are cut, while the server changes and is started anew four times."""
    with ThreadPoolExecutor(1) as executor:
        history = History(seed, executor)
        for number in range(1, changes + 1):
            await history.change()
            await history.come_or_go(history.random.choice(history.clients))
            if history.random.random() < 0.5:
                await history.server.settle()
            if number % 50 == 0:
                await history.catch_up()
            if number % (changes // 5) == 0 and number < changes:
                await history.restart()
        await history.catch_up()
        assert history.restarts == 4
        await history.end()


@pytest.mark.parametrize("seed", [1, 2])
def test_watchers_that_are_cut_anywhere_in_a_history_end_with_the_servers_state(seed: int) -> None:
    asyncio.run(live_through(seed, CHANGES // 5))


@pytest.mark.load
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(10, 16))
def test_watchers_that_are_cut_anywhere_in_long_histories_end_with_the_servers_state(seed: int) -> None:
    asyncio.run(live_through(seed, CHANGES))


@pytest.mark.parametrize("changes", [CHANGES // 5, pytest.param(CHANGES, marks=pytest.mark.load)])
def test_a_watcher_cut_at_every_change_of_a_long_history_resumes_each_time_without_a_resync(changes: int) -> None:
    async def live() -> None:
        choice = random.Random(3)
        with ThreadPoolExecutor(1) as executor:
            history = History(3, executor)
            server, client = history.server, history.clients[choice.randrange(3)]
            server.wait(TTL + 1)  # complete from the start
            for number in range(changes):
                await client.connect(server, by_header=bool(number % 2))
                await history.change()
                await server.settle()
                await client.cut(choice.random() if number else 1.0)  # once it must arrive whole
            await client.connect(server, by_header=True)
            await server.settle()
            client.read()
            client.assert_knows(server)
            assert client.view.resyncs == 1
            assert server.watchers.resyncs == {"start": 1, "gone": 0, "completeness": 0, "behind": 0}
            assert server.feed.encodings <= server.store.changes.published
            await client.cut(1.0)

    asyncio.run(live())


class WatchMachine(RuleBasedStateMachine):
    """The same with few pools and a journal of few events, in the order that hypothesis finds worth trying."""

    def __init__(self) -> None:
        super().__init__()
        self.executor = ThreadPoolExecutor(1)
        self.runner = asyncio.Runner()
        self.server = self.fresh_server()
        self.clients = [Client(where) for where in FILTERS[:3]]

    def fresh_server(self) -> Server:
        async def build() -> Server:
            return Server(self.executor)

        return self.runner.run(build())

    def teardown(self) -> None:
        for client in self.clients:
            if client.pipe is not None:
                self.runner.run(client.cut(1.0))
        self.runner.close()
        self.executor.shutdown()

    @rule(name=st.integers(0, 2), model=st.sampled_from(MODELS[:2]), region=st.sampled_from(REGIONS[:2]))
    def register(self, name: int, model: str | None, region: str | None) -> None:
        self.runner.run(self.server.register(name, "a", model, region))

    @rule(name=st.integers(0, 2))
    def deregister(self, name: int) -> None:
        self.runner.run(self.server.deregister(name, "a"))

    @rule(seconds=st.sampled_from([1.0, 7.5, 15.0]))
    def time_passes(self, seconds: float) -> None:
        async def wait() -> None:
            self.server.wait(seconds)

        self.runner.run(wait())

    @rule(count=st.sampled_from([JOURNAL - 2, JOURNAL + 2]))
    def much_happens_at_once(self, count: int) -> None:
        async def burst() -> None:
            for number in range(count):
                await self.server.register(3 + number % 2, "a", f"m{number}", "eu")

        self.runner.run(burst())

    @rule(which=st.integers(0, 2), by_header=st.booleans(), clogged=st.booleans())
    def connect(self, which: int, by_header: bool, clogged: bool) -> None:
        if self.clients[which].pipe is None:
            self.runner.run(self.clients[which].connect(self.server, by_header=by_header, clogged=clogged))

    @rule(which=st.integers(0, 2), at=st.floats(0, 1))
    def cut(self, which: int, at: float) -> None:
        if self.clients[which].pipe is not None:
            self.runner.run(self.clients[which].cut(at))

    @rule(which=st.integers(0, 2), clogged=st.booleans())
    def block_or_unblock(self, which: int, clogged: bool) -> None:
        async def turn() -> None:
            pipe = self.clients[which].pipe
            if pipe is not None:
                (pipe.clog if clogged else pipe.unclog)()

        self.runner.run(turn())

    @rule()
    def restart(self) -> None:
        for client in self.clients:
            if client.pipe is not None:
                self.runner.run(client.cut(1.0))
        self.server = self.fresh_server()

    @rule()
    def settle(self) -> None:
        self.runner.run(self.server.settle())

    @invariant()
    def each_revision_has_one_event(self) -> None:
        assert self.server.store.index.revision == self.server.store.changes.published

    @invariant()
    def who_is_written_to_knows_what_is_listed(self) -> None:
        self.runner.run(self.server.settle())
        for client in self.clients:
            if client.pipe is not None and not client.pipe.clogged and not client.pipe.task.done():
                client.read()
                client.assert_knows(self.server)


WatchMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestWatch = WatchMachine.TestCase
