"""The fanout's ring, its laggards and its waiters."""

import asyncio
import tracemalloc

import pytest

from gdsvc.pool_discovery.fanout import CAPACITY, JOURNAL, LAGGED, Fanout, Lagged, Subscription


async def read(subscription: Subscription[int], count: int) -> list[int | Lagged]:
    return [await subscription.next() for _ in range(count)]


async def is_waiting(subscription: Subscription[int]) -> bool:
    """Whether nothing is there to be read; takes nothing away."""
    reader = asyncio.ensure_future(subscription.next())
    await asyncio.sleep(0)
    waiting = not reader.done()
    reader.cancel()
    return waiting


async def test_a_subscription_gets_what_is_published_after_it_in_order() -> None:
    fanout: Fanout[int] = Fanout()
    fanout.publish(1)
    subscription = fanout.subscribe()
    fanout.publish(2)
    fanout.publish(3)
    assert await read(subscription, 2) == [2, 3]
    assert await is_waiting(subscription)


async def test_every_subscription_gets_every_event() -> None:
    fanout: Fanout[int] = Fanout()
    subscriptions = [fanout.subscribe() for _ in range(3)]
    readers = [asyncio.ensure_future(read(subscription, 2)) for subscription in subscriptions]
    await asyncio.sleep(0)
    fanout.publish(1)
    await asyncio.sleep(0)
    fanout.publish(2)
    assert await asyncio.gather(*readers) == [[1, 2]] * 3


async def test_a_reader_exactly_as_far_behind_as_the_ring_is_long_misses_nothing() -> None:
    fanout: Fanout[int] = Fanout()
    subscription = fanout.subscribe()
    for event in range(CAPACITY):
        fanout.publish(event)
    assert await read(subscription, CAPACITY) == list(range(CAPACITY))
    assert await is_waiting(subscription)


async def test_a_reader_one_event_further_behind_is_told_once_and_goes_on_from_now() -> None:
    fanout: Fanout[int] = Fanout()
    subscription = fanout.subscribe()
    for event in range(CAPACITY + 1):
        fanout.publish(event)
    assert await subscription.next() is LAGGED
    assert await is_waiting(subscription)
    fanout.publish(7)
    assert await read(subscription, 1) == [7]


async def test_a_reader_that_lags_delays_no_other() -> None:
    fanout: Fanout[int] = Fanout(capacity=4)
    slow, quick = fanout.subscribe(), fanout.subscribe()
    for event in range(20):
        fanout.publish(event)
        assert await quick.next() == event
    assert await slow.next() is LAGGED


async def test_a_resync_makes_every_subscription_start_again_after_what_it_had_still_to_read() -> None:
    fanout: Fanout[int] = Fanout()
    subscriptions = [fanout.subscribe() for _ in range(2)]
    fanout.publish(1)
    fanout.resync()
    for subscription in subscriptions:
        assert await read(subscription, 2) == [1, LAGGED]
        assert await is_waiting(subscription)


async def test_what_a_resync_makes_void_is_not_given_after_it() -> None:
    fanout: Fanout[int] = Fanout()
    subscription = fanout.subscribe()
    fanout.resync()
    fanout.publish(1)
    assert await subscription.next() is LAGGED
    assert await is_waiting(subscription), "the whole view that is taken now holds event 1 already"


async def test_a_reader_that_gives_up_waiting_takes_nothing_from_the_others() -> None:
    fanout: Fanout[int] = Fanout()
    subscription, other = fanout.subscribe(), fanout.subscribe()
    impatient = asyncio.ensure_future(subscription.next())
    patient = asyncio.ensure_future(other.next())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    fanout.publish(1)
    assert await patient == 1
    assert await subscription.next() == 1


async def test_published_counts_events_and_resyncs() -> None:
    fanout: Fanout[int] = Fanout(capacity=2)
    for _ in range(3):
        fanout.publish(0)
    fanout.resync()
    assert fanout.published == 4


