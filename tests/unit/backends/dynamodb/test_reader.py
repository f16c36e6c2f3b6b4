"""Passes of reading over a table that answers as told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gdsvc import model
from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.batches import Batches
from gdsvc.backends.dynamodb.engine import DynamoEngine, Writer
from gdsvc.backends.dynamodb.keys import LAYOUT_KEY, Kind
from gdsvc.backends.dynamodb.patience import Failed, FaultKind
from gdsvc.backends.dynamodb.reader import Reader
from gdsvc.backends.shared.reading import Trust
from gdsvc.backends.shared.store import Shared, SharedPoolStore
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.lease_clock import LeaseClock
from tests.unit.backends.dynamodb.scripted import ScriptedTable

REFUSED = Failed("refused", "query: AccessDeniedException")


class Stand:
    def __init__(self, table: ScriptedTable, writer: Writer, every_secs: float) -> None:
        self.table = table
        engines = {Kind.POOL: DynamoEngine(writer, Kind.POOL)}
        shared = Shared(engines[Kind.POOL], every_secs)
        self.store = SharedPoolStore(Lease(5, 15), LeaseClock(15), "2026-01-01T00:00:00.000Z", shared)
        self.reader = Reader(writer, {Kind.POOL: self.store}, engines, every_secs)

    def models(self) -> list[str | None]:
        self.store.view()
        return [model.decode_listing(encoded).model for encoded in self.store.index.listings()]


@asynccontextmanager
async def stand(
    table: ScriptedTable | None = None, *, every_secs: float = 2.0, shards: int = 1
) -> AsyncIterator[Stand]:
    made, noted = table or ScriptedTable(), list[FaultKind]()
    made.items.setdefault(LAYOUT_KEY, codec.layout_item(shards))
    writer = Writer(noted.append, secs=2.0, lease_secs=15.0)
    async with Batches(made, 2.0, noted.append) as batches:
        writer.open(made, batches)
        yield Stand(made, writer, every_secs)


def pool(said: str) -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", "p"), model=said)


async def test_a_pass_shows_what_another_wrote_and_fetches_only_what_changed() -> None:
    async with stand(shards=3) as one, stand(one.table) as other:
        await one.reader.poll()
        await other.reader.poll()
        await one.store.register(pool("m"))
        one.table.calls.clear()
        await other.reader.poll()
        assert [operation for operation, _ in one.table.calls] == ["renewals"] * 3 + ["get_all"]
        one.table.calls.clear()
        await other.reader.poll()
        assert [operation for operation, _ in one.table.calls] == ["renewals"] * 3
        assert other.models() == ["m"]


async def overtaken(by: Stand, at: Stand, *, then: Callable[[], Awaitable[None]] | None = None) -> None:
    """A renewal through `at` of what was registered first arrives behind a change through `by`."""
    await at.reader.poll()
    await at.store.register(pool("m"), b"m")
    await by.reader.poll()
    gate = at.table.hold("put_renewals")
    late = asyncio.ensure_future(at.store.renew(b"m"))
    await gate.reached.wait()
    await by.store.register(pool("n"))
    if then is not None:
        await then()
    gate.opened.set()
    assert await late, "it was written, so it is answered"
    assert int(at.table.of("hp/s/n/p")["v"]["N"]) < int(at.table.of("rp/s/n/p")["v"]["N"])


async def test_a_renewal_that_arrives_behind_a_change_undoes_nothing() -> None:
    async with stand() as a, stand(a.table) as b, stand(a.table) as c:
        await overtaken(b, a, then=c.reader.poll)
        for each in (c, b, c, b):
            await each.reader.poll()
            assert each.models() == ["n"]


async def test_a_change_that_an_older_renewal_hides_is_shown_by_all_within_two_readings() -> None:
    async with stand() as a, stand(a.table) as b:
        await overtaken(b, a)
        for each in (a, b, a):
            await each.reader.poll()
        assert (a.models(), b.models()) == (["n"], ["n"])
        assert not await a.store.renew(b"m"), "what is not shown is not renewed by its body"


async def test_it_is_the_reader_that_knows_the_change_that_makes_the_last_renewal_name_it_and_once() -> None:
    async with stand() as a, stand(a.table) as b:
        await overtaken(b, a)
        a.table.calls.clear()
        await a.reader.poll()
        assert "name_later" not in [operation for operation, _ in a.table.calls]
        for _ in range(2):
            await b.reader.poll()
        assert [operation for operation, _ in a.table.calls].count("name_later") == 1
        await a.reader.poll()
        assert (a.models(), a.store.index.renewed) == (["n"], 1), "it is no heartbeat"


async def test_where_naming_a_change_fails_the_reading_counts_and_the_next_one_tries_again() -> None:
    async with stand() as a, stand(a.table) as b:
        await overtaken(b, a)
        a.table.spoils["name_later"] = Failed("throttled", "busy")
        await b.reader.poll()
        assert b.store.trust is not Trust.UNREAD
        await b.reader.poll()
        await a.reader.poll()
        assert a.models() == ["n"]


async def test_an_item_that_cannot_be_read_is_counted_and_harms_nothing() -> None:
    async with stand() as one, stand(one.table) as other:
        await one.reader.poll()
        await one.store.register(pool("m"))
        one.table.of("rp/s/n/p")["d"] = {"S": "no JSON"}
        await other.reader.poll()
        assert (other.models(), other.reader.unreadable) == ([], 1)
        await one.store.register(pool("again"))
        await other.reader.poll()
        assert (other.models(), other.reader.unreadable) == (["again"], 0)


@pytest.mark.parametrize(("item", "kind"), [(None, "absent"), (codec.layout_item(4) | {"v": {"N": "2"}}, "refused")])
async def test_a_table_without_a_layout_that_we_know_is_not_read(item: codec.Item | None, kind: str) -> None:
    async with stand() as made:
        del made.table.items[LAYOUT_KEY]
        if item is not None:
            made.table.items[LAYOUT_KEY] = item
        with pytest.raises(Failed) as raised:
            await made.reader.poll()
        assert (raised.value.kind, raised.value.passing) == (kind, False)
        assert made.store.trust is Trust.UNREAD


async def test_it_reads_until_it_is_left_and_goes_on_after_passes_that_fail() -> None:
    async with stand(every_secs=0.01) as one, stand(one.table) as other:
        await other.reader.poll()
        await other.store.register(pool("m"))
        one.table.fails = [REFUSED, REFUSED]
        async with one.reader:
            async with asyncio.timeout(10.0):
                while one.reader.polls < 4 or one.store.trust is Trust.UNREAD:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
        assert one.models() == ["m"]
