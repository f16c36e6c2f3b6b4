"""`python -m bench`: measures the chosen figures, tells how far it is on stderr, prints one table on stdout."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import NoReturn, assert_never

import msgspec

from bench import in_process, instructions, machine, trips
from bench.effort import FULL, QUICK, Effort
from bench.figures import FIGURES, Figure, Measured, NotMeasured, Room, Row, chosen
from bench.load import LoadFailed
from bench.processes import ChildFailed, Cores, StartFailed, two_cores
from bench.table import table

EPILOG = """\
Each figure is a ratio: what gdsvc spends over what a yardstick spends on the same machine, in the same minutes. The
servers run on one core, the driver on another; CPU is read from /proc; of many short rounds, taken in turn and spread
over the whole run, the least counts. Ratios are comparable between machines, the numbers beside them are not.
bench/README.md explains each row.

needed:    apt-get install wrk nginx-light valgrind;  pip install -e '.[bench]' --config-settings editable_mode=compat
the whole: python -m bench --out bench/results/COMMIT.md     (under ten minutes; leave the machine alone meanwhile)
a look:    python -m bench --quick                           (about a minute; too few rounds to trust)
some rows: python -m bench --only renewal list-1000/plain
"""


def main(argv: Sequence[str]) -> int:
    """The exit code: 0 where every chosen figure was measured, 1 where one was not, 2 for wrong arguments."""
    arguments = _parse(argv)
    signal.signal(signal.SIGTERM, _stop)
    machine.find_also_in_sbin()
    try:
        figures = chosen(arguments.only)
    except ValueError as error:
        _tell(f"{error}; the names are in --help")
        return 2
    effort = QUICK if arguments.quick else FULL
    if arguments.visits:
        effort = msgspec.structs.replace(effort, visits=arguments.visits)
    rows = list(measure(figures, effort, two_cores()))
    printed = table([*machine.description(), _method(effort)], rows)
    print(printed, end="")
    if arguments.out is not None:
        out = Path(str(arguments.out).replace("COMMIT", machine.commit()))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(printed)
    return 1 if any(isinstance(row, NotMeasured) for row in rows) else 0


def measure(figures: Sequence[Figure], effort: Effort, cores: Cores) -> Iterator[Row]:
    """A row for each figure, in order. What cannot be measured says so in its row, and the rest goes on."""
    if cores.server == cores.driver:
        _tell("only one core: servers and driver disturb each other")
    for lack in machine.missing(need for figure in figures for need in figure.needs):
        _tell(lack)
    groups = {scenario: list(group) for scenario, group in groupby(figures, lambda figure: figure.scenario)}
    measured = [Scenario(name, group) for name, group in groups.items()]
    for visit in range(effort.visits):
        for scenario in measured:
            scenario.visit(visit, effort, cores)
    for scenario in measured:
        _tell(scenario.told())
        yield from scenario.rows()


class Scenario:
    """The figures of one scenario while they are measured. One that fails is not visited again."""

    def __init__(self, name: str, figures: Sequence[Figure]) -> None:
        self._name = name
        self._figures = figures
        self._lacks = {figure.name: machine.missing(figure.needs) for figure in figures}
        able = [figure for figure in figures if not self._lacks[figure.name]]
        self._wanted = frozenset(label for figure in able for label in (figure.ours, figure.theirs))
        self._least: dict[str, float] = {}
        self._secs = 0.0
        self._why = ""

    def visit(self, number: int, effort: Effort, cores: Cores) -> None:
        """Measures every contestant that something is known to measure with; `number` counts from 0."""
        if self._why or not self._wanted:
            return
        began = time.monotonic()
        try:
            for label, took in self._measurements(number, effort, cores):
                self._least[label] = min(took, self._least.get(label, took))
        except (StartFailed, LoadFailed, ChildFailed) as error:
            self._why = str(error)
        secs = time.monotonic() - began
        self._secs += secs
        _tell(f"{number + 1}/{effort.visits} {self._name}: {self._why or f'{secs:.0f} s'}")

    def rows(self) -> Iterator[Row]:
        """A row for each figure."""
        for figure in self._figures:
            if self._lacks[figure.name] or self._why:
                yield NotMeasured(figure, ", ".join(self._lacks[figure.name]) or self._why)
            else:
                yield Measured(figure, self._least[figure.ours], self._least[figure.theirs])

    def told(self) -> str:
        """What each contestant needs at least, in a line."""
        least = "; ".join(f"{label} {value:.4g}" for label, value in self._least.items())
        return f"{self._name}: {self._why or least}  ({self._secs:.0f} s)"

    def _measurements(self, number: int, effort: Effort, cores: Cores) -> Iterator[tuple[str, float]]:
        match self._figures[0].room:
            case Room.TRIP:
                return trips.visit(self._name, self._wanted, cores, effort)
            case Room.IN_PROCESS:
                return in_process.visit(self._name, self._wanted, cores, effort, number)
            case Room.INSTRUCTIONS:
                return instructions.visit(self._name, self._wanted, cores, effort, number)
            case room:
                assert_never(room)


def _method(effort: Effort) -> str:
    return (
        f"trips: minima over {effort.visits} visits with fresh servers, of {effort.rounds} or more rounds of "
        f"{effort.seconds} s each, servers in turn on one core, wrk -t1 -c64 on another; "
        f"in process: minima of {effort.runs} fresh runs at {effort.share:.0%} of the size named; "
        f"instructions: callgrind, {effort.calls:,} calls"
    )


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    names = "\n".join(f"  {figure.name:26}{figure.what} / {figure.theirs}" for figure in FIGURES)
    parser = argparse.ArgumentParser(
        "python -m bench",
        description="Measures gdsvc beside its yardsticks and prints one Markdown table.",
        epilog=f"{EPILOG}\nfigures:\n{names}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the table to FILE too; COMMIT in it is replaced"
    )
    parser.add_argument("--quick", action="store_true", help="one short round of everything, at a tenth of the size")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="figures whose name begins with a NAME")
    parser.add_argument("--visits", type=int, metavar="N", help=f"visits to each row (default {FULL.visits})")
    return parser.parse_args(argv)


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds, which stops what was started."""
    raise SystemExit(128 + signal.SIGTERM)


def _tell(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
