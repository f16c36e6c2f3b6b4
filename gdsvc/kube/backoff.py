"""Decides how long to wait after a failed turn: 0.8 s doubling to 30 s unless told otherwise, with jitter; less where
the server said what to do. What counts as progress, the caller decides: a socket that opened is none."""

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
        first_secs: float | None = None,
        longest_secs: float | None = None,
    ) -> None:
        self._draw = draw
        self._first_secs = FIRST_SECS if first_secs is None else first_secs
        self._longest_secs = LONGEST_SECS if longest_secs is None else longest_secs
        self._step_secs = self._first_secs
        self._was_prompt = False  # since the last progress

    def wait_secs(self) -> float:
        """How long to wait now; the next step is twice as long."""
        step, self._step_secs = self._step_secs, min(2 * self._step_secs, self._longest_secs)
        return step * (1 + self._draw()) / 2

    def prompt_secs(self) -> float:
        """How long to wait before another question, that the server's answer leads to: the first step, and none taken.

        Once until there is progress, then as `wait_secs`: another answer of the kind shows that it leads nowhere.
        """
        if self._was_prompt:
            return self.wait_secs()
        self._was_prompt = True
        return self._first_secs * (1 + self._draw()) / 2

    def told_secs(self, secs: float) -> float:
        """How long to wait where the server asks for `secs`: that, never less than the first step, and none taken."""
        return max(secs, self._first_secs) + self._first_secs * self._draw()

    def progressed(self) -> None:
        """The next wait is the first step's again."""
        self._step_secs = self._first_secs
        self._was_prompt = False
