"""Watchers over a real store: what each is written first and next, when it is let in, what is counted."""

import asyncio
from typing import Any

import pytest

from gdsvc import metrics
from gdsvc.errors import LimitReached
from gdsvc.http.pools import removal
from gdsvc.http.watch import (
    LEAST_RETRY_MS,
    PART_BYTES,
    RETRY_MS_A_WATCHER,
    RETRY_SPREAD_MS,
    Feed,
    Watchers,
    readings,
)
from gdsvc.model import PoolKey
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from tests.asgi_pipe import Pipe
from tests.unit.http.watched_feed import EPOCH, JOURNAL, NOBODY, Run, Stand, names

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
