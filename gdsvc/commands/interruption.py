"""How a command ends before its time: SIGINT, SIGTERM, SIGHUP, and a reader at the far end of a pipe that leaves."""

import asyncio
import signal
from collections.abc import Coroutine
from enum import Enum
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        self._numbers = [number for number in SIGNALS if not _is_held_off(number)]
        self.ending = Ending.DONE

    def listen(self) -> None:
        for number in self._numbers:
            self._loop.add_signal_handler(number, self, Ending.TOLD)

    def __call__(self, ending: Ending) -> None:
        if self.ending is Ending.DONE and self._task is not None:
            self.ending = ending
            self._task.cancel()
        for number in self._numbers:
            self._loop.remove_signal_handler(number)


def _is_held_off(number: signal.Signals) -> bool:
    """Whether who started us wants it ignored, as nohup does with SIGHUP. SIGINT is the one that we document."""
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


async def run_until_told(work: Coroutine[None, None, None], pipe: int | None = None) -> Ending:
    """Awaits `work` until it returns, raises, or is told to end by a signal or by the closing of `pipe`.

    Work that is told to end is cancelled, and may take its time to clean up. `pipe` is the descriptor of the writing
    end of a pipe. Raises what `work` raises.
    """
    loop = asyncio.get_running_loop()
    told = _Told()
    told.listen()
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
