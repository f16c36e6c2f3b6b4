"""The time of leases that are read from a store, and the trust in what was read."""

import pytest

from gdsvc.backends.shared.reading import STALE_SECS, ReadingTime, Trust

LEASE_SECS, EVERY_SECS = 15.0, 2.0


def reading(*read_at: float) -> ReadingTime:
    made = ReadingTime(LEASE_SECS, EVERY_SECS)
    for at in read_at:
        made.read(at)
    return made


def test_leases_are_judged_by_the_beginning_of_the_last_pass_and_by_nothing_later() -> None:
    time = reading(0.0, 2.0)
    assert (time.heard_at(3.5), time.judged_at) == (3.5, 2.0)


def test_a_slow_pass_that_goes_well_counts_whole() -> None:
    time = reading(0.0)
    assert time.heard_at(7.0) == 7.0
    time.read(9.0)
    assert time.judged_at == 9.0


def test_time_stands_while_passes_fail_and_counts_one_interval_of_it() -> None:
    time = reading(0.0)
    time.unread(2.0)
    assert [time.heard_at(at) for at in (2.0, 50.0, 92.0)] == [2.0, 2.0, 2.0]
    assert time.judged_at == 0.0
    time.read(92.0)
    assert time.judged_at == EVERY_SECS
    time.read(94.0)
    assert time.judged_at == 2 * EVERY_SECS


def test_time_never_runs_back_for_who_beats() -> None:
    time = reading(0.0)
    assert time.heard_at(7.0) == 7.0
    time.unread(7.0)  # the pass hung for five seconds
    time.read(8.0)
    assert (time.judged_at, time.heard_at(8.0)) == (2.0, 7.0)
    assert time.heard_at(14.0) == 8.0


def test_passes_that_fail_now_and_then_make_nobody_immortal() -> None:
    time = reading(0.0)
    for at in range(4, 400, 4):
        time.unread(at - 2.0)
        time.read(float(at))
    assert time.judged_at == pytest.approx(198.0)


def test_what_is_heard_before_the_first_pass_is_not_aged_by_a_store_that_cannot_be_reached() -> None:
    time = ReadingTime(LEASE_SECS, EVERY_SECS)
    time.unread(0.5)
    heard_at = time.heard_at(80.0)
    time.read(100.0)
    assert time.judged_at - heard_at < LEASE_SECS


@pytest.mark.parametrize(("at", "trust"), [(24.999, Trust.YOUNG), (25.0, Trust.WHOLE)])
def test_the_view_is_whole_a_lease_after_the_first_pass(at: float, trust: Trust) -> None:
    assert reading(10.0, at).trust(at) is trust


def test_nothing_is_to_be_shown_before_the_first_pass() -> None:
    time = ReadingTime(LEASE_SECS, EVERY_SECS)
    time.unread(0.0)
    assert time.trust(100.0) is Trust.UNREAD


@pytest.mark.parametrize(("secs", "trust"), [(STALE_SECS - 0.001, Trust.WHOLE), (STALE_SECS, Trust.STALE)])
def test_the_view_is_stale_after_a_minute_of_failing_passes(secs: float, trust: Trust) -> None:
    time = reading(0.0, 15.0)
    time.unread(17.0)
    time.unread(20.0)  # those after the first change nothing
    assert time.trust(17.0 + secs) is trust


def test_one_pass_that_goes_well_makes_a_stale_view_what_it_was() -> None:
    time = reading(0.0, 15.0)
    time.unread(17.0)
    assert time.trust(90.0) is Trust.STALE
    time.read(92.0)
    assert time.trust(92.0) is Trust.WHOLE


def test_an_outage_within_the_first_lease_does_not_count_towards_it() -> None:
    time = reading(0.0)
    time.unread(2.0)
    time.read(30.0)
    assert time.trust(30.0) is Trust.YOUNG
