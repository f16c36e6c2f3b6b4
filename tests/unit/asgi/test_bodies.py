"""Bodies that arrive at once: what they may hold together, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.body import BodyTooSlow, Budget, read_body
from gdsvc.asgi.types import Received, Scope
from gdsvc.errors import Unavailable

SECS = 30.0


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def scope() -> Scope:
    made: dict[str, Any] = {"type": "http", "headers": []}
    return cast(Scope, made)


def arriving(*chunks: bytes) -> Callable[[], Awaitable[Received]]:
    """Gives the chunks and then nothing, as a caller does that stops sending."""
    left = list(chunks)

    async def receive() -> Received:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": True}
        never: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        return await never

    return receive


async def reading(bodies: Bodies, *chunks: bytes) -> asyncio.Task[bytes]:
    task = asyncio.create_task(bodies.read(scope(), arriving(*chunks)))
    await asyncio.sleep(0)
    return task


def test_a_body_that_takes_too_long_is_ended_and_one_that_just_began_is_not() -> None:
    async def run() -> None:
        time = Time()
        bodies = Bodies(100, secs=SECS, monotonic=time)
        slow = await reading(bodies, b"a")
        time.now = 0.5
        later = await reading(bodies, b"b")
        time.now = 29.999
        bodies.advance()
        await asyncio.sleep(0)
        assert not slow.done()
        time.now = 30.0
        bodies.advance()
        with pytest.raises(BodyTooSlow, match="30 s"):
            await slow
        assert not later.done()
        later.cancel()
        with pytest.raises(asyncio.CancelledError):
            await later

    asyncio.run(run())


def test_a_task_whose_body_was_ended_can_await_again() -> None:
    async def run() -> None:
        time = Time()
        bodies = Bodies(100, secs=SECS, monotonic=time)

        async def handler() -> str:
            try:
                await bodies.read(scope(), arriving(b"a"))
            except BodyTooSlow:
                await asyncio.sleep(0)
                task = asyncio.current_task()
                assert task is not None
                return f"answered, {task.cancelling()} cancellations pending"
            return "read"

        task = asyncio.create_task(handler())
        await asyncio.sleep(0)
        time.now = 30.0
        bodies.advance()
        assert await task == "answered, 0 cancellations pending"

    asyncio.run(run())


def test_bodies_still_arriving_share_one_budget_and_give_it_back() -> None:
    async def run() -> None:
        budget = Budget(10)
        first = asyncio.create_task(read_body(scope(), arriving(b"123456"), 100, budget))
        await asyncio.sleep(0)
        assert budget.held == 6
        with pytest.raises(Unavailable):
            await read_body(scope(), arriving(b"12345"), 100, budget)
        assert budget.held == 6
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert budget.held == 0

    asyncio.run(run())


def test_a_body_that_comes_in_one_piece_needs_no_budget() -> None:
    async def whole() -> Received:
        return {"type": "http.request", "body": b"1234567890", "more_body": False}

    assert asyncio.run(read_body(scope(), whole, 100, Budget(0))) == b"1234567890"
