"""Watchers over a real store: what each is written first and next, and when it is let in, kept alive and given up.

Time is the event loop's, which the tests move by hand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gdsvc import metrics
from gdsvc.asgi.types import Scope
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.errors import LimitReached, Unavailable
from gdsvc.http import watch as module
from gdsvc.http.lists import Lists
from gdsvc.http.pools import removal
from gdsvc.http.watch import (
    KEEP_ALIVE_SECS,
    LAST_WRITE_SECS,
    LEAST_RETRY_MS,
    PART_BYTES,
    RETRY_MS_A_WATCHER,
    RETRY_SPREAD_MS,
    STUCK_SECS,
    TICK_SECS,
    Feed,
    Watchers,
    readings,
)
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.asgi_pipe import Pipe
from tests.event_stream import Event, Parser

EPOCH = "0123456789abcdef"
JOURNAL = 50
NOBODY = Filter(models=frozenset({"nobody has it"}))


class MovableLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Client:
    """One stream, and what was read of it."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.parser = Parser()

    def read(self) -> list[Event]:
        return self.parser.feed(self.pipe.read())


class Stand:
    """A feed over a store with a lease of 15 s, whose time stands still unless it is passed."""

    def __init__(self, executor: ThreadPoolExecutor, limit: int = 10) -> None:
        self.time = 0.0
        self.store = MemoryPoolStore(Lease(5, 15), LeaseClock(15, lambda: self.time), "2026-01-01T00:00:00.000Z")
        self.store._fanout = Fanout(capacity=JOURNAL, journal=JOURNAL)
        self.watchers = Watchers(limit)
        self.feed = Feed(self.store.changes, Lists(self.store, "pools", EPOCH, executor), removal, self.watchers)

    def connect(
        self, where: Filter = EVERYTHING, *, since: str | None = None, last: str | None = None, clogged: bool = False
    ) -> Client:
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/pools/watch",
            "raw_path": b"/pools/watch",
            "query_string": b"" if since is None else b"since=" + since.encode(),
            "headers": [] if last is None else [(b"last-event-id", last.encode())],
            "client": ("127.0.0.1", "1"),
            "server": ("127.0.0.1", "2"),
        }
        return Client(Pipe(self.feed.watch(scope, where), clogged=clogged))

    async def register(self, name: str, model: str | None = None, size: int = 0) -> None:
        capabilities = ("x" * size,) if size else ()
        await self.store.register(PoolRegistration(PoolKey("s", "n", name), None, model, capabilities=capabilities))

    async def settle(self) -> None:
        """Until all that is due has been done; what a list of more than 64 KB needs a thread for, too."""
        turns = 0
        while turns < 5:
            await asyncio.sleep(0 if self.feed._flush is None else 0.0005)
            turns = turns + 1 if self.feed._flush is None and all(map(_rests, self.feed._watchers)) else 0

    async def pass_time(self, seconds: float) -> None:
        """Puts the loop forward, tick by tick."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        while seconds > 0:
            loop.ahead += min(seconds, TICK_SECS)
            seconds -= TICK_SECS
            await asyncio.sleep(0)
            await self.settle()

    async def leave(self, *clients: Client) -> None:
        for client in clients:
            await client.pipe.leave()


def _rests(watcher: Any) -> bool:
    return watcher.writing_since is not None or (watcher.waiting is not None and not watcher.waiting.done())


Run = Callable[[Callable[[Stand], Awaitable[None]]], None]


@pytest.fixture
def run() -> Iterator[Run]:
    """`run(test)` awaits `test(stand)` on a loop that can be moved."""
    with ThreadPoolExecutor(1) as executor, asyncio.Runner(loop_factory=MovableLoop) as runner:

        async def whole(test: Callable[[Stand], Awaitable[None]]) -> None:
            await test(Stand(executor))

        yield lambda test: runner.run(whole(test))


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


# ------------------------------------------------------------------------------------------------------ starting


def test_a_watch_starts_with_the_list_and_goes_on_with_changes(run: Run) -> None:
    async def test(stand: Stand) -> None:
        await stand.register("a")
        client = stand.connect()
        await stand.settle()
        (resync,) = client.read()
        assert (resync.name, resync.id) == ("resync", f"{EPOCH}-1")
        assert [pool["key"]["dgd_name"] for pool in resync.json()["pools"]] == ["a"]
        await stand.register("b")
        await stand.store.deregister(PoolKey("s", "n", "a"))
        await stand.settle()
        assert [(event.name, event.id) for event in client.read()] == [
            ("upserted", f"{EPOCH}-2"),
            ("removed", f"{EPOCH}-3"),
        ]
        await stand.leave(client)

    run(test)


@pytest.mark.parametrize("by_header", [True, False])
def test_who_names_the_last_id_gets_what_it_missed_and_nothing_else(run: Run, by_header: bool) -> None:
    async def test(stand: Stand) -> None:
        for name in "abc":
            await stand.register(name)
        named = f"{EPOCH}-1"
        client = stand.connect(last=named) if by_header else stand.connect(since=named)
        await stand.settle()
        assert [event.id for event in client.read()] == [f"{EPOCH}-2", f"{EPOCH}-3"]
        assert client.parser.retry_ms is not None
        await stand.leave(client)
        assert stand.watchers.resyncs.total() == 0

    run(test)


def test_the_header_counts_before_the_query(run: Run) -> None:
    async def test(stand: Stand) -> None:
        for name in "abc":
            await stand.register(name)
        client = stand.connect(last=f"{EPOCH}-2", since=f"{EPOCH}-0")
        await stand.settle()
        assert [event.id for event in client.read()] == [f"{EPOCH}-3"]
        await stand.leave(client)

    run(test)


@pytest.mark.parametrize("where", [EVERYTHING, NOBODY])
def test_who_missed_nothing_gets_a_comment_and_its_id_at_once(run: Run, where: Filter) -> None:
    async def test(stand: Stand) -> None:
        first = stand.connect(where)
        await stand.settle()
        first.read()
        await stand.leave(first)
        if where is NOBODY:
            await stand.register("a")
        client = stand.connect(where, last=first.parser.last_id)
        await stand.settle()
        assert client.read() == []
        assert len(client.parser.comments) == 1
        assert client.parser.last_id.startswith(f"{EPOCH}-{stand.store.changes.published}")
        await stand.leave(client)

    run(test)


@pytest.mark.parametrize(
    "since",
    [
        "garbage",
        "%00",
        "9" * 5000,
        f"{EPOCH}-4",
        f"{EPOCH}-999999999999999999",
        "f" * 16 + "-1",
        f"{EPOCH}-1-{'0' * 16}",
    ],
)
def test_an_id_that_is_none_or_of_elsewhere_gets_the_list(run: Run, since: str) -> None:
    async def test(stand: Stand) -> None:
        for name in "abc":
            await stand.register(name)
        client = stand.connect(since=since)
        await stand.settle()
        assert names(client.read()) == ["resync"]
        assert stand.watchers.resyncs["gone"] == 1
        await stand.leave(client)

    run(test)


@pytest.mark.parametrize(("missed", "resyncs"), [(JOURNAL, 0), (JOURNAL + 1, 1)])
def test_what_was_missed_is_there_as_long_as_the_journal_holds_it(run: Run, missed: int, resyncs: int) -> None:
    async def test(stand: Stand) -> None:
        await stand.register("first")
        for number in range(missed):
            await stand.register(f"{number}")
        client = stand.connect(since=f"{EPOCH}-1")
        await stand.settle()
        events = client.read()
        assert names(events).count("resync") == resyncs
        assert len(events) == (1 if resyncs else missed)
        await stand.leave(client)

    run(test)


def test_a_gap_with_a_change_of_completeness_gets_the_list(run: Run) -> None:
    async def test(stand: Stand) -> None:
        await stand.register("a")
        stand.time = 16.0
        stand.store._clock.tick()
        for _ in range(200):
            stand.time += 0.1
            stand.store._clock.tick()
        client = stand.connect(since=f"{EPOCH}-1")
        await stand.settle()
        (resync,) = client.read()
        assert resync.json()["complete"] is True
        await stand.leave(client)

    run(test)


def test_becoming_complete_is_a_resync_to_all(run: Run) -> None:
    async def test(stand: Stand) -> None:
        clients = [stand.connect(), stand.connect(NOBODY)]
        await stand.settle()
        assert [client.read()[0].json()["complete"] for client in clients] == [False, False]
        for _ in range(151):
            stand.time += 0.1
            stand.store._clock.tick()
        stand.store.advance()
        await stand.settle()
        for client in clients:
            assert [(event.name, event.json()["complete"]) for event in client.read()] == [("resync", True)]
        assert stand.watchers.resyncs == {"start": 2, "gone": 0, "completeness": 2, "behind": 0}
        await stand.leave(*clients)

    run(test)


def test_a_large_list_is_written_in_parts_and_arrives_whole(run: Run) -> None:
    async def test(stand: Stand) -> None:
        for name in "abcdef":
            await stand.register(name, size=PART_BYTES - 200)
        client = stand.connect()
        await stand.settle()
        assert max(map(len, client.pipe.parts)) < 2 * PART_BYTES
        (resync,) = client.read()
        assert len(resync.json()["pools"]) == 6
        await stand.register("g", size=5 * PART_BYTES)
        await stand.settle()
        assert max(map(len, client.pipe.parts)) < 2 * PART_BYTES
        assert len(client.read()[0].json()["capabilities"][0]) == 5 * PART_BYTES
        await stand.leave(client)

    run(test)


# -------------------------------------------------------------------------------------------------------- places


def test_one_watcher_more_than_the_limit_is_refused_until_one_has_left(run: Run) -> None:
    async def test(stand: Stand) -> None:
        clients = [stand.connect() for _ in range(10)]
        with pytest.raises(LimitReached, match="at most 10 watchers") as caught:
            stand.connect()
        assert caught.value.retry_after_secs > 0
        await stand.settle()
        await stand.leave(clients.pop())
        clients.append(stand.connect())
        await stand.settle()
        await stand.leave(*clients)
        assert stand.watchers.count == 0
        assert stand.watchers.closed["left"] == 11
        assert stand.feed._tick is None

    run(test)


def test_watchers_of_equal_filters_share_one_so_that_large_ones_are_not_compared_at_each_change(run: Run) -> None:
    async def test(stand: Stand) -> None:
        filters = [Filter(models=frozenset(f"m{number}" for number in range(1000))) for _ in range(3)]
        clients = [stand.connect(where) for where in (*filters, EVERYTHING, NOBODY, Filter())]
        assert len({id(watcher.where) for watcher in stand.feed._watchers}) == 3
        await stand.settle()
        await stand.leave(*clients)

    run(test)


def test_who_asks_with_head_takes_no_place_and_is_no_failure(run: Run) -> None:
    async def test(stand: Stand) -> None:
        stream = stand.connect().pipe  # an ordinary one beside it
        scope: Any = {"query_string": b"", "headers": []}
        head = Pipe(stand.feed.watch(scope, EVERYTHING), head=True)
        await head.task
        assert (head.parts, head.ended, stand.watchers.count) == ([b""], True, 1)
        assert stand.watchers.closed == {"left": 1, "slow": 0, "stuck": 0, "stopping": 0, "failed": 0}
        await stream.leave()

    run(test)


def test_a_fault_is_counted_and_gives_the_place_back(run: Run) -> None:
    async def test(stand: Stand) -> None:
        async def send(message: object) -> None:
            raise OSError("gone")

        async def receive() -> object:
            return await asyncio.get_running_loop().create_future()

        scope: Any = {"query_string": b"", "headers": []}
        with pytest.raises(OSError, match="gone"):
            await stand.feed.watch(scope, EVERYTHING).run(receive, send)  # type: ignore[arg-type]
        assert (stand.watchers.count, stand.watchers.closed["failed"]) == (0, 1)

    run(test)


def test_retries_are_spread_and_wider_where_there_are_many() -> None:
    watchers = Watchers(10_000)
    few = [watchers.retry_ms() for _ in range(1000)]
    assert LEAST_RETRY_MS <= min(few) < max(few) < LEAST_RETRY_MS + RETRY_SPREAD_MS
    assert len(set(few)) > 700
    watchers.count = 10_000
    many = [watchers.retry_ms() for _ in range(1000)]
    assert max(many) > LEAST_RETRY_MS + 10_000 * RETRY_MS_A_WATCHER * 0.9


# -------------------------------------------------------------------------------------------------- signs of life


@pytest.mark.parametrize("where", [EVERYTHING, NOBODY])
def test_a_silent_stream_says_its_id_before_fifteen_seconds_are_over(run: Run, where: Filter) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect(where)
        await stand.settle()
        client.read()
        for _ in range(3):
            ticks = 0
            while not (said := client.pipe.read()):
                await stand.pass_time(TICK_SECS)
                ticks += 1
            assert KEEP_ALIVE_SECS - TICK_SECS <= ticks * TICK_SECS <= KEEP_ALIVE_SECS
            assert client.parser.feed(said) == []
        assert client.parser.comments == ["still here"] * 3
        assert client.parser.ids == [client.parser.last_id] * 4
        await stand.leave(client)

    run(test)


def test_a_stream_that_is_written_to_says_nothing_beside(run: Run) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect()
        for number in range(30):
            await stand.register(f"{number}")
            await stand.pass_time(TICK_SECS)
        client.read()
        assert client.parser.comments == []
        await stand.leave(client)

    run(test)


def test_a_filter_that_nothing_passes_is_told_the_current_id_although_much_happens(run: Run) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect(NOBODY)
        await stand.settle()
        client.read()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        for number in range(40):  # whenever the watchers are looked at, a change is on its way to them
            assert stand.feed._tick is not None
            stand.feed._tick.cancel()
            await stand.register(f"{number}")
            stand.feed._look_after()
            await stand.settle()
            loop.ahead += TICK_SECS / 2
        assert client.read() == []
        assert client.parser.comments == ["still here"]
        assert int(client.parser.last_id.split("-")[1]) > 20
        await stand.leave(client)

    run(test)


# --------------------------------------------------------------------------------------------------- slow readers


@pytest.mark.parametrize(("seconds", "cut"), [(STUCK_SECS - 2 * TICK_SECS, False), (STUCK_SECS + 2 * TICK_SECS, True)])
def test_a_reader_that_takes_nothing_is_given_up_in_time(run: Run, seconds: float, cut: bool) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect(clogged=True)
        await stand.settle()
        await stand.pass_time(seconds)
        assert client.pipe.task.done() is cut
        assert stand.watchers.closed["stuck"] == cut
        if not cut:
            await stand.leave(client)
        assert stand.watchers.count == 0

    run(test)


def test_a_reader_that_falls_behind_gets_one_resync_and_is_closed_at_the_second_time(run: Run) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect()
        await stand.settle()
        client.read()
        client.pipe.clog()
        await stand.register("a")
        await stand.settle()
        for number in range(JOURNAL + 1):
            await stand.register(f"{number}")
        await stand.register("b", size=3 * PART_BYTES)
        client.pipe.unclog()
        while len(client.pipe.parts) < 3:  # until within the resync
            await client.pipe.moved()
        client.pipe.clog()
        for number in range(JOURNAL + 1):
            await stand.register(f"{number}", "other")
        client.pipe.unclog()
        await client.pipe.task
        assert names(client.read()) == ["upserted", "resync"]
        assert client.pipe.ended, "it is closed properly, and may come back"
        assert stand.watchers.closed["slow"] == 1
        assert stand.watchers.resyncs["behind"] == 1

    run(test)


def test_a_reader_that_caught_up_may_fall_behind_again(run: Run) -> None:
    async def test(stand: Stand) -> None:
        client = stand.connect()
        for _ in range(3):
            await stand.settle()
            client.pipe.clog()
            for number in range(JOURNAL + 2):
                await stand.register(f"{number}", f"{stand.store.index.revision}")
                await stand.settle()
            client.pipe.unclog()
        await stand.settle()
        client.read()
        assert stand.watchers.resyncs["behind"] == 3
        assert not client.pipe.task.done()
        await stand.leave(client)

    run(test)


def test_a_stuck_reader_delays_no_other(run: Run) -> None:
    async def test(stand: Stand) -> None:
        stuck, other = stand.connect(clogged=True), stand.connect()
        for number in range(2 * JOURNAL):
            await stand.register(f"{number}")
            await stand.settle()
        events = other.read()
        assert [event.id for event in events[1:]] == [f"{EPOCH}-{number}" for number in range(2, 2 * JOURNAL + 1)]
        assert stand.feed.lag == 2 * JOURNAL - 1
        await stand.leave(stuck, other)

    run(test)


# ------------------------------------------------------------------------------------------------------- the end


def test_a_stop_ends_those_who_wait_at_once_and_whole(run: Run) -> None:
    async def test(stand: Stand) -> None:
        clients = [stand.connect() for _ in range(5)]
        await stand.settle()
        stand.watchers.stopping = True
        stand.feed.close()
        for _ in range(10):
            await asyncio.sleep(0)
        assert all(client.pipe.task.done() and client.pipe.ended for client in clients)
        assert stand.watchers.closed["stopping"] == 5
        with pytest.raises(Unavailable, match="stopping"):
            stand.connect()

    run(test)


def test_a_stop_cuts_those_who_take_nothing_and_those_who_wait_for_a_list(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdsvc.http.snapshots.HELD_BYTES", 1)

    async def test(stand: Stand) -> None:
        await stand.register("a", size=2 * PART_BYTES)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        stuck = stand.connect(clogged=True)
        await stuck.pipe.moved()
        waiting = stand.connect(NOBODY)
        not_yet_begun = stand.connect(clogged=True)
        stand.watchers.stopping = True
        stand.feed.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not stuck.pipe.task.done()
        loop.ahead += LAST_WRITE_SECS
        clients = (stuck, waiting, not_yet_begun)
        async with asyncio.timeout(TICK_SECS * 5):
            await asyncio.gather(*(client.pipe.task for client in clients))
        assert stand.watchers.count == 0
        assert stand.watchers.closed["stopping"] == 3

    run(test)


# ------------------------------------------------------------------------------------------------------- metrics


def test_readings_can_be_taken_in_a_thread_while_watchers_come_and_go(run: Run) -> None:
    async def test(stand: Stand) -> None:
        watchers = Watchers(100_000)
        feed = Feed(stand.store.changes, stand.feed._lists, removal, watchers)
        scope: Any = {"query_string": b"", "headers": []}
        for _ in range(20_000):
            feed.watch(scope, EVERYTHING)
        for watcher in feed._watchers:
            watcher.revision = 0

        def scrape() -> list[object]:
            return [list(readings(watchers, (feed,))) for _ in range(30)]

        scraping = asyncio.ensure_future(asyncio.to_thread(scrape))
        while not scraping.done():
            feed.watch(scope, EVERYTHING)
            await asyncio.sleep(0)
        assert len(await scraping) == 30
        assert feed._tick is not None
        feed._tick.cancel()

    run(test)


def test_metrics_say_who_watches_and_what_was_written(run: Run) -> None:
    async def test(stand: Stand) -> None:
        clients = [stand.connect() for _ in range(3)]
        await stand.settle()
        for name in "ab":
            await stand.register(name)
            await stand.settle()
        read = {reading[:1] + reading[2:]: reading[1] for reading in readings(stand.watchers, (stand.feed,))}
        assert read[metrics.WATCHERS,] == 3
        assert read[metrics.WATCH_EVENTS,] == 6
        assert read[metrics.WATCH_EVENT_ENCODINGS,] == 2
        assert read[metrics.WATCH_LAG,] == 0
        assert read[metrics.WATCH_RESYNCS, "start"] == 3
        await stand.leave(*clients)

    run(test)


def test_periods_fit_each_other() -> None:
    assert module.PEER_TIMEOUT_SECS < KEEP_ALIVE_SECS, "a peer that vanished is noticed before the second sign of life"
    assert STUCK_SECS <= 2 * KEEP_ALIVE_SECS
