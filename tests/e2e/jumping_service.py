"""A program, not a test: the discovery service on a clock that SIGUSR1 puts forward by an hour, as a long sleep would.

Run as `python jumping_service.py FLAGS`, the flags being those of `gdsvc serve`. The clock is set before gdsvc is
imported; the loop's own timers run on the system's.
"""

import signal
import sys
import time
from importlib import import_module

JUMP_SECS = 3600.0

_real = time.monotonic
_jumped = 0.0


def _monotonic() -> float:
    return _real() + _jumped


def _jump(*_: object) -> None:
    global _jumped  # noqa: PLW0603 - the one thing that this program is for
    _jumped += JUMP_SECS


if __name__ == "__main__":
    time.monotonic = _monotonic
    signal.signal(signal.SIGUSR1, _jump)
    sys.exit(import_module("gdsvc.main").main(["serve", *sys.argv[1:]]))
