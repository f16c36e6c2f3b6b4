"""The least of what was measured, and why something was not."""

from collections.abc import Iterable

from bench.load import LoadFailed
from bench.processes import ChildFailed, StartFailed

FAILURES = (ChildFailed, LoadFailed, StartFailed)


class Tally:
    """Of many rounds the least, by scenario and side. Noise only adds."""

    def __init__(self) -> None:
        self._least: dict[tuple[str, str], float] = {}
        self._whys: dict[str, str] = {}

    def take(self, scenario: str, rounds: Iterable[tuple[str, float]]) -> None:
        """Reads rounds to their end; one that fails ends its scenario for good: it measured something else."""
        try:
            for label, took in rounds:
                key = scenario, label
                self._least[key] = min(took, self._least.get(key, took))
        except FAILURES as error:
            self.fail(scenario, str(error))

    def fail(self, scenario: str, why: str) -> None:
        """Nothing of it counts. The first reason stays."""
        self._whys.setdefault(scenario, why)

    def why(self, scenario: str) -> str:
        """Why it failed; nothing where it did not."""
        return self._whys.get(scenario, "")

    def least(self, scenario: str, label: str) -> float | None:
        """The least there is; None where nothing was measured, or the scenario failed."""
        return None if scenario in self._whys else self._least.get((scenario, label))
