"""Renewals put together: how many in a call, what is repeated, who is told of what."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.codec import Item
from gdsvc.backends.dynamodb.patience import Failed, FaultKind
from gdsvc.backends.dynamodb.table import PUTS
from tests.unit.backends.dynamodb.scripted import ScriptedTable

THROTTLED = Failed("throttled", "busy")
REFUSED = Failed("refused", "no")


def item(name: str, said: str = "") -> Item:
    return {"pk": {"S": "s0"}, "sk": {"S": name}, "r": {"S": said}}


class Stand:
    def __init__(self, table: ScriptedTable, batches: Batches, noted: list[FaultKind]) -> None:
        self.table, self.batches, self.noted = table, batches, noted

    async def put_all(self, names: Sequence[str]) -> list[BaseException | None]:
        return await asyncio.gather(*(self.batches.put(item(name)) for name in names), return_exceptions=True)


@asynccontextmanager
async def stand(secs: float = 2.0) -> AsyncIterator[Stand]:
    table, noted = ScriptedTable(), list[FaultKind]()
    async with Batches(table, secs, noted.append) as batches:
        yield Stand(table, batches, noted)


async def test_what_comes_together_goes_in_calls_of_twenty_five() -> None:
    async with stand() as made:
        assert await made.put_all([f"{number:02}" for number in range(60)]) == [None] * 60
        assert [size for _, size in made.table.calls] == [PUTS, PUTS, 10]
        assert (made.batches.calls, made.batches.puts) == (3, 60)


async def test_two_for_one_key_are_one_put_of_the_newer_and_both_callers_go_on() -> None:
    async with stand() as made:
        await asyncio.gather(made.batches.put(item("a", "older")), made.batches.put(item("a", "newer")))
        assert made.table.calls == [("put_renewals", 1)]
        assert made.table.of("a")["r"] == {"S": "newer"}


async def test_only_what_had_no_room_is_sent_again() -> None:
    async with stand() as made:
        refusals = [["b", "c"], ["c"], []]
        made.table.unprocessed = lambda items: [each for each in items if each["sk"]["S"] in refusals[0]]

        def answer(items: Sequence[Item]) -> list[Item]:
            left = refusals.pop(0)
            return [each for each in items if each["sk"]["S"] in left]

        made.table.unprocessed = answer
        assert await made.put_all("abc") == [None, None, None]
        assert [size for _, size in made.table.calls] == [3, 2, 1]
        assert made.noted == ["throttled", "throttled"]


async def test_who_is_written_goes_on_without_waiting_for_who_is_not() -> None:
    async with stand() as made:
        made.table.unprocessed = lambda items: [each for each in items if each["sk"]["S"] == "b"]
        late = asyncio.ensure_future(made.batches.put(item("b")))
        await made.batches.put(item("a"))
        assert not late.done()
        made.table.unprocessed = lambda items: []
        await late


async def test_a_call_that_hangs_is_repeated_within_the_time_of_a_heartbeat() -> None:
    async with stand(1.0) as made:
        made.table.hangs = 1
        assert await made.put_all("a") == [None]
        assert made.noted == ["slow"]


async def test_what_passes_is_repeated_and_what_was_lost_too() -> None:
    async with stand() as made:
        made.table.fails = [THROTTLED, Failed("server", "500")]
        made.table.loses = [Failed("unreachable", "the answer was lost")]
        assert await made.put_all("a") == [None]
        assert made.noted == ["throttled", "server", "unreachable"]


async def test_a_refusal_is_told_to_all_of_its_batch_and_not_repeated() -> None:
    async with stand() as made:
        made.table.fails = [REFUSED]
        assert await made.put_all("ab") == [REFUSED, REFUSED]
        assert len(made.table.calls) == 1


async def test_when_its_time_is_over_the_last_failure_is_told() -> None:
    async with stand(0.1) as made:
        made.table.fails = [THROTTLED] * 1000
        assert await made.put_all("a") == [THROTTLED]
        assert len(made.table.calls) < 10, "with growing pauses"


async def test_who_waits_when_the_service_stops_is_told() -> None:
    async with stand() as made:
        made.table.hangs = 1
        waiting = asyncio.ensure_future(made.batches.put(item("a")))
        await made.table.begun.wait()
        unsent = asyncio.ensure_future(made.batches.put(item("b")))
        await asyncio.sleep(0)
    for task in (waiting, unsent):
        with pytest.raises(Failed, match="stopping"):
            await task


async def test_a_caller_that_leaves_takes_nobody_with_it() -> None:
    async with stand() as made:
        leaving = asyncio.ensure_future(made.batches.put(item("a")))
        staying = asyncio.ensure_future(made.batches.put(item("a")))
        await asyncio.sleep(0)
        leaving.cancel()
        await staying
        assert made.table.calls == [("put_renewals", 1)]
