"""What a heartbeat does to the table, where writers meet, and where the table fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.codec import KEEP_AGAIN_SECS, KEPT_SECS, Place
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.dynamodb.patience import Failed, FaultKind
from gdsvc.backends.shared.store import Registration
from gdsvc.errors import Unavailable
from tests.unit.backends.dynamodb.scripted import ScriptedTable

NOW = 1_800_000_000.0
P = b"s\0n\0p"
HEARTBEAT, REGISTRATION = "hp/s/n/p", "rp/s/n/p"


class Stand:
    def __init__(self, table: ScriptedTable, engine: DynamoEngine, time: list[float]) -> None:
        self.table, self.engine, self.time = table, engine, time

    def operations(self) -> list[str]:
        """Those since the last time."""
        operations = [operation for operation, _ in self.table.calls]
        self.table.calls.clear()
        return operations


@asynccontextmanager
async def stand(table: ScriptedTable | None = None, *, secs: float = 2.0) -> AsyncIterator[Stand]:
    made, time, noted = table or ScriptedTable(), [NOW], list[FaultKind]()
    writer = Writer(noted.append, secs=secs, lease_secs=15.0)
    writer.place = Place(1)
    async with Batches(made, secs, noted.append) as batches:
        writer.open(made, batches)
        yield Stand(made, DynamoEngine(writer, Kind.POOL, lambda: time[0]), time)


async def test_the_first_heartbeat_writes_both_items_and_the_next_one_alone() -> None:
    async with stand() as made:
        written = await made.engine.write(P, b"{}")
        assert made.operations() == ["get", "put", "put_renewals"]
        assert written.registration == Registration(int(NOW * 1000), b"{}")
        renewal = await made.engine.renew(P, written.registration.version)
        assert made.operations() == ["put_renewals"]
        assert renewal is not None
        assert renewal.stamp != written.renewal.stamp
        found = codec.found_in(made.table.of(HEARTBEAT))
        assert found is not None
        assert found.renewal == renewal


async def test_a_payload_that_is_there_already_is_renewed_and_not_written_again() -> None:
    async with stand() as made:
        first = await made.engine.write(P, b"{}")
        made.operations()
        second = await made.engine.write(P, b"{}")
        assert made.operations() == ["get", "put_renewals"]
        assert second.registration == first.registration


async def test_relays_that_say_the_same_at_one_time_share_one_write() -> None:
    async with stand() as made:
        written = await asyncio.gather(*(made.engine.write(P, b"{}") for _ in range(500)))
        assert made.operations() == ["get", "put", "put_renewals"]
        assert len({each.registration.version for each in written}) == 1


async def test_of_two_changes_at_one_time_one_stays_and_both_writers_hear_which() -> None:
    async with stand() as one, stand(one.table) as other:
        first = await one.engine.write(P, b"first")
        both = await asyncio.gather(one.engine.write(P, b"one"), other.engine.write(P, b"other"))
        assert both[0].registration == both[1].registration
        assert both[0].registration.version > first.registration.version


async def test_a_change_whose_answer_was_lost_is_repeated_and_found_to_be_there() -> None:
    async with stand() as made:
        made.table.loses = [Failed("unreachable", "lost")]
        written = await made.engine.write(P, b"{}")
        assert made.operations() == ["get", "put", "put", "get", "put_renewals"]
        assert written.registration.payload == b"{}"


async def test_a_later_change_is_a_later_version_though_the_clock_went_back() -> None:
    async with stand() as made:
        first = await made.engine.write(P, b"first")
        made.time[0] -= 3600.0
        second = await made.engine.write(P, b"second")
        assert second.registration.version == first.registration.version + 1


async def test_a_registration_is_kept_again_once_a_day_by_whoever_renews_it() -> None:
    async with stand() as made:
        version = (await made.engine.write(P, b"{}")).registration.version
        made.time[0] += KEEP_AGAIN_SECS
        await made.engine.renew(P, version)
        made.operations()
        made.time[0] += 1.0
        await made.engine.renew(P, version)
        assert made.operations() == ["keep", "put_renewals"]
        assert made.table.of(REGISTRATION)["ttl"] == {"N": str(int(made.time[0]) + KEPT_SECS)}
        await made.engine.renew(P, version)
        assert made.operations() == ["put_renewals"]


async def test_a_registration_that_the_table_dropped_is_to_be_written_again() -> None:
    async with stand() as made:
        assert await made.engine.renew(P, 7) is None
        assert HEARTBEAT not in {sort_key for _, sort_key in made.table.items}


async def test_a_deregistration_is_a_renewal_that_says_gone() -> None:
    async with stand() as made:
        await made.engine.write(P, b"{}")
        renewal = await made.engine.deregister(P, 7)
        assert renewal is not None
        assert renewal.gone
        assert await made.engine.find(P) == renewal


@pytest.mark.parametrize("fails", [[Failed("refused", "no")], [Failed("throttled", "busy")] * 1000])
async def test_a_heartbeat_that_could_not_be_written_says_so_and_when_to_try_again(fails: list[Failed]) -> None:
    async with stand(secs=0.1) as made:
        made.table.fails = list(fails)
        with pytest.raises(Unavailable, match="could not be written") as raised:
            await made.engine.write(P, b"{}")
        assert raised.value.retry_after_secs == 1


async def test_all_calls_of_a_heartbeat_together_take_no_longer_than_it_has() -> None:
    async with stand(secs=0.3) as made:
        made.table.hangs = 1000
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        with pytest.raises(Unavailable):
            await made.engine.write(P, b"{}")
        assert loop.time() - began_at < 0.8


async def test_nothing_is_written_before_the_layout_is_known() -> None:
    noted: list[FaultKind] = []
    engine = DynamoEngine(Writer(noted.append, secs=1.0, lease_secs=15.0), Kind.POOL)
    for attempt in (engine.write(P, b"{}"), engine.find(P), engine.renew(P, 1), engine.deregister(P, 1)):
        with pytest.raises(Unavailable, match="not been reached"):
            await attempt
