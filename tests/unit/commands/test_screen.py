"""Standard output: who reads it, and what happens where nobody does."""

import io
import os
from pathlib import Path

import pytest

from gdsvc.commands.failures import Unwritable
from gdsvc.commands.screen import ReaderLeft, Screen, say


def test_what_the_encoding_lacks_is_written_as_an_escape() -> None:
    stream = io.BytesIO()
    Screen(stream, "ascii").write("模\n")
    assert stream.getvalue() == b"\\u6a21\n"


def test_a_closed_pipe_is_a_reader_that_left_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as stream, pytest.raises(ReaderLeft):
        Screen(stream).write("x")


def test_a_full_disk_is_said() -> None:
    with Path("/dev/full").open("wb", buffering=0) as stream, pytest.raises(Unwritable, match="No space left"):
        Screen(stream).write("x")


def test_only_a_pipe_is_watched_for_its_reader(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as stream:
        assert Screen(stream).pipe() == writing
    with (tmp_path / "file").open("wb") as file:
        assert Screen(file).pipe() is None
    assert Screen(io.BytesIO()).pipe() is None


def test_a_message_is_one_harmless_line() -> None:
    stream = io.StringIO()
    say("a\nb\x1b[2J", stream)
    assert stream.getvalue() == "a\\nb\\x1b[2J\n"


def test_a_message_that_nobody_can_read_is_dropped() -> None:
    stream = io.StringIO()
    stream.close()
    say("a", stream)
    assert stream.closed
