"""How much is measured: rounds, sizes and repetitions of a full run and of a quick look."""

from msgspec import Struct


class Effort(Struct, frozen=True):
    """A run goes round all scenarios `visits` times, so that a bad minute of the machine spoils a visit and no row.

    A visit to a trip is `rounds` of `seconds` with fresh servers: which pages of memory a body happens to lie in
    decides as much as a fifth of what it costs to send, on both sides, for as long as the process runs. In process,
    `runs` fresh children, at `share` of the full size, are spread over the visits; callgrind counts `calls` once.
    """

    visits: int
    rounds: int
    seconds: float
    runs: int
    share: float
    calls: int

    def runs_at(self, visit: int, times: int = 1) -> int:
        """How many of `times` x `runs` fall to a visit, counted from 0."""
        return len(range(visit, times * self.runs, self.visits))


# Rounds are as short as a clock of 10 ms ticks allows: a burst of something else then spoils few of them.
FULL = Effort(visits=10, rounds=1, seconds=0.5, runs=5, share=1.0, calls=5_000)
QUICK = Effort(visits=1, rounds=1, seconds=0.7, runs=1, share=0.1, calls=1_000)
