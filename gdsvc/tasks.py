"""The end of tasks that live as long as their owner: what an `__aexit__` awaits. What they raise is not looked at."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancelled(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancels them all, and returns once all have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