async def test_a_subscription_that_is_never_read_costs_no_memory() -> None:
    fanout: Fanout[bytes] = Fanout()
    subscriptions = [fanout.subscribe() for _ in range(10)]
    for _ in range(JOURNAL):
        fanout.publish(bytes(1000), 1000)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(2 * JOURNAL):
        fanout.publish(bytes(1000), 1000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1.5 * JOURNAL * 1100, "one journal of events, whoever reads"
    assert all([await subscription.next() is LAGGED for subscription in subscriptions])


def test_large_events_push_older_ones_out_before_the_ring_is_full() -> None:
    fanout: Fanout[str] = Fanout(journal=100, journal_bytes=10)
    for number in range(5):
        fanout.publish(str(number), 4)
    assert [fanout.at(place) for place in range(5)] == [LAGGED, LAGGED, LAGGED, "3", "4"]


def test_an_event_larger_than_all_that_may_be_kept_makes_every_watcher_start_again() -> None:
    fanout: Fanout[str] = Fanout(journal=100, journal_bytes=10)
    fanout.publish("small", 1)
    fanout.publish("large", 11)
    assert [fanout.at(place) for place in range(2)] == [LAGGED, LAGGED]
    fanout.publish("small", 1)
    assert fanout.at(2) == "small"


# ----------------------------------------------------------------------------------------------- places by number


def filled(events: int, journal: int = 10) -> Fanout[int]:
    """Events 1, 2, …, each named by its own number."""
    fanout: Fanout[int] = Fanout(journal=journal)
    for number in range(1, events + 1):
        fanout.publish(number)
    return fanout


def test_since_gives_what_follows_a_number_up_to_a_limit() -> None:
    fanout = filled(8)
    assert fanout.since(0, 100) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert fanout.since(5, 3) == [6, 7, 8]
    assert fanout.since(2, 3) == [3, 4, 5]
    assert fanout.since(8, 3) == []
    assert fanout.since(3, 1) == [4]


def test_since_gives_at_every_place_and_limit_what_a_list_would() -> None:
    fanout = filled(25)
    everything = list(range(1, 26))
    for place in range(15, 26):
        for limit in range(1, 12):
            assert fanout.since(place, limit) == everything[place : place + limit]


@pytest.mark.parametrize("place", [-1, 14, 26, 10**18])
def test_since_a_number_that_is_not_there_is_lagged(place: int) -> None:
    assert filled(25).since(place, 5) is LAGGED


def test_oldest_is_the_first_number_that_one_can_go_on_from() -> None:
    assert (filled(0).oldest, filled(9).oldest, filled(10).oldest, filled(11).oldest) == (0, 0, 0, 1)


def test_a_resync_makes_void_what_came_before_it_but_the_journal_still_holds_that() -> None:
    fanout = filled(4)
    fanout.resync()
    fanout.publish(6)
    assert (fanout.oldest, fanout.kept_from, fanout.published) == (5, 0, 6)
    assert fanout.since(4, 5) is LAGGED
    assert fanout.since(5, 5) == [6]


def test_what_is_void_falls_off_the_journal_like_the_rest() -> None:
    fanout = filled(4)
    fanout.resync()
    for number in range(6, 21):
        fanout.publish(number)
    assert (fanout.oldest, fanout.kept_from) == (10, 10)
    assert fanout.since(10, 3) == [11, 12, 13]


def test_an_event_larger_than_the_journal_leaves_nothing_to_go_on_from_but_itself() -> None:
    fanout: Fanout[int] = Fanout(journal=10, journal_bytes=10)
    fanout.publish(1, 1)
    fanout.publish(2, 11)
    assert (fanout.oldest, fanout.kept_from, fanout.published) == (2, 2, 2)
    assert (fanout.since(1, 5), fanout.since(2, 5)) == (LAGGED, [])


def test_listeners_are_told_of_each_event_once_it_is_there() -> None:
    fanout: Fanout[int] = Fanout()
    heard: list[tuple[str, int]] = []
    fanout.listen(lambda: heard.append(("one", fanout.published)))
    fanout.listen(lambda: heard.append(("other", fanout.published)))
    fanout.publish(1)
    fanout.resync()
    assert heard == [("one", 1), ("other", 1), ("one", 2), ("other", 2)]
