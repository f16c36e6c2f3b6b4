"""How much is measured: rounds, sizes and repetitions of a full run and of a quick look."""

from msgspec import Struct


class Effort(Struct, frozen=True):
    """`rounds` of `seconds` a trip; `runs` fresh children at `share` of the full size; `calls` under callgrind.

    The rounds are spread over `sittings`, each with fresh servers: which pages of memory a body happens to lie in
    decides as much as a fifth of what it costs to send, on both sides, for as long as the process runs.
    """

    rounds: int
    sittings: int
    seconds: float
    runs: int
    share: float
    calls: int


# Rounds are as short as a clock of 10 ms ticks allows: a burst of something else then spoils few of them.
FULL = Effort(rounds=16, sittings=8, seconds=0.6, runs=5, share=1.0, calls=5_000)
QUICK = Effort(rounds=1, sittings=1, seconds=0.7, runs=1, share=0.1, calls=1_000)
