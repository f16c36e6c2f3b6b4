"""The log of changes: a line for each, then counts; time is set by hand, lines are read back as JSON."""

import io
import json
import logging
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from gdsvc import logs
from gdsvc.pool_discovery.changes import LINES_A_WINDOW, WINDOW_SECS, ChangeLog


class Time:
    """A monotonic clock that stands still until a test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Log:
    """What has been written, as (event, fields that are ours)."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        entries = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        ours = ("key", "more")
        return [(entry["event"], {name: entry[name] for name in ours if name in entry}) for entry in entries]


@pytest.fixture
def log() -> Iterator[Log]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logging.captureWarnings(False)
    yield Log(stream)
    logs.configure("info", "json", io.StringIO())
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_change_is_one_line_that_names_its_member(log: Log) -> None:
    changes = ChangeLog(Time())
    changes("pool.registered", b"a\0b\0c")
    assert log.lines() == [("pool.registered", {"key": "a/b/c"})]


def test_beyond_the_lines_of_a_window_changes_are_counted_by_event(log: Log) -> None:
    time = Time()
    changes = ChangeLog(time)
    for number in range(LINES_A_WINDOW + 30):
        changes("pool.registered" if number % 3 else "pool.expired", b"%d" % number)
    assert len(log.lines()) == LINES_A_WINDOW
    time.now += WINDOW_SECS
    assert changes.advance() == inf
    assert log.lines()[LINES_A_WINDOW:] == [("pool.registered", {"more": 20}), ("pool.expired", {"more": 10})]


@pytest.mark.parametrize(("after", "lines"), [(0.999, LINES_A_WINDOW), (1.0, LINES_A_WINDOW + 2)])
def test_a_window_is_a_second(log: Log, after: float, lines: int) -> None:
    time = Time()
    changes = ChangeLog(time)
    for number in range(LINES_A_WINDOW + 1):
        changes("pool.registered", b"%d" % number)
    time.now += after
    changes("pool.expired", b"x")
    assert len(log.lines()) == lines, "the count of one, then the new line, once the window is over"


def test_exactly_a_windows_lines_leave_no_count(log: Log) -> None:
    time = Time()
    changes = ChangeLog(time)
    for number in range(LINES_A_WINDOW):
        changes("pool.registered", b"%d" % number)
    time.now += WINDOW_SECS
    changes.advance()
    changes.advance()
    assert len(log.lines()) == LINES_A_WINDOW


def test_a_steady_state_is_silent(log: Log) -> None:
    time = Time()
    changes = ChangeLog(time)
    for _ in range(1000):
        time.now += 0.1
        assert changes.advance() == inf
    assert log.lines() == []
