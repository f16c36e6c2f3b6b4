"""How many calls may be on their way to the table at one time: as many as it answers in time.

A call that is given up is work for the table all the same. Where a table answers late since too much is asked of it at
once, calling again at once keeps it so for ever, and nothing is ever done. So a call that was too slow halves the
number, and calls answered in time raise it again, one more for each round of them: as TCP fills a line.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

FIRST: Final = 8  # at 10 ms a call that is more than one processor asks for
MOST: Final = 32


class Turns:
    """Calls wait for their turn here; the time of each begins only with it."""

    def __init__(self) -> None:
        self._allowed = float(FIRST)
        self._cut_at = 0.0
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def allowed(self) -> int:
        """How many may be on their way now."""
        return int(self._allowed)

    async def call(self, call: Callable[[], Awaitable[T]], secs: float) -> T:
        """What `call` returns, within `secs` from its turn on. Raises TimeoutError, and what `call` raises."""
        await self._turn()
        began_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(secs):
                result = await call()
        except TimeoutError:
            self._slow(began_at)
            raise
        finally:
            self._end()
        self._allowed = min(self._allowed + 1 / self._allowed, MOST)
        return result

    def _slow(self, began_at: float) -> None:
        """Those that were on their way together count once."""
        if began_at >= self._cut_at:
            self._allowed = max(self._allowed / 2, 1.0)
            self._cut_at = asyncio.get_running_loop().time()

    async def _turn(self) -> None:
        if self._taken < self.allowed:
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given, and is not used
                self._end()
            raise

    def _end(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
