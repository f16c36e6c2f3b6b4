"""How much is measured: rounds, sizes and repetitions of a full run and of a quick look."""

from msgspec import Struct


class Effort(Struct, frozen=True):
    """`rounds` of `seconds` a trip; `runs` fresh children at `share` of the full size; `calls` under callgrind.

    The rounds are spread over `sittings`, each with fresh servers: where a process happens to have its memory decides
    as much as a fifth of what a body of 5 MB costs, and stays so for as long as it runs.
    """

    rounds: int
    sittings: int
    seconds: float
    runs: int
    share: float
    calls: int


# Rounds are as short as a clock of 10 ms ticks allows: a burst of something else then spoils few of them.
FULL = Effort(rounds=15, sittings=3, seconds=0.7, runs=5, share=1.0, calls=5_000)
QUICK = Effort(rounds=1, sittings=1, seconds=0.7, runs=1, share=0.1, calls=1_000)
