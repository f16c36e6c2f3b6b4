"""Resident memory of a service: what a scenario leaves behind, and the most that it took."""

import time
from pathlib import Path

from tests.e2e.process import POLL_SECS, Service

MIB = 1024 * 1024
KEPT = 60 * MIB  # what no hostile input may leave behind
SETTLE_SECS = 2.0  # in which a service gives back what it can, once its callers are gone


class Memory:
    """Measures from where it is made; warm the service up before."""

    def __init__(self, service: Service) -> None:
        self._process = Path(f"/proc/{service.pid}")
        (self._process / "clear_refs").write_text("5")  # the peak starts here
        self._before = self._bytes("VmRSS")

    def growth(self) -> int:
        """Bytes more than at first."""
        return self._bytes("VmRSS") - self._before

    def peak_growth(self) -> int:
        """The most bytes more than at first, at any time since."""
        return self._bytes("VmHWM") - self._before

    def settled_growth(self) -> int:
        """`growth`, once it is within KEPT or SETTLE_SECS are over."""
        deadline = time.monotonic() + SETTLE_SECS
        while self.growth() > KEPT and time.monotonic() < deadline:
            time.sleep(POLL_SECS)
        return self.growth()

    def _bytes(self, field: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
