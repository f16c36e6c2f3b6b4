"""Figures in instructions, counted by valgrind's callgrind: the same on a busy machine as on an idle one.

A child, `python -m bench.instructions SUBJECT CALLS`, runs with N calls and with 2 N; the difference over N is one
call with its turn of a Python loop, which is the same loop on both sides of a ratio.
"""

import asyncio
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench import payloads
from bench.canned_table import NaiveReader, polled
from bench.effort import Effort
from bench.processes import Cores, outputs_of
from gdsvc._pool_index import PoolIndex
from gdsvc.model import PoolRegistration

TTL = 15.0
POOLS = 1_000
POOLS_TO_PICK = 100

_TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def _renew(calls: int) -> None:
    """Heartbeats of POOLS pools in turn."""
    index = PoolIndex(1)
    bodies = [payloads.large(number) for number in range(POOLS)]
    for number, body in enumerate(bodies):
        key = b"%06d" % number
        index.put(key, body)
        index.beat(key, body, 0.0, TTL, fresh=True)
    renew = index.renew
    for body, now in zip(itertools.cycle(bodies), _instants(calls), strict=False):
        renew(body, now, TTL)
    if index.renewed != calls:
        raise AssertionError(f"{index.renewed} of {calls} took the fast path")


def _decode(calls: int) -> None:
    bodies = [payloads.large(number) for number in range(POOLS)]
    decode = msgspec.json.Decoder(PoolRegistration).decode
    for body, _ in zip(itertools.cycle(bodies), _instants(calls), strict=False):
        decode(body)


def _instants(calls: int) -> "itertools.islice[float]":
    return itertools.islice(itertools.count(0.0, 5.0 / POOLS), calls)


def _pick(calls: int) -> None:
    module = import_module("gdsvc._picker")
    pick = module.RoundRobin(_pools()).pick
    for _ in itertools.repeat(None, calls):
        pick()


def _cycle(calls: int) -> None:
    following = itertools.cycle(_pools()).__next__
    for _ in itertools.repeat(None, calls):
        following()


def _poll(calls: int) -> None:
    """Polls of POOLS pools, all of them renewed since the last."""

    async def polls() -> None:
        async with polled(POOLS) as made:
            for _ in range(calls // POOLS):
                await made.poll()

    asyncio.run(polls())


def _poll_naively(calls: int) -> None:
    reader = NaiveReader(POOLS)
    for _ in range(calls // POOLS):
        reader.poll()


def _pools() -> list[tuple[str, list[str]]]:
    return [(f"pool-{number}", [f"http://10.0.0.{number}:8000"]) for number in range(POOLS_TO_PICK)]


SUBJECTS: Mapping[str, Mapping[str, Callable[[int], None]]] = {
    "fast-path": {"PoolIndex.renew": _renew, "msgspec typed decode": _decode},
    "poll": {"gdsvc": _poll, "poll of an afternoon": _poll_naively},
    "pick": {"RoundRobin.pick": _pick, "itertools.cycle": _cycle},
}


def visit(
    scenario: str, wanted: frozenset[str], cores: Cores, effort: Effort, number: int
) -> Iterator[tuple[str, float]]:
    """Instructions a call for each contestant that is `wanted`, counted at the first visit: they are always the same.

    Both cores count: time is not what is measured. Raises ChildFailed.
    """
    for label in SUBJECTS[scenario] if number == 0 else ():
        if label in wanted:
            yield label, a_call("bench.instructions", f"{scenario}/{label}", effort.calls, cores)


def a_call(module: str, subject: str, calls: int, cores: Cores) -> float:
    """Instructions of one call in a child, `python -m MODULE SUBJECT CALLS`. Raises ChildFailed."""
    with TemporaryDirectory() as folder:
        once, twice = Path(folder) / "once", Path(folder) / "twice"
        outputs_of(
            (_under_callgrind(once, module, subject, calls), cores.server),
            (_under_callgrind(twice, module, subject, 2 * calls), cores.driver),
        )
        return (total_of(twice.read_text()) - total_of(once.read_text())) / calls


def _under_callgrind(profile: Path, module: str, subject: str, calls: int) -> list[str]:
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
    same_hashes = ["env", "PYTHONHASHSEED=0"]
    return [*same_hashes, *tool, sys.executable, "-m", module, subject, str(calls)]


def total_of(profile: str) -> int:
    """All instructions of a callgrind profile. Raises ValueError."""
    found = _TOTAL.search(profile)
    if found is None:
        raise ValueError("a callgrind profile without totals")
    return int(found[1])


def main(argv: list[str]) -> None:
    """The child."""
    scenario, _, label = argv[0].partition("/")
    SUBJECTS[scenario][label](int(argv[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
