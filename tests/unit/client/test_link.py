"""When a follower comes back after a failure, and when what it knows is too old."""

import pytest

from gdsvc.client.link import LEAST_SECS, MOST_SECS, MOST_TOLD_SECS, STALE_SECS, STEADY_SECS, Link


def link(randomly: float = 1.0) -> Link:
    return Link(lambda: randomly)


def test_pauses_double_up_to_a_lease() -> None:
    line = link()
    pauses = [line.failed(0.0) for _ in range(10)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, MOST_SECS, MOST_SECS, MOST_SECS]


def test_a_minute_of_failing_at_once_makes_few_attempts() -> None:
    for randomly in (0.0, 0.5, 1.0):
        line, now, attempts = link(randomly), 0.0, 0
        while now < 60:
            attempts += 1
            now += line.failed(now)
        assert attempts < 20


@pytest.mark.parametrize(("randomly", "pause"), [(0.0, LEAST_SECS / 2), (0.5, LEAST_SECS * 0.75), (1.0, LEAST_SECS)])
def test_pauses_are_spread_over_their_upper_half(randomly: float, pause: float) -> None:
    assert link(randomly).failed(0.0) == pytest.approx(pause)


def test_a_stream_that_opens_is_no_progress() -> None:
    line = link()
    for _ in range(5):
        line.opened(0.0)
        line.failed(0.0)
    line.opened(0.0)
    assert line.failed(0.0) == pytest.approx(6.4)


def test_a_view_that_moves_is_progress() -> None:
    line = link()
    for _ in range(5):
        line.failed(0.0)
    line.heard(1.0, moved=True)
    assert line.failed(1.0) == LEAST_SECS


def test_a_server_that_says_the_same_and_closes_is_backed_off() -> None:
    line, pauses = link(), []
    for _ in range(5):
        line.opened(0.0)
        line.heard(0.0, moved=False)
        pauses.append(line.failed(0.0))
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2]


@pytest.mark.parametrize(("lived", "pause"), [(STEADY_SECS - 0.001, 0.4), (STEADY_SECS, 0.2)])
def test_a_quiet_stream_that_lasts_is_progress(lived: float, pause: float) -> None:
    line = link()
    line.failed(0.0)
    line.opened(100.0)
    line.heard(100.0 + lived, moved=False)
    assert line.failed(200.0) == pytest.approx(pause)


def test_the_pause_that_the_service_names_is_kept_at_least() -> None:
    line = link()
    line.told(3.0)
    assert [line.failed(0.0) for _ in range(6)] == [3.0, 3.0, 3.0, 3.0, 3.2, 6.4]


def test_a_pause_without_measure_is_not_kept() -> None:
    line = link()
    line.told(1e9)
    assert line.failed(0.0) == MOST_TOLD_SECS


@pytest.mark.parametrize(("secs", "stale"), [(STALE_SECS - 0.001, False), (STALE_SECS, True)])
def test_a_minute_of_unbroken_failures_makes_stale(secs: float, stale: bool) -> None:
    line = link()
    line.failed(100.0)
    line.failed(100.0 + secs)
    assert line.stale is stale


def test_a_lone_failure_never_makes_stale() -> None:
    line = link()
    for hour in range(10):
        line.failed(hour * 3600.0)
        assert not line.stale
        line.heard(hour * 3600.0 + 1, moved=False)


def test_the_services_word_makes_fresh_again_and_the_row_starts_anew() -> None:
    line = link()
    line.failed(0.0)
    line.failed(60.0)
    line.heard(61.0, moved=False)
    assert not line.stale
    line.failed(62.0)
    line.failed(100.0)
    assert not line.stale
