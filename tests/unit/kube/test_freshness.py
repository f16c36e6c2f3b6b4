"""The boundaries of the 60 s and the 120 s rule, time passed in."""

import pytest

from gdsvc.kube.freshness import Failing, Fresh, Freshness, Stale


def failing_from(start: float, *later: float) -> tuple[Freshness, list[bool]]:
    freshness = Freshness()
    return freshness, [freshness.failed(start + offset) for offset in (0.0, *later)]


def test_a_lone_error_never_makes_a_quiet_view_stale() -> None:
    freshness, changes = failing_from(1000.0)
    assert changes == [False]
    for later in (59.0, 60.0, 119.9, 120.0, 10_000.0):
        assert not freshness.elapsed(1000.0 + later)
        assert not freshness.stale


@pytest.mark.parametrize(("second", "stale"), [(59.999, False), (60.0, True)])
def test_the_first_error_60_s_after_the_first_of_its_row_marks_stale(second: float, stale: bool) -> None:
    freshness, changes = failing_from(0.0, second)
    assert changes == [False, stale]
    assert freshness.stale is stale


def test_the_row_is_judged_from_its_first_error_not_from_its_last() -> None:
    assert failing_from(0.0, 30.0, 59.0, 61.0)[1] == [False, False, False, True]


def test_staleness_is_told_once() -> None:
    assert failing_from(0.0, 60.0, 70.0, 100.0)[1] == [False, True, False, False]


def test_without_jitter_the_error_at_80_4_s_is_the_one() -> None:
    _, changes = failing_from(0.0, 0.8, 2.4, 5.6, 12.0, 24.8, 50.4, 80.4)
    assert changes.index(True) == 7


@pytest.mark.parametrize(("quiet", "recovered"), [(119.999, False), (120.0, True)])
def test_a_stale_view_recovers_after_120_s_without_an_error(quiet: float, recovered: bool) -> None:
    freshness, _ = failing_from(0.0, 60.0, 90.0)
    assert freshness.elapsed(90.0 + quiet) is recovered
    assert freshness.stale is not recovered


def test_a_row_ends_after_120_s_without_an_error_also_when_nobody_asked() -> None:
    freshness, changes = failing_from(0.0, 120.0, 179.9)
    assert changes == [False, False, False]
    assert freshness.state == Failing(120.0, 179.9)


def test_an_error_119_s_after_a_lone_one_belongs_to_its_row() -> None:
    assert failing_from(0.0, 119.0)[1] == [False, True]


def test_an_error_long_after_a_stale_row_begins_a_new_one() -> None:
    freshness, _ = failing_from(0.0, 60.0)
    assert freshness.failed(180.0)  # recovered by time at the same moment: the view is fresh, a row is open
    assert freshness.state == Failing(180.0, 180.0)


def test_a_confirmation_ends_the_row() -> None:
    freshness, _ = failing_from(0.0, 30.0)
    assert not freshness.confirmed()
    assert not freshness.failed(70.0)
    assert freshness.state == Failing(70.0, 70.0)


def test_a_confirmation_makes_a_stale_view_fresh_and_is_told_once() -> None:
    freshness, _ = failing_from(0.0, 60.0)
    assert isinstance(freshness.state, Stale)
    assert (freshness.confirmed(), freshness.confirmed()) == (True, False)
    assert vars(freshness) == {"state": Fresh()}
