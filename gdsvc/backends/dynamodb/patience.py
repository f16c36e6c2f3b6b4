"""How often and how long a call to the table is repeated: with jitter, each attempt within its share, until a deadline.

Every call here may be repeated: a put of a renewal says the same twice, and a registration is put under a condition.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

from gdsvc.backends.dynamodb.turns import Turns

T = TypeVar("T")

FaultKind = Literal["throttled", "slow", "unreachable", "server", "refused", "absent", "credentials"]
FAULT_KINDS: Final[tuple[FaultKind, ...]] = (
    "throttled",
    "slow",
    "unreachable",
    "server",
    "refused",
    "absent",
    "credentials",
)

FIRST_WAIT_SECS = 0.02
LONGEST_WAIT_SECS = 1.0
FIRST_ATTEMPT_SHARE = 1 / 3  # of the time a call has: one that hangs leaves time for another
ATTEMPTS_GROW = 2.0  # or a table that is slow throughout would be given up each time just before it answers
SHORTEST_ATTEMPT_SECS = 0.25


class Failed(Exception):
    """A call that did not come to its end. `passing`: it may do so if it is repeated. str() holds no secret."""

    def __init__(self, kind: FaultKind, what: str) -> None:
        super().__init__(what)
        self.kind: FaultKind = kind
        self.passing = kind not in ("refused", "absent")


Noted = Callable[[FaultKind], None]


async def patiently(
    call: Callable[[], Awaitable[T]], secs: float, noted: Noted, *, what: str, turns: Turns | None = None
) -> T:
    """What `call` returns, repeated for at most `secs`; each failure is `noted`. Raises Failed, the last one.

    Each attempt waits for its turn, if there are any, and its own time begins only then.
    """
    now = asyncio.get_running_loop().time
    until = now() + secs
    wait_secs = FIRST_WAIT_SECS
    attempt_secs = max(secs * FIRST_ATTEMPT_SHARE, SHORTEST_ATTEMPT_SECS)
    while True:
        try:
            async with asyncio.timeout_at(until):
                return await (turns or Turns()).call(call, min(attempt_secs, until - now()))
        except TimeoutError:
            failed = Failed("slow", f"{what} took too long")
            attempt_secs *= ATTEMPTS_GROW
        except Failed as error:
            failed = error
        noted(failed.kind)
        pause = wait_secs * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
        if not failed.passing or now() + pause >= until:
            raise failed
        await asyncio.sleep(pause)
        if now() >= until:  # a busy loop slept for longer: another attempt would only say that it had no time
            raise failed
        wait_secs = min(2 * wait_secs, LONGEST_WAIT_SECS)
