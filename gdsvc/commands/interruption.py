"""How a command ends before its time: SIGINT, SIGTERM, and a reader at the far end of a pipe that leaves."""

import asyncio
import signal
from collections.abc import Coroutine
from enum import Enum
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Ending(Enum):
    """Why `run_until_told` returned."""

    DONE = "the work is done"
    TOLD = "a signal asked for the end"
    READER_LEFT = "nobody reads the output any more"


class _Told:
    """Cancels the task of the work once; a second signal then does what it does by default."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.ending = Ending.DONE

    def __call__(self, ending: Ending) -> None:
        if self.ending is Ending.DONE and self._task is not None:
            self.ending = ending
            self._task.cancel()
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)


async def run_until_told(work: Coroutine[None, None, None], pipe: int | None = None) -> Ending:
    """Awaits `work` until it returns, raises, or is told to end by a signal or by the closing of `pipe`.

    Work that is told to end is cancelled, and may take its time to clean up. `pipe` is the descriptor of the writing
    end of a pipe. Raises what `work` raises.
    """
    loop = asyncio.get_running_loop()
    told = _Told()
    for number in SIGNALS:
        loop.add_signal_handler(number, told, Ending.TOLD)
    if pipe is not None:  # a writing end turns readable at one thing only: an error, which is that nobody reads
        loop.add_reader(pipe, told, Ending.READER_LEFT)
    try:
        await work
    except asyncio.CancelledError:
        if told.ending is Ending.DONE:
            raise
    finally:
        if pipe is not None:
            loop.remove_reader(pipe)
    return told.ending
