"""How a command ends before its time: SIGINT, SIGTERM, SIGHUP, and a reader at the far end of a pipe that leaves."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from enum import Enum
from types import FrameType, TracebackType
from typing import Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending(Enum):
    """Why `run_until_told` returned."""

    DONE = "the work is done"
    TOLD = "a signal asked for the end"
    READER_LEFT = "nobody reads the output any more"


class _Told:
    """While it is entered: cancels the task that entered it at the first word to end.

    A second signal does what it does by default, so that who is in a hurry need not wait for the cleaning up.
    """

    def __init__(self, pipe: int | None, held_up: Callable[[], bool]) -> None:
        self.ending = Ending.DONE
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._signals = [number for number in SIGNALS if not _is_held_off(number)]
        self._pipe = pipe
        self._held_up = held_up

    def __enter__(self) -> Self:
        for number in self._signals:
            self._loop.add_signal_handler(number, self._end, Ending.TOLD)
            signal.signal(number, self._break_off)  # beside the loop's own: what is held up is no longer started again
        if self._pipe is not None:  # a writing end turns readable at one thing only: an error, which is no reader
            self._loop.add_reader(self._pipe, self._end, Ending.READER_LEFT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)

    def _break_off(self, number: int, frame: FrameType | None) -> None:
        """Ends work that holds the loop up, by an exception where it waits; else the loop hears of the signal."""
        del number, frame
        if self._held_up():
            self.__exit__(None, None, None)
            self.ending = Ending.TOLD
            raise asyncio.CancelledError

    def _end(self, ending: Ending) -> None:
        self.__exit__(None, None, None)
        self.ending = ending
        if self._task is not None:
            self._task.cancel()


def _never() -> bool:
    return False


async def run_until_told(
    work: Coroutine[None, None, None], pipe: int | None = None, held_up: Callable[[], bool] = _never
) -> Ending:
    """Awaits `work` until it returns, raises, or is told to end by a signal or by the closing of `pipe`.

    Work that is told to end is cancelled, and may take its time to clean up. `pipe` is the descriptor of the writing
    end of a pipe. `held_up()` tells whether work waits where the loop cannot hear, as in writing to who does not read.
    Raises what `work` raises.
    """
    with _Told(pipe, held_up) as told:
        try:
            await work
        except asyncio.CancelledError:
            if told.ending is Ending.DONE:
                raise
        return told.ending


def _is_held_off(number: signal.Signals) -> bool:
    """Whether who started us wants it ignored, as nohup does with SIGHUP. SIGINT and SIGTERM always count."""
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
