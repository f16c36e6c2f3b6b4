"""The request meter: exact counts, bounded labels."""

import pytest

from gdsvc._meter import BOUNDS, METHODS, STATUSES, RequestMeter


def test_a_new_meter_has_seen_nothing() -> None:
    meter = RequestMeter(["/a", "/b"])
    assert (meter.routes, meter.counts(), meter.durations()) == (("/a", "/b"), [], [])


def test_requests_are_counted_by_route_method_and_status() -> None:
    meter = RequestMeter(["/a", "/b"])
    for _ in range(3):
        meter.record(0, "GET", 200, 0.0)
    meter.record(0, "GET", 304, 0.0)
    meter.record(0, "POST", 200, 0.0)
    meter.record(1, "GET", 200, 0.0)
    assert meter.counts() == [
        ("/a", "GET", "200", 3),
        ("/a", "GET", "304", 1),
        ("/a", "POST", "200", 1),
        ("/b", "GET", "200", 1),
    ]


def test_every_listed_method_and_status_has_a_count_of_its_own() -> None:
    meter = RequestMeter(["/a"])
    for method in METHODS[:-1]:
        for status in STATUSES:
            meter.record(0, method, status, 0.0)
    expected = [("/a", method, str(status), 1) for method in METHODS[:-1] for status in STATUSES]
    assert meter.counts() == expected


def test_what_a_caller_makes_up_is_counted_as_other() -> None:
    meter = RequestMeter(["/a"])
    for method in ("BREW", "get", "", "X" * 10_000, "GET\n"):
        meter.record(0, method, 418, 0.0)
    assert meter.counts() == [("/a", "other", "other", 5)]


@pytest.mark.parametrize("position", [-1, 2, 10**6])
def test_a_route_that_is_not_there_is_refused_and_writes_nowhere(position: int) -> None:
    meter = RequestMeter(["/a", "/b"])
    with pytest.raises(IndexError):
        meter.record(position, "GET", 200, 0.0)
    assert (meter.counts(), meter.durations()) == ([], [])


def test_a_duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    for position, bound in enumerate(BOUNDS):
        meter = RequestMeter(["/a"])
        meter.record(0, "GET", 200, bound)
        ((_, cumulative, seconds),) = meter.durations()
        assert cumulative == [0] * position + [1] * (len(BOUNDS) + 1 - position)
        assert seconds == bound


def test_a_duration_beyond_all_bounds_counts_in_the_total_alone() -> None:
    meter = RequestMeter(["/a"])
    meter.record(0, "GET", 200, 1e6)
    meter.record(0, "GET", 200, 0.0)
    assert meter.durations() == [("/a", [1] * len(BOUNDS) + [2], 1e6)]


def test_durations_are_kept_by_route() -> None:
    meter = RequestMeter(["/a", "/b", "/c"])
    meter.record(0, "GET", 200, 0.25)
    meter.record(0, "POST", 404, 0.25)
    meter.record(2, "GET", 200, 1.0)
    assert [(route, cumulative[-1], seconds) for route, cumulative, seconds in meter.durations()] == [
        ("/a", 2, 0.5),
        ("/c", 1, 1.0),
    ]


def test_bounds_grow() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
