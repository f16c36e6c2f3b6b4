"""Decides how long to wait after a failed turn: 0.8 s doubling to 30 s unless told otherwise, with jitter. What counts
as progress, the caller decides: a socket that opened is none."""

import random
from collections.abc import Callable

FIRST_SECS = 0.8
LONGEST_SECS = 30.0


class Backoff:
    """`draw` gives a float in [0, 1). A wait lies between half its step and the whole step.

    Half a step is random, so that instances that lost the same server do not come back together; the other half is
    not, so that a server that closes at once is never asked in a tight loop.
    """

    def __init__(
        self,
        draw: Callable[[], float] = random.random,
        *,
        first_secs: float = FIRST_SECS,
        longest_secs: float = LONGEST_SECS,
    ) -> None:
        self._draw = draw
        self._first_secs = first_secs
        self._longest_secs = longest_secs
        self._step_secs = first_secs

    def wait_secs(self) -> float:
        """How long to wait now; the next step is twice as long."""
        step, self._step_secs = self._step_secs, min(2 * self._step_secs, self._longest_secs)
        return step * (1 + self._draw()) / 2

    def progressed(self) -> None:
        """The next wait is the first step's again."""
        self._step_secs = self._first_secs
