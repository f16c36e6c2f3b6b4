"""The compiled histogram against counting each bound anew."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc._histogram import Histogram

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def counted(bounds: list[float], values: list[float]) -> list[float]:
    """Of the buckets by their bound, and of the last one."""
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    buckets, _ = histogram.cumulative()
    assert [name for name, _ in buckets] == [*(f"{bound:.10g}" for bound in bounds), "+Inf"]
    return [count for _, count in buckets]


@settings(max_examples=50)
@given(st.lists(FINITE, max_size=8, unique=True).map(sorted), st.lists(FINITE, max_size=30))
def test_a_bucket_has_all_that_is_not_above_its_bound_and_the_last_has_all(
    bounds: list[float], values: list[float]
) -> None:
    values += bounds  # what is at a bound is not above it
    assert counted(bounds, values) == [sum(value <= bound for value in values) for bound in [*bounds, math.inf]]


@settings(max_examples=50)
@given(st.lists(FINITE, max_size=30))
def test_the_sum_is_that_of_all_observations(values: list[float]) -> None:
    histogram = Histogram((0.0, 1.0))
    total = 0.0
    for value in values:
        histogram.observe(value)
        total += value  # in this order: `sum` rounds otherwise
    assert histogram.cumulative()[1] == total


def test_before_the_first_observation_all_is_zero() -> None:
    assert Histogram((0.1, 1)).cumulative() == ([("0.1", 0.0), ("1", 0.0), ("+Inf", 0.0)], 0.0)


def test_what_is_no_number_or_has_no_end_is_counted_once() -> None:
    assert counted([0.0, 1.0], [math.inf]) == [0, 0, 1]
    assert counted([0.0, 1.0], [-math.inf]) == [1, 1, 1]
    assert counted([0.0, 1.0], [math.nan])[-1] == 1


def test_a_histogram_without_bounds_counts_what_there_is() -> None:
    assert counted([], [1.0, 2.0]) == [2]


@pytest.mark.parametrize("bounds", [None, ["a"], [None], 1])
def test_bounds_that_are_no_numbers_are_refused(bounds: list[float]) -> None:
    with pytest.raises(TypeError):
        Histogram(bounds)
