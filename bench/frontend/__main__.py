"""`python -m bench.frontend`: what is asked for on the command line, and where the report goes."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import msgspec

from bench import machine
from bench.effort import Effort
from bench.figures import chosen
from bench.frontend.figures import FIGURES
from bench.frontend.report import report
from bench.frontend.run import idle_streams, measured
from bench.frontend.trips import LONGER
from bench.processes import two_cores

GOOD, NOT_MEASURED, WRONG = 0, 1, 2

# Twenty rounds of each side, with servers that are started five times; `runs` of memory and selection. A quick look
# counts no instructions: callgrind alone takes a minute.
FULL: Final = Effort(visits=5, rounds=4, seconds=0.5, runs=5, share=1.0, calls=5_000)
QUICK: Final = Effort(visits=1, rounds=1, seconds=0.4, runs=1, share=0.2, calls=0)

EPILOG = """\
Each trip is a ratio: the CPU that `gdsvc frontend` spends on a request, over what another proxy spends on the same
request, before the same stub upstream, on the same machine, in the same minutes. Servers run on one core, wrk and the
stub on another; of many short rounds, taken in turn, the least counts. A round with a single error ends its row. Memory
and selection are judged by our own figure. bench/README.md explains each row.

needed:    apt-get install wrk haproxy nginx-light valgrind;  pip install -e . --config-settings editable_mode=compat
the whole: python -m bench.frontend --out bench/results/frontend-COMMIT.md   (six minutes; leave the machine alone)
a look:    python -m bench.frontend --quick                    (half a minute; too few rounds to trust)
some rows: python -m bench.frontend --only json paced/haproxy  (a name is SCENARIO/YARDSTICK, its beginning will do)
a change:  python -m bench.frontend --only json --visits 2     (before and after; control tells what is noise)
"""


def main(argv: Sequence[str]) -> int:
    """The exit code: 0 where every chosen figure was measured, 1 where one was not, 2 for wrong arguments."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        figures = chosen(arguments.only, FIGURES)
    except ValueError as error:
        parser.error(f"{error}; the names are in --help")
    if arguments.visits is not None and arguments.visits < 1:
        parser.error("--visits: expected 1 or more")
    signal.signal(signal.SIGTERM, _stop)
    machine.find_also_in_sbin()
    effort = QUICK if arguments.quick else FULL
    if arguments.visits:
        effort = msgspec.structs.replace(effort, visits=arguments.visits)
    result, is_whole = measured(figures, effort, two_cores())
    text = report([*machine.description(), *_method(effort)], result)
    print(text, end="")
    if arguments.out is not None:
        out = Path(str(arguments.out).replace("COMMIT", machine.commit()))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    return GOOD if is_whole else NOT_MEASURED


def _method(effort: Effort) -> list[str]:
    paced = LONGER["paced"] * effort.seconds
    counted = f"instructions by callgrind, {effort.calls:,} calls" if effort.calls else "instructions not counted"
    return [
        f"trips: minima over {effort.visits} visits with fresh servers, of {effort.rounds} rounds of "
        f"{effort.seconds:g} s each ({paced:g} s where chunks are paced), in turn; servers on one core, wrk -t1 and "
        "the stub upstream on another",
        f"idle streams: {idle_streams(effort):,}, least of {effort.runs} fresh servers; "
        f"selection: least of {effort.runs} fresh processes; {counted}",
    ]


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(
        f"  {figure.name:32}{figure.what}{f' / {figure.theirs}' if figure.theirs else ''}" for figure in FIGURES
    )
    parser = argparse.ArgumentParser(
        "python -m bench.frontend",
        description="Measures `gdsvc frontend` beside haproxy and nginx, and prints a report in Markdown.",
        epilog=f"{EPILOG}\nfigures:\n{names}\n\nexit codes: 0 all measured; 1 a figure was not; 2 wrong arguments\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE too; COMMIT in it is replaced")
    parser.add_argument("--quick", action="store_true", help="one short round of everything: does it all work?")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="figures whose name begins with a NAME")
    parser.add_argument("--visits", type=int, metavar="N", help=f"to each trip (default {FULL.visits})")
    return parser


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds, which stops what was started."""
    raise SystemExit(128 + signal.SIGTERM)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
