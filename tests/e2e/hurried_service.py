"""A program, not a test: the discovery service on a clock that runs four times as fast, so that its leases do.

Run as `python hurried_service.py FLAGS`, the flags being those of `gdsvc serve`. The clock is set before gdsvc is
imported; the loop's own timers run on the system's, and so the lease clock still finds its ticks in time.
"""

import sys
import time
from importlib import import_module

FASTER = 4

_real = time.monotonic


def _monotonic() -> float:
    return _real() * FASTER


if __name__ == "__main__":
    time.monotonic = _monotonic
    sys.exit(import_module("gdsvc.main").main(["serve", *sys.argv[1:]]))
