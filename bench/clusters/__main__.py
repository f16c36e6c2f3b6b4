"""`python -m bench.clusters`: rounds of both sides at each size, then the sync under heartbeats, then one table."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec

from bench import machine
from bench.clusters.beats import SyncFailed
from bench.clusters.beats import measured as beaten
from bench.clusters.report import Measured, Size, report
from bench.clusters.sides import Taken
from bench.processes import ChildFailed, Server, StartFailed, free_port, output_of, serving, two_cores

SIZES = tuple(Size(slices, endpoints) for endpoints in (10, 100) for slices in (100, 1_000, 10_000))
QUICK_SIZES = (Size(100, 10), Size(1_000, 10))
THEIR_ENDPOINTS = 100_000  # beyond it kubernetes_asyncio takes minutes and gigabytes: not measured
GOOD, FAILED = 0, 1


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser("python -m bench.clusters", description=sys.modules[__name__].__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: does it all work?")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the table there too")
    arguments = parser.parse_args(argv)
    sizes, rounds = (QUICK_SIZES, 1) if arguments.quick else (SIZES, 5)
    try:
        rows = [_measured(size, rounds) for size in sizes]
        beats = beaten(two_cores().server, *((100, 10) if arguments.quick else (1_000, 100)))
    except (ChildFailed, StartFailed, SyncFailed, ExceptionGroup) as error:
        print(f"bench.clusters: {error}", file=sys.stderr)
        return FAILED
    text = report(machine.description(), rows, beats)
    print(text)
    if arguments.out:
        arguments.out.write_text(text)
    return GOOD


def _measured(size: Size, rounds: int) -> Measured:
    """Both sides in turn against one server; the least of each figure."""
    cores, port = two_cores(), free_port()
    command = [sys.executable, "-m", "bench.clusters.api_server", str(port), str(size.slices), str(size.endpoints)]
    ours: list[Taken] = []
    theirs: list[Taken] = []
    with ExitStack() as stack:
        server = stack.enter_context(serving(command, port, cores.driver))
        for number in range(rounds):
            print(f"{size.slices} slices of {size.endpoints}: round {number + 1}", file=sys.stderr, flush=True)
            ours.append(_taken("ours", server, size, cores.server))
            if size.total <= THEIR_ENDPOINTS and (size.total < THEIR_ENDPOINTS or number < 3):
                theirs.append(_taken("theirs", server, size, cores.server))
    return Measured(size, _least(ours), _least(theirs) if theirs else None)


def _taken(side: Literal["ours", "theirs"], server: Server, size: Size, core: int) -> Taken:
    said = output_of([sys.executable, "-m", "bench.clusters.sides", side, str(server.port)], core)
    taken = msgspec.json.decode(said.splitlines()[-1], type=Taken)
    if taken.pools != size.slices:
        raise ChildFailed(f"{side} has {taken.pools} pools of {size.slices}")
    return taken


def _least(rounds: Iterable[Taken]) -> Taken:
    """The least of each figure: noise only adds."""
    columns = zip(*map(msgspec.structs.astuple, rounds), strict=True)
    return Taken(*map(min, columns))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
