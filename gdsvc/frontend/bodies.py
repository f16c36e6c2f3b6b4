"""Request bodies on their way through: what is held of them, and within which bounds for one and for all together.

A body of up to HELD_BYTES is held whole, so that its request can be sent again. Of a longer one that much is held until
it is sent, and the rest goes on as it comes. Where the request goes is decided elsewhere. What is done for every body
is compiled, in Arriving.
"""

import asyncio
from typing import Any, Final, NoReturn, Self

from gdsvc import _arriving
from gdsvc.asgi.body import BodyTooLarge, BodyTooSlow, Disconnected, room_is_spent
from gdsvc.frontend.upstream import Streamed

HELD_BYTES: Final = 8 * 2**20  # in which the model is looked for
SILENCE_SECS: Final = 60.0  # between two parts of a body: a caller that sends a byte an hour would hold a place


class Bounds(_arriving.Bounds):
    """What holds for all bodies: `limit` bytes for one, `budget` bytes held of all, SILENCE_SECS between two parts."""

    def __init__(self, limit: int, budget: int) -> None:
        super().__init__(limit, HELD_BYTES, budget)

    def advance(self, now: float) -> None:
        """Gives up what has waited for too long; `now` is seconds, monotonic. Call it once a second or so."""
        for body in tuple(self.waiting):
            if now - body.waits_since(now) >= SILENCE_SECS:
                body.give_up()


class Incoming(_arriving.Arriving):
    """The body of one request. Its beginning is waited for by the `task` of the request, the rest by its upload.

    Once it has come to its end, whoever wants to know that the caller leaves has to ask `receive`.
    """

    task: asyncio.Task[Any] | None = None  # that waits for it
    is_given_up = False

    def streamed(self) -> Streamed:
        """What is sent on where the body is not whole: it can be sent but once."""
        return Streamed(self, self.length if self.length >= 0 else None)

    def give_up(self) -> None:
        """Nothing of it came for too long: who waits for it is cancelled, and is to ask `gave_up`."""
        self.bounds.waiting.discard(self)
        self.is_given_up = True
        if self.task is not None:
            self.task.cancel()

    def gave_up(self) -> BodyTooSlow | None:
        """What to raise, where that is why this task was cancelled, which it is then no more."""
        if not self.is_given_up or self.task is None or self.task is not asyncio.current_task():
            return None
        self.is_given_up = False
        self.task.uncancel()
        return BodyTooSlow(f"nothing of the body came for {SILENCE_SECS:g} s")

    # -- what is wrong with it

    def too_large(self) -> NoReturn:
        """It exceeds the limit."""
        raise BodyTooLarge(self.bounds.limit)

    def too_much(self) -> NoReturn:
        """All bodies together hold too much."""
        raise room_is_spent()

    def ended_early(self) -> NoReturn:
        """The caller has left, or broke the framing of its chunks."""
        raise Disconnected("the body ended early")

    # -- as the source of an upload

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The parts of a body that is not whole yet: what is held, then the rest as it comes."""
        if held := self.held:
            self.release()
            return held
        if self.is_whole:
            raise StopAsyncIteration
        self.task = asyncio.current_task()
        self.wait()
        try:
            return self.take(await self.receive())
        except asyncio.CancelledError:
            if (too_slow := self.gave_up()) is not None:
                raise too_slow from None
            raise
