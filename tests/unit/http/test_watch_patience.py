"""Watchers in time: signs of life, readers that do not read, the stop. Time is the event loop's, moved by hand."""

import asyncio

import pytest

from gdsvc.errors import Unavailable
from gdsvc.http import watch as module
from gdsvc.http.watch import (
    KEEP_ALIVE_SECS,
    LAST_WRITE_SECS,
    PART_BYTES,
    STUCK_SECS,
    TICK_SECS,
    VIEW_SECS,
)
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from tests.unit.http.watched_feed import EPOCH, JOURNAL, NOBODY, MovableLoop, Run, Stand, names

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


@pytest.mark.parametrize("others", [False, True])
def test_a_reader_that_takes_a_view_slowly_is_given_up_where_others_wait_for_the_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.setattr("gdsvc.http.snapshots.HELD_BYTES", 1)

    async def test(stand: Stand) -> None:
        for name in "abcdefgh":
            await stand.register(name, size=PART_BYTES)
        slow = stand.connect(clogged=True)
        await slow.pipe.moved()
        others_too = [stand.connect(NOBODY)] if others else []
        for number in range(int(VIEW_SECS / TICK_SECS) + 3):
            if number % 4 == 0 and not slow.pipe.task.done():
                slow.pipe.take_one()  # so it is not stuck
            await stand.pass_time(TICK_SECS)
        assert slow.pipe.task.done() is others
        assert stand.watchers.closed["slow"] == others
        for client in others_too:
            await stand.settle()
            assert names(client.read()) == ["resync"]
        await stand.leave(*others_too, *([] if others else [slow]))

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


def test_periods_fit_each_other() -> None:
    assert module.PEER_TIMEOUT_SECS < KEEP_ALIVE_SECS, "a peer that vanished is noticed before the second sign of life"
    assert STUCK_SECS <= 2 * KEEP_ALIVE_SECS
