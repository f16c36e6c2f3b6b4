"""Renewals and registrations to and from the items of a table, and a poll of 10,000 renewals, without any call.

A round is all 10,000, or 500 in the codec; divide for one. Beside it the poll of an afternoon (bench/canned_table.py).
"""

import asyncio

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.canned_table import NaiveReader, polled
from bench.stores.items import items
from gdsvc.backends.dynamodb import codec

POOLS = 10_000
FEW = 500  # items of a page
BOTH = list(items(0, FEW))
RENEWALS = [item for item in BOTH if "d" not in item]
REGISTRATIONS = [item for item in BOTH if "d" in item]


@pytest.mark.benchmark(group="500 items")
def test_read_renewals(benchmark: BenchmarkFixture) -> None:
    found = benchmark(lambda: [codec.found_in(item) for item in RENEWALS])
    assert None not in found


@pytest.mark.benchmark(group="500 items")
def test_read_registrations(benchmark: BenchmarkFixture) -> None:
    found = benchmark(lambda: [codec.registration_in(item) for item in REGISTRATIONS])
    assert None not in found


@pytest.mark.benchmark(group="500 items")
def test_write_items(benchmark: BenchmarkFixture) -> None:
    written = benchmark(lambda: list(items(0, FEW)))
    assert len(written) == 2 * FEW


@pytest.mark.benchmark(group="poll of 10,000 renewals")
def test_poll(benchmark: BenchmarkFixture) -> None:
    with asyncio.Runner() as runner:
        polling = polled(POOLS)
        made = runner.run(polling.__aenter__())
        before = made.reader.polls
        benchmark.pedantic(lambda: runner.run(made.poll()), rounds=7)  # type: ignore[no-untyped-call]
        assert made.reader.polls > before
        runner.run(polling.__aexit__(None, None, None))


@pytest.mark.benchmark(group="poll of 10,000 renewals")
def test_poll_of_an_afternoon(benchmark: BenchmarkFixture) -> None:
    reader = NaiveReader(POOLS)
    benchmark.pedantic(reader.poll, rounds=5)  # type: ignore[no-untyped-call]
    assert len(reader.expires_at) == POOLS
