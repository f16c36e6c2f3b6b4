"""A wall clock that a test sets while a service runs under it: libfaketime, of Debian's package faketime.

Its monotonic clock is left alone, as an operator who sets the time leaves it. A program that calls Python's time.sleep
does not run so (Debian's 0.9.10 refuses it); the service does not.
"""

import os
from pathlib import Path

import pytest

PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")


class WallClock:
    """`environ` is for the process that is to live by it; before `set_ahead`, it is right."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set_ahead(0.0)
        self.environ = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",  # a step holds at once, for 11 us of each look at the wall clock
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set_ahead(self, secs: float) -> None:
        """Steps the clock to so many seconds ahead of this machine's, behind it where that is negative."""
        aside = self._file.with_suffix(".aside")
        aside.write_text(f"{secs:+g}s\n")
        aside.rename(self._file)


def _library() -> Path:
    """That of `LIBFAKETIME`, else where distributions put it; without one the test is skipped."""
    if given := os.environ.get("LIBFAKETIME"):
        return Path(given)
    for place in PLACES:
        for found in sorted(Path("/").glob(f"{place[1:]}/libfaketime.so.1")):
            return found
    pytest.skip("needs libfaketime: Debian's package faketime, or LIBFAKETIME with the path of libfaketime.so.1")
