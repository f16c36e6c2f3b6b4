"""Work that goes on until it is told to end."""

import asyncio
import os
import signal

import pytest

from gdsvc.commands.interruption import SIGNALS, Ending, run_until_told


async def forever(cleaned: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # cleaning up may wait
        cleaned.append("up")


async def nothing() -> None:
    pass


def test_work_that_ends_by_itself_is_done() -> None:
    assert asyncio.run(run_until_told(nothing())) is Ending.DONE


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_work_after_it_cleaned_up(number: signal.Signals) -> None:
    async def told() -> Ending:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        return await run_until_told(forever(cleaned))

    cleaned: list[str] = []
    assert asyncio.run(told()) is Ending.TOLD
    assert cleaned == ["up"]


def test_a_reader_that_leaves_ends_the_work_and_is_heard_once() -> None:
    async def left() -> Ending:
        asyncio.get_running_loop().call_soon(os.close, reading)
        return await run_until_told(forever(cleaned), writing)

    reading, writing = os.pipe()
    cleaned: list[str] = []
    assert asyncio.run(left()) is Ending.READER_LEFT
    assert cleaned == ["up"]
    os.close(writing)


def test_a_pipe_that_is_read_ends_nothing() -> None:
    reading, writing = os.pipe()
    assert asyncio.run(run_until_told(asyncio.sleep(0.01), writing)) is Ending.DONE
    os.close(reading)
    os.close(writing)


def test_who_cancels_from_outside_is_not_taken_for_a_signal() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(run_until_told(forever([])))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
