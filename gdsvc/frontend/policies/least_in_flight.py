"""Least in flight: the candidate with the fewest requests of ours, of several the one that waited longest. Compiled."""

from collections.abc import Sequence

from gdsvc._in_flight import Frontend
from gdsvc._picker import LeastInFlight
from gdsvc.frontend.policies.policy import Asked, Candidate, Environment


class Least:
    """The Chooser."""

    def __init__(self) -> None:
        self._picker = LeastInFlight()

    def swap(self, candidates: Sequence[Candidate]) -> None:
        """Counts are in the cells and go on by themselves; so do the turns of those who stay."""
        self._picker.swap((candidate.cell, candidate.frontends) for candidate in candidates)

    def choose(self, asked: Asked) -> Frontend | None:
        """The least loaded. One that fails fast is due once a round, however few it has in flight."""
        return self._picker.pick() if asked.avoid is None else self._picker.pick_besides(asked.avoid)


class LeastInFlightPolicy:
    """The Policy."""

    def __init__(self, _environment: Environment) -> None:
        """Takes nothing from the environment."""

    def chooser(self) -> Least:
        """One for each set."""
        return Least()
