"""Latencies by the hundred thousand, counted in steps instead of kept."""

from typing import Final

_FINE_SECS: Final = 2.0  # up to here in steps of 0.1 ms,
_FINE_STEPS: Final = 20_000
_COARSE_STEPS: Final = 1_200  # and from there on of 0.1 s, the last of which has no end


class Latencies:
    """How long things took, in seconds, to 0.1 ms below 2 s. `max` is exact."""

    def __init__(self) -> None:
        self._counts = [0] * (_FINE_STEPS + _COARSE_STEPS)
        self.count = 0
        self.max = 0.0

    def add(self, seconds: float) -> None:
        """One more; clocks that are read in the wrong order give 0."""
        step = int(seconds * 10_000) if seconds < _FINE_SECS else _FINE_STEPS + int((seconds - _FINE_SECS) * 10)
        self._counts[min(max(step, 0), len(self._counts) - 1)] += 1
        self.count += 1
        if seconds > self.max:
            self.max = seconds

    def quantile(self, share: float) -> float:
        """The least value, in whole steps, that `share` of all are not above; 0 where there are none."""
        wanted = share * self.count
        passed = 0
        for step, count in enumerate(self._counts):
            passed += count
            if count and passed >= wanted:
                return min(self.max, _end_of(step))
        return 0.0


def _end_of(step: int) -> float:
    return (step + 1) / 10_000 if step < _FINE_STEPS else _FINE_SECS + (step - _FINE_STEPS + 1) / 10
