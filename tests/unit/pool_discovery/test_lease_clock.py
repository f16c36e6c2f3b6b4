"""The lease clock on a monotonic clock that the tests set by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.pool_discovery.lease_clock import STALL_SECS, TICK_SECS, LeaseClock

LEASE = 15.0
WINDOW = 4 * LEASE


class Time:
    """A monotonic clock that stands still until a test moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def run_until(at: float, time: Time, clock: LeaseClock) -> None:
    """Lets time pass as it does where the loop is never blocked."""
    while at - time.now > TICK_SECS:
        time.now += TICK_SECS
        clock.tick()
    time.now = at
    clock.tick()


def test_lease_time_starts_at_zero_wherever_the_monotonic_clock_stands() -> None:
    time = Time(98_765.0)
    clock = LeaseClock(LEASE, time)
    assert (clock.now(), clock.heard_secs()) == (0.0, 0.0)
    time.now += 0.5
    assert (clock.now(), clock.heard_secs()) == (0.5, 0.5)


def test_a_gap_just_below_a_second_is_time_like_any_other() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 0.999
    clock.tick()
    assert (clock.now(), clock.heard_secs(), clock.stalls, clock.stalled_secs) == (0.999, 0.999, 0, 0.0)


def test_a_gap_of_a_second_is_forgiven_whole() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = STALL_SECS
    clock.tick()
    assert (clock.now(), clock.heard_secs(), clock.stalls, clock.stalled_secs) == (0.0, 0.0, 1, 1.0)


@pytest.mark.parametrize(("gap", "lease_time"), [(0.999, 10.999), (1.0, 10.0)])
def test_the_gap_is_measured_from_the_last_tick(gap: float, lease_time: float) -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    run_until(10.0, time, clock)
    time.now = 10.0 + gap
    assert clock.now() == pytest.approx(lease_time, abs=1e-9)


def test_a_reading_alone_finds_the_stall_before_any_tick() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 20.0
    assert clock.now() == 0.0
    assert clock.stalls == 1


def test_a_stall_is_counted_once_however_often_the_clock_is_read() -> None:
    told: list[tuple[float, float]] = []
    time = Time()
    clock = LeaseClock(LEASE, time, on_stall=lambda gap, forgiven: told.append((gap, forgiven)))
    time.now = 5.0
    for _ in range(3):
        clock.now()
        clock.heard_secs()
        clock.tick()
    assert told == [(5.0, 5.0)]
    assert (clock.stalls, clock.stalled_secs) == (1, 5.0)


def test_readings_do_not_count_as_ticks() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    for now in (0.3, 0.6, 0.9):
        time.now = now
        clock.now()
    assert clock.stalls == 0
    time.now = 1.0
    clock.now()
    assert clock.stalls == 1


def test_lease_time_does_not_run_back_where_a_reading_came_before_the_stall_was_one() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 0.9
    assert (clock.now(), clock.heard_secs()) == (0.9, 0.9)
    time.now = 1.5
    assert (clock.now(), clock.heard_secs()) == (0.9, 0.9)
    clock.tick()
    time.now = 2.25  # of which 0.75 was not stalled
    assert (clock.now(), clock.heard_secs()) == (0.9, 0.9)
    time.now = 2.475
    assert clock.now() == pytest.approx(0.975)


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), max_size=60))
def test_lease_time_never_runs_back_whoever_reads_or_ticks(steps: list[tuple[float, bool]]) -> None:
    time = Time()
    clock = LeaseClock(2.0, time)
    before = (0.0, 0.0)
    for step, tick in steps:
        time.now += step
        if tick:
            clock.tick()
        read = (clock.now(), clock.heard_secs())
        assert read >= before
        assert read[1] >= before[1]
        before = read


def test_time_after_a_stall_counts_again() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 20.0
    clock.tick()
    run_until(24.0, time, clock)
    assert clock.now() == pytest.approx(4.0)


def test_a_stop_longer_than_the_lease_leaves_the_lease_time_it_found() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    run_until(100.0, time, clock)
    before = clock.now()
    time.now += 20.0
    assert clock.now() == pytest.approx(before)


