"""`python -m bench`: measures the chosen figures, tells how far it is on stderr, prints one table on stdout."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from bench import in_process, instructions, machine, trips
from bench.effort import FULL, QUICK, Effort
from bench.figures import FIGURES, Figure, Measured, NotMeasured, Room, Row, chosen
from bench.load import LoadFailed
from bench.processes import ChildFailed, Cores, StartFailed, two_cores
from bench.table import table

EPILOG = """\
Each figure is a ratio: what gdsvc spends over what a yardstick spends on the same machine, in the same minutes. The
servers run on one core, the driver on another; CPU is read from /proc; of many short rounds, taken in turn, the least
counts. Ratios are comparable between machines, the numbers beside them are not. bench/README.md explains each row.

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
    if arguments.rounds:
        effort = msgspec.structs.replace(effort, rounds=arguments.rounds)
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
    for scenario, group in groupby(figures, lambda figure: figure.scenario):
        members = list(group)
        lacks = {figure.name: machine.missing(figure.needs) for figure in members}
        able = [figure for figure in members if not lacks[figure.name]]
        least, why = _minima(scenario, able, effort, cores)
        for figure in members:
            if lacks[figure.name] or why:
                yield NotMeasured(figure, ", ".join(lacks[figure.name]) or why)
            else:
                yield Measured(figure, least[figure.ours], least[figure.theirs])


def _minima(scenario: str, figures: Sequence[Figure], effort: Effort, cores: Cores) -> tuple[Mapping[str, float], str]:
    """What each contestant needs at least, and why there is none where measuring failed."""
    if not figures:
        return {}, ""
    wanted = frozenset(label for figure in figures for label in (figure.ours, figure.theirs))
    _tell(f"{scenario}: ", end="")
    began, tick = time.monotonic(), partial(_tell, ".", end="")
    try:
        match figures[0].room:
            case Room.TRIP:
                least = trips.minima(scenario, wanted, cores, effort, tick)
            case Room.IN_PROCESS:
                least = in_process.minima(scenario, wanted, cores, effort, tick)
            case Room.INSTRUCTIONS:
                least = instructions.instructions(scenario, wanted, cores, effort, tick)
    except (StartFailed, LoadFailed, ChildFailed) as error:
        _tell(f" {error}")
        return {}, str(error)
    told = "; ".join(f"{label} {value:.4g}" for label, value in least.items())
    _tell(f" {told}  ({time.monotonic() - began:.0f} s)")
    return least, ""


def _method(effort: Effort) -> str:
    return (
        f"trips: minima of {effort.rounds} rounds of {effort.seconds} s over {effort.sittings} fresh starts, "
        "servers in turn on one core, wrk -t1 -c64 on another; "
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
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds of a trip (default {FULL.rounds})")
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
