"""So many at once, and no more; who comes later waits, first come first served."""

import asyncio
from collections import deque

from gdsvc._stock import Places


class Room(Places):
    """Places for `most`."""

    __slots__ = ()

    def __init__(self, most: int) -> None:
        super().__init__(most, deque())

    async def enter(self) -> None:
        """Takes a place, as soon as one is free."""
        if self.try_enter():
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self.waiting:
                self.waiting.remove(turn)
            elif not turn.cancelled():  # its turn came in the same moment
                self.leave()
            raise
