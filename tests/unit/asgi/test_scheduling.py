"""When a server counts as busy: instants and CPU seconds are numbers passed in."""

import pytest

from gdsvc.asgi.scheduling import BUSY_SHARE, CALM_SECS, CALM_SHARE, LOOK_SECS, Load

A_BIT = 1e-6


def after(*shares: float) -> list[bool]:
    """What a load answers that is looked at every LOOK_SECS and has used these shares of a core."""
    load = Load(100.0, 7.0)
    now, cpu_secs, answers = 100.0, 7.0, []
    for share in shares:
        now += LOOK_SECS
        cpu_secs += share * LOOK_SECS
        answers.append(load.observe(now, cpu_secs))
    return answers


def test_busy_from_the_bound_on_and_not_below_it() -> None:
    assert after(0.0, BUSY_SHARE - A_BIT, BUSY_SHARE + A_BIT) == [False, False, True]


def test_a_busy_server_is_calm_only_after_a_quiet_while() -> None:
    looks = round(CALM_SECS / LOOK_SECS)
    answers = after(1.0, *[CALM_SHARE - A_BIT] * (looks + 1))
    assert answers[: looks - 1] == [True] * (looks - 1)
    assert answers[-1] is False


def test_between_the_bounds_it_stays_what_it_was() -> None:
    between = (BUSY_SHARE + CALM_SHARE) / 2
    assert after(*[between] * 100) == [False] * 100
    assert after(1.0, *[between] * 100) == [True] * 101


def test_a_clock_that_stands_still_changes_nothing() -> None:
    load = Load(100.0, 7.0)
    assert load.observe(100.0, 9.0) is False
    assert load.observe(101.0, 9.0) is True  # the two seconds were used in this one


@pytest.mark.parametrize("gap_secs", [20.0, 3600.0])
def test_a_server_that_was_suspended_wakes_calm(gap_secs: float) -> None:
    load = Load(0.0, 0.0)
    assert load.observe(1.0, 1.0) is True
    assert load.observe(1.0 + gap_secs, 1.0) is False