@pytest.mark.parametrize(("gap", "lease_time"), [(30.0, 0.0), (30.001, 0.001), (100.0, 70.0)])
def test_one_stall_is_forgiven_up_to_two_leases(gap: float, lease_time: float) -> None:
    told: list[tuple[float, float]] = []
    time = Time()
    clock = LeaseClock(LEASE, time, on_stall=lambda gap, forgiven: told.append((gap, forgiven)))
    time.now = gap
    assert clock.now() == pytest.approx(lease_time, abs=1e-9)
    assert told == [(gap, 30.0)]


def test_what_was_forgiven_counts_until_four_leases_have_passed() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 30.0  # forgiven: all that a window allows
    clock.tick()
    run_until(45.0, time, clock)
    time.now = 50.0  # the window from -10 holds the whole 30
    assert clock.now() == pytest.approx(20.0)
    run_until(65.0, time, clock)
    time.now = 75.0  # the window from 15 holds 15 of the 30, so 10 more fit
    assert clock.now() == pytest.approx(35.0)
    run_until(90.0, time, clock)
    time.now = 110.0  # the window from 50 holds the 10 only, so the whole 20 fit
    assert clock.now() == pytest.approx(50.0)


def test_stalls_that_never_end_let_a_dead_pool_go_within_four_leases() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    run_until(200.0, time, clock)
    deadline = clock.now() + LEASE  # of a pool that is never heard again
    died_at = time.now
    while clock.now() < deadline:
        time.now += 1.1
        clock.tick()
        run_until(time.now + 0.9, time, clock)
    assert time.now - died_at <= WINDOW
    assert clock.stalls > 0


def test_completeness_waits_out_a_stop_right_after_the_start() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    time.now = 14.0
    clock.tick()
    assert clock.heard_secs() == 0.0
    run_until(28.9, time, clock)
    assert clock.heard_secs() < LEASE
    run_until(29.1, time, clock)
    assert clock.heard_secs() >= LEASE


def test_completeness_waits_out_a_stop_of_more_than_four_leases() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    run_until(3.0, time, clock)
    time.now += 5 * WINDOW  # forgiven for two leases only, and yet nobody was heard in it
    clock.tick()
    assert clock.now() > LEASE
    assert clock.heard_secs() == pytest.approx(3.0)


def test_completeness_does_not_believe_a_service_that_stalls_for_ever() -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    for _ in range(1000):
        time.now += 2.0
        clock.tick()
    assert clock.heard_secs() == 0.0


STEPS = st.one_of(st.just(TICK_SECS), st.floats(0.01, 0.999), st.floats(1.0, 3.0), st.floats(3.0, 200.0))


@given(steps=st.lists(STEPS, min_size=1, max_size=60), lease=st.sampled_from([2.0, 15.0, 40.0]))
def test_no_window_of_four_leases_has_more_than_two_forgiven(steps: list[float], lease: float) -> None:
    time = Time()
    clock = LeaseClock(lease, time)
    seen = [(0.0, 0.0)]
    for step in steps:
        time.now += step
        clock.tick()
        seen.append((time.now, time.now - clock.now()))  # forgiven so far
    for position, (start, before) in enumerate(seen):
        for end, after in seen[position:]:
            assert after - before >= -1e-9
            if end - start <= 4 * lease:
                assert after - before <= 2 * lease + 1e-9


@given(steps=st.lists(STEPS, max_size=60))
def test_all_stalls_are_counted_and_nothing_else(steps: list[float]) -> None:
    time = Time()
    clock = LeaseClock(LEASE, time)
    stalls: list[float] = []
    for step in steps:
        before = time.now
        time.now += step
        clock.tick()
        if time.now - before >= STALL_SECS:
            stalls.append(time.now - before)
    assert clock.stalls == len(stalls)
    assert clock.stalled_secs == pytest.approx(sum(stalls))
    assert clock.heard_secs() == pytest.approx(time.now - sum(stalls))
    assert clock.now() >= clock.heard_secs() - 1e-9
