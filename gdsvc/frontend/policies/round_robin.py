"""Round-robin: every candidate once a round, its frontends in turn. The counting is compiled."""

from collections.abc import Sequence

from gdsvc._in_flight import Cell, Frontend
from gdsvc._picker import RoundRobin
from gdsvc.frontend.policies.policy import Asked, Candidate, Environment


class Rounds:
    """The Chooser."""

    def __init__(self) -> None:
        self._rota = RoundRobin[Cell, Frontend]()

    def swap(self, candidates: Sequence[Candidate]) -> None:
        """Turns and frontend cursors go on."""
        self._rota.swap((candidate.cell, candidate.frontends) for candidate in candidates)

    def choose(self, asked: Asked) -> Frontend | None:
        """Whose turn it is."""
        pair = self._rota.pick() if asked.avoid is None else self._rota.pick_besides(asked.avoid)
        return None if pair is None else pair[1]


class RoundRobinPolicy:
    """The Policy."""

    def __init__(self, _environment: Environment) -> None:
        """Takes nothing from the environment."""

    def chooser(self) -> Rounds:
        """Sets have rounds of their own, so that models that alternate starve nobody."""
        return Rounds()
