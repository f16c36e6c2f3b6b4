"""`python -m bench.stores`: heartbeats and readings through memory, DynamoDB and Kubernetes, then one report."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from msgspec import Struct

from bench import machine
from bench.processes import StartFailed, two_cores
from bench.stores import heartbeats, places, readings
from bench.stores.beats import BeatFailed
from bench.stores.places import HEARTBEATS_TABLE, READINGS_TABLE, NotThere
from bench.stores.readings import Reading
from bench.stores.report import Result, report
from bench.stores.tables import Check, check, laid_out
from gdsvc.backends.dynamodb.patience import Failed

GOOD, FAILED = 0, 1

Opened = TypeVar("Opened")


class Effort(Struct, frozen=True):
    """How much is measured: rounds, seconds of a round of heartbeats, and sizes of what is read.

    After `longest_secs` no other size is begun: on a machine that is too busy for this a figure is worth nothing.
    """

    rounds: int
    secs: float
    pools: tuple[int, ...]
    longest_secs: float = 270.0


FULL = Effort(rounds=3, secs=2.0, pools=(100, 1_000, 10_000))
QUICK = Effort(rounds=1, secs=1.0, pools=(100, 1_000))


def main(argv: Sequence[str]) -> int:
    """The exit code: 0 where every store was measured, 1 where one is not there or a measurement failed."""
    parser = argparse.ArgumentParser("python -m bench.stores", description=sys.modules[__name__].__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: does it all work?")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write it there too; COMMIT becomes the commit")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _stop)
    effort = QUICK if arguments.quick else FULL
    try:
        result = measured(effort)
    except (BeatFailed, StartFailed, Failed, ExceptionGroup) as error:
        _tell(str(error))
        return FAILED
    text = report([*machine.description(), *_method(effort)], result)
    print(text, end="")
    if arguments.out:
        Path(str(arguments.out).replace("COMMIT", machine.commit())).write_text(text)
    return FAILED if result.missing else GOOD


def measured(effort: Effort) -> Result:
    """Starts what is there, measures it, and stops it. Raises BeatFailed, StartFailed, Failed."""
    until = time.monotonic() + effort.longest_secs
    cores = two_cores()
    places.stay_on(cores.driver)  # with all that is started, less the services
    missing: dict[str, str] = {}
    read: list[Reading] = []
    with ExitStack() as stack:
        tables = _opened(stack, missing, "DynamoDB", lambda: places.dynamodb(cores.driver))
        leases = _opened(stack, missing, "Kubernetes", places.kubernetes)
        there = [places.memory()]
        if tables is not None:
            laid_out(tables)
            there.append(tables.place(HEARTBEATS_TABLE))
        if leases is not None:
            there.append(leases)
        _tell(f"heartbeats through {', '.join(place.name for place in there)}")
        beats = heartbeats.measured(there, cores.server, effort.rounds, effort.secs)
        for known, pools in pairwise((0, *effort.pools)):
            if time.monotonic() > until:
                missing[f"What is read of {pools:,} pools"] = "the run had taken too long already"
                break
            _tell(f"readings of {pools:,} pools")
            beside = readings.of_memory(there[0], cores.server, pools, effort.rounds)
            read.append(beside)
            if tables is not None:
                read.append(readings.of_table(tables, cores.server, beside, known, effort.rounds + 1))
            if leases is not None and pools <= readings.MOST_LEASES:
                read.append(readings.of_leases(leases, cores.server, pools, effort.rounds))
        checks: list[Check] = [] if tables is None else check(tables, READINGS_TABLE)
    return Result(beats, read, checks, missing)


def _opened(
    stack: ExitStack, missing: dict[str, str], name: str, opening: Callable[[], AbstractContextManager[Opened]]
) -> Opened | None:
    """The store, until `stack` is left; where it cannot be had, why is said and noted."""
    try:
        return stack.enter_context(opening())
    except NotThere as reason:
        missing[name] = str(reason)
        _tell(f"{name} is not measured: {reason}")
        return None


def _method(effort: Effort) -> list[str]:
    return [
        f"engines: {', '.join(places.engines())}",
        "the service on one core, all else on another; the least CPU and latencies count, of heartbeats in "
        f"{effort.rounds} rounds of {effort.secs:g} s, in each of which all stores take their turn",
    ]


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """So that what was started is stopped."""
    del frame
    sys.exit(128 + number)


def _tell(text: str) -> None:
    print(f"bench.stores: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
