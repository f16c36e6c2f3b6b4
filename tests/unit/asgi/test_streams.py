"""Streams: how they start, how each of their ends is told apart, and that nothing of them is left."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gdsvc.asgi.streams import End, Stream
from gdsvc.asgi.types import Send
from tests.asgi_pipe import Pipe


class Stand:
    """A stream that writes as it is told, and how it ended."""

    def __init__(self, write: Callable[[Send], Awaitable[None]]) -> None:
        self.ends: list[End] = []
        self.stream = Stream(write, self.ends.append)

    def pipe(self, *, head: bool = False, clogged: bool = False) -> Pipe:
        return Pipe(self.stream, head=head, clogged=clogged)


async def write_twice(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    await send({"type": "http.response.body", "body": b"two", "more_body": False})


async def write_forever(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    await asyncio.get_running_loop().create_future()


def other_tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {task for task in [asyncio.current_task()] if task is not None}


async def until(pipe: Pipe, parts: int) -> None:
    """Until so much has been sent."""
    while len(pipe.parts) < parts:
        await pipe.moved()


async def test_a_stream_is_an_event_stream_that_nobody_stores_or_holds_back() -> None:
    pipe = Stand(write_twice).pipe()
    await pipe.task
    assert pipe.start is not None
    assert pipe.start["status"] == 200
    assert dict(pipe.start["headers"]) == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
    }
    assert (pipe.parts, pipe.ended) == ([b"one", b"two"], True)


async def test_a_stream_that_its_writer_ends_is_written_and_leaves_no_task() -> None:
    stand = Stand(write_twice)
    await stand.pipe().task
    assert stand.ends == [End.WRITTEN]
    assert other_tasks() == set()


async def test_a_caller_that_leaves_ends_the_writer() -> None:
    stand = Stand(write_forever)
    pipe = stand.pipe()
    await until(pipe, 1)
    await pipe.leave()
    assert stand.ends == [End.LEFT]
    assert not pipe.ended
    assert other_tasks() == set()


async def test_a_caller_that_leaves_while_it_takes_nothing_ends_the_writer() -> None:
    stand = Stand(write_forever)
    pipe = stand.pipe(clogged=True)
    await pipe.moved()
    assert pipe.waiting
    await pipe.leave()
    assert stand.ends == [End.LEFT]
    assert other_tasks() == set()


async def test_a_writer_that_is_cut_ends_the_stream_without_a_fault() -> None:
    writer: list[asyncio.Task[object] | None] = []

    async def write(send: Send) -> None:
        writer.append(asyncio.current_task())
        await write_forever(send)

    stand = Stand(write)
    pipe = stand.pipe()
    await until(pipe, 1)
    assert writer[0] is not None
    writer[0].cancel()
    await pipe.task
    assert stand.ends == [End.CUT]
    assert other_tasks() == set()


async def test_a_stream_that_is_cancelled_is_cut_and_says_so_to_its_server() -> None:
    stand = Stand(write_forever)
    pipe = stand.pipe()
    await until(pipe, 1)
    pipe.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pipe.task
    assert stand.ends == [End.CUT]
    assert other_tasks() == set()


async def test_a_fault_of_the_writer_reaches_the_server_which_aborts_the_transfer() -> None:
    async def write(send: Send) -> None:
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        raise RuntimeError("broken")

    stand = Stand(write)
    with pytest.raises(ExceptionGroup) as caught:
        await stand.pipe().task
    assert caught.group_contains(RuntimeError, match="broken")
    assert stand.ends == [End.CUT]
    assert other_tasks() == set()


async def test_head_gets_the_head_and_writes_nothing() -> None:
    stand = Stand(write_twice)
    pipe = stand.pipe(head=True)
    await pipe.task
    assert pipe.start is not None
    assert (pipe.parts, pipe.ended, stand.ends) == ([b""], True, [End.WRITTEN])


async def test_a_stream_whose_head_cannot_be_sent_has_ended_all_the_same() -> None:
    async def send(message: object) -> None:
        raise OSError("gone")

    async def receive() -> object:
        raise AssertionError("nothing was sent")

    stand = Stand(write_twice)
    with pytest.raises(OSError, match="gone"):
        await stand.stream.run(receive, send)  # type: ignore[arg-type]
    assert stand.ends == [End.CUT]
