"""What the tests of watchers share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.http.watched_feed import MovableLoop, Run, Stand


@pytest.fixture
def run() -> Iterator[Run]:
    """`run(test)` awaits `test(stand)` on a loop that can be moved."""
    with ThreadPoolExecutor(1) as executor, asyncio.Runner(loop_factory=MovableLoop) as runner:

        async def whole(test: Callable[[Stand], Awaitable[None]]) -> None:
            await test(Stand(executor))

        yield lambda test: runner.run(whole(test))
