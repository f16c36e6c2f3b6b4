"""How many calls are on their way to a table at one time, and that a table asked for too much gets everything done."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gdsvc.backends.dynamodb.patience import Failed, FaultKind, patiently
from gdsvc.backends.dynamodb.turns import FIRST, MOST, Turns

LONG_SECS = 60.0
SHORT_SECS = 0.02


class Gate:
    """Calls that go on when told to; how many are on their way is in `open`."""

    def __init__(self) -> None:
        self.open = 0
        self._go = asyncio.Event()

    async def __call__(self) -> None:
        self.open += 1
        await self._go.wait()
        self.open -= 1

    def go(self) -> None:
        self._go.set()


async def hang() -> None:
    await asyncio.Event().wait()


async def answer() -> None:
    await asyncio.sleep(0)


async def slow(turns: Turns, count: int) -> None:
    """So many calls at once that are too slow."""
    ended = await asyncio.gather(*(turns.call(hang, SHORT_SECS) for _ in range(count)), return_exceptions=True)
    assert all(isinstance(each, TimeoutError) for each in ended)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_only_so_many_are_on_their_way_and_the_others_get_their_turn() -> None:
    turns, gate = Turns(), Gate()
    calls = [asyncio.create_task(turns.call(gate, LONG_SECS)) for _ in range(FIRST + 3)]
    await settled()
    assert gate.open == FIRST
    gate.go()
    await asyncio.gather(*calls)
    assert gate.open == 0


async def test_calls_that_were_too_slow_together_halve_the_number_once() -> None:
    turns = Turns()
    await slow(turns, FIRST)
    assert turns.allowed == FIRST // 2
    await slow(turns, 1)
    assert turns.allowed == FIRST // 4


async def test_one_is_always_allowed_and_never_more_than_the_most() -> None:
    turns = Turns()
    for _ in range(10):
        await slow(turns, 1)
    assert turns.allowed == 1
    for _ in range(MOST * MOST):
        await turns.call(answer, LONG_SECS)
    assert turns.allowed == MOST


async def test_a_round_of_calls_in_time_raises_the_number_by_one() -> None:
    turns = Turns()
    for _ in range(FIRST + 1):
        await turns.call(answer, LONG_SECS)
    assert turns.allowed == FIRST + 1


async def test_what_waits_for_its_turn_does_not_lose_its_time() -> None:
    turns, gate = Turns(), Gate()
    before = [asyncio.create_task(turns.call(gate, LONG_SECS)) for _ in range(FIRST)]
    late = asyncio.create_task(turns.call(answer, SHORT_SECS))
    await asyncio.sleep(2 * SHORT_SECS)  # longer than the call that waits may take
    gate.go()
    await asyncio.gather(*before, late)


@pytest.mark.parametrize("given", [False, True])
async def test_a_turn_that_is_not_used_is_the_next_ones(given: bool) -> None:
    turns, gate = Turns(), Gate()
    before = [asyncio.create_task(turns.call(gate, LONG_SECS)) for _ in range(FIRST)]
    cancelled = asyncio.create_task(turns.call(answer, LONG_SECS))
    await settled()
    if given:
        before[0].cancel()
        await asyncio.gather(before[0], return_exceptions=True)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    gate.go()
    await asyncio.gather(*before[1:])
    third, others = Gate(), [asyncio.create_task(turns.call(hang, LONG_SECS)) for _ in range(turns.allowed - 1)]
    last = asyncio.create_task(turns.call(third, LONG_SECS))
    await settled()
    assert third.open == 1
    third.go()
    await last
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class SerialTable:
    """Does one call after the other, each in `secs`; also those that nobody waits for any more."""

    def __init__(self, secs: float) -> None:
        self._secs = secs
        self._free_at = 0.0
        self.asked = 0

    async def __call__(self) -> None:
        now = asyncio.get_running_loop().time()
        self.asked += 1
        self._free_at = max(self._free_at, now) + self._secs
        await asyncio.sleep(self._free_at - now)  # what a call takes


async def persistently(table: Callable[[], Awaitable[None]], turns: Turns) -> None:
    """A relay: whatever it is told, it comes again."""
    noted: list[FaultKind] = []
    while True:
        try:
            return await patiently(table, 0.3, noted.append, what="put", turns=turns)
        except Failed:
            await asyncio.sleep(0.01)  # the pace of the relay


@pytest.mark.loops("uvloop")
async def test_a_table_that_is_asked_for_more_than_it_can_do_gets_everything_done() -> None:
    table, turns, relays = SerialTable(0.004), Turns(), 200
    async with asyncio.timeout(10.0):
        await asyncio.gather(*(persistently(table, turns) for _ in range(relays)))
    assert relays <= table.asked <= 2 * relays


@pytest.mark.loops("asyncio")
async def test_a_table_that_is_slow_throughout_is_given_up_only_once() -> None:
    noted: list[FaultKind] = []
    await patiently(lambda: asyncio.sleep(0.7), 1.8, noted.append, what="put", turns=Turns())
    assert noted == ["slow"]
