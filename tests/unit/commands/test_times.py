"""Instants and durations for people."""

from datetime import UTC, datetime

import pytest

from gdsvc.commands.times import duration, instant, since, told, when

NOW = datetime(2026, 11, 30, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (0.0, "0.0 s"),
        (3.84, "3.8 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (119.4, "119 s"),
        (120.0, "2 min"),
        (7199.0, "120 min"),
        (7200.0, "2 h"),
        (172_799.0, "48 h"),
        (172_800.0, "2 days"),
        (1e300, "11574074 days"),
    ],
)
def test_a_duration_has_the_unit_that_fits_it(secs: float, text: str) -> None:
    assert duration(secs) == text


def test_the_past_is_ago_and_the_future_is_in() -> None:
    assert since(12.0) == "12 s ago"
    assert since(-12.0) == "in 12 s"


@pytest.mark.parametrize("text", ["2026-11-30T00:59:48.000Z", "2026-11-30T01:59:48+01:00", "2026-11-30T00:59:48"])
def test_an_instant_is_told_both_ways_whatever_its_zone(text: str) -> None:
    assert when(text, NOW) == "2026-11-30 00:59:48 UTC (12 s ago)"


def test_instants_inside_a_sentence_are_told_both_ways() -> None:
    assert told("since 2026-11-30T00:59:48.123Z: gone, 2026-99-99T00:00:00Z", NOW) == (
        "since 2026-11-30 00:59:48 UTC (12 s ago): gone, 2026-99-99T00:00:00Z"
    )


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "99999999999"])
def test_what_is_no_instant_is_shown_as_it_is(text: str) -> None:
    assert when(text, NOW) == text


def test_what_is_no_instant_is_shown_harmlessly() -> None:
    assert when("\x1b[2J", NOW) == "\\x1b[2J"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_an_instant_at_the_end_of_the_calendar_is_no_fault(text: str) -> None:
    assert "ago" in when(text, NOW) or "in " in when(text, NOW)


def test_a_time_beyond_the_calendar_is_no_fault() -> None:
    assert instant(1e300) == instant(-1e300) == "a time that no calendar has"
