"""Places are taken in the order of coming, and none is lost by who gives up."""

import asyncio

import pytest

from gdsvc.frontend.upstream.room import Room


async def waiting(room: Room) -> asyncio.Task[None]:
    task = asyncio.create_task(room.enter())
    await asyncio.sleep(0)
    return task


async def test_a_place_is_free_or_not() -> None:
    room = Room(2)
    assert [room.try_enter() for _ in range(3)] == [True, True, False]
    room.leave()
    assert room.try_enter()


async def test_who_came_first_is_in_first_and_nobody_overtakes() -> None:
    room = Room(1)
    await room.enter()
    first, second = await waiting(room), await waiting(room)
    room.leave()
    assert not room.try_enter()
    await first
    assert not second.done()
    room.leave()
    await second
    room.leave()
    assert room.is_empty


async def test_who_gives_up_leaves_the_queue() -> None:
    room = Room(1)
    await room.enter()
    first, second = await waiting(room), await waiting(room)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    room.leave()
    await second
    room.leave()
    assert room.is_empty


async def test_who_gives_up_in_the_moment_of_being_let_in_passes_the_place_on() -> None:
    room = Room(1)
    await room.enter()
    first, second = await waiting(room), await waiting(room)
    room.leave()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    room.leave()
    assert room.is_empty
