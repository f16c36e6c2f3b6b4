"""Replicas over one table of a real server, with a fault proxy before it; their time is the test's."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gdsvc import model
from gdsvc.backends.dynamodb.codec import Place, stamp
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import PAGE, PUTS
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration
from gdsvc.errors import Unavailable
from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica, sort_key
from gdsvc.pool_discovery.watch import Completeness
from tests.dynamodb.faulty_table import FaultyTable
from tests.dynamodb.tables import SHARDS, Replica, replica, table

pytestmark = [pytest.mark.dynamodb, pytest.mark.loops("uvloop"), pytest.mark.timeout(120)]

LEASE = Lease(1, 15)
NOW = 1_800_000_000.0


def pool(name: str, said: str = "m") -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), model=said)


def models(over: Replica) -> dict[str, str | None]:
    over.pools.view()
    listed = map(model.decode_listing, over.pools.index.listings())
    return {listing.key.dgd_name: listing.model for listing in listed}


async def beat(over: Replica, name: str, said: str = "m") -> None:
    body = f"{name} {said}".encode()
    if not await over.pools.renew(body):
        await over.pools.register(pool(name, said), body)


async def test_what_one_registers_changes_and_deregisters_the_other_shows_with_its_next_reading(ministack: str) -> None:
    time = [0.0]
    async with table(ministack) as made, replica(made, time) as a, replica(made, time) as b:
        await beat(a, "p")
        await a.routers.register(RouterReplica("r", "http://r"))
        await b.reader.poll()
        assert (models(b), len(b.routers.index)) == ({"p": "m"}, 1)
        await beat(b, "p", "changed")
        await a.reader.poll()
        assert models(a) == {"p": "changed"}
        assert await a.pools.deregister(PoolKey("s", "n", "p"))
        assert await a.routers.deregister("r")
        await b.reader.poll()
        assert (models(b), len(b.routers.index)) == ({}, 0)
        await beat(b, "p", "back")
        await a.reader.poll()
        assert models(a) == {"p": "back"}


async def test_a_new_replica_reads_all_pages_and_all_registrations(ministack: str) -> None:
    count = SHARDS * PAGE + 500
    place = Place(SHARDS)
    async with table(ministack) as made, replica(made) as over:
        items = []
        for number in range(count):
            name = sort_key(pool(f"{number:05}").key)
            renewal = Renewal(stamp(over.unix_now(), "w", number), over.unix_now(), 15.0, 1)
            registration = Registration(1, model.encode_listing(pool(f"{number:05}")))
            items.append(place.renewal_item(Kind.POOL, name, renewal))
            items.append(place.registration_item(Kind.POOL, name, registration, over.unix_now()))
        batches = [items[start : start + PUTS] for start in range(0, len(items), PUTS)]
        for start in range(0, len(batches), 16):
            await asyncio.gather(*(made.put_renewals(batch) for batch in batches[start : start + 16]))
        await over.reader.poll()
        assert len(models(over)) == count


async def test_a_throttled_table_makes_nothing_flap_and_no_answered_heartbeat_is_lost(ministack: str) -> None:
    time = [0.0]
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultyTable(ministack))
        made = await stack.enter_async_context(table(proxy.url))
        a, b = [await stack.enter_async_context(replica(made, time, LEASE)) for _ in range(2)]
        names = [f"{number:02}" for number in range(30)]
        await asyncio.gather(*(beat(a, name) for name in names))
        await b.reader.poll()
        proxy.throttle(0.3)
        refused = 0
        for turn in range(10):
            for replica_ in (a, b):
                await replica_.pass_time(1.0)
            beats = await asyncio.gather(*(beat((a, b)[turn % 2], name) for name in names), return_exceptions=True)
            refused += sum(isinstance(result, Unavailable) for result in beats)
            assert not [result for result in beats if result and not isinstance(result, Unavailable)]
        assert proxy.done["BatchWriteItem", "throttled"] > 0
        assert refused == 0, "each is repeated within its time"
        for replica_ in (a, b):
            assert len(models(replica_)) == len(names)
            assert {event for event, _ in replica_.told} == {"pool.registered"}


async def test_reads_that_are_one_reading_old_make_nothing_flap(ministack: str) -> None:
    time = [0.0]
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultyTable(ministack))
        made = await stack.enter_async_context(table(proxy.url))
        a, b = [await stack.enter_async_context(replica(made, time, LEASE)) for _ in range(2)]
        proxy.old = True
        for turn in range(40):
            await beat((a, b)[turn % 2], "p")
            await (a, b)[turn % 2].pass_time(1.0)
            await (b, a)[turn % 2].reader.poll()
        assert [[event for event, _ in each.told] for each in (a, b)] == [["pool.registered"]] * 2
        await a.pass_time(17.0)
        assert models(a) == {}


async def test_a_table_that_is_gone_for_a_while_ages_nobody_and_refuses_heartbeats(ministack: str) -> None:
    time = [0.0]
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultyTable(ministack))
        made = await stack.enter_async_context(table(proxy.url))
        a = await stack.enter_async_context(replica(made, time, LEASE, secs=0.3))
        await beat(a, "p")
        await a.pass_time(8.0)
        await beat(a, "p")
        await a.pass_time(7.0)
        assert a.pools.view()[1] is Completeness.EXACT
        proxy.fault = lambda operation: "cut"
        with pytest.raises(Unavailable):
            await beat(a, "p")
        a.pools.unread()
        for _ in range(90):
            time[0] += 0.9
            a.clock.tick()
            a.pools.advance()
        assert (models(a), a.pools.view()[1]) == ({"p": "m"}, Completeness.ESTIMATED)
        proxy.fault = lambda operation: ""
        await a.reader.poll()
        assert (models(a), a.pools.view()[1]) == ({"p": "m"}, Completeness.EXACT)
        await beat(a, "p")
        await a.pass_time(14.0)
        assert models(a) == {"p": "m"}


async def test_a_change_whose_answer_is_lost_is_written_once_and_answered(ministack: str) -> None:
    async with FaultyTable(ministack) as proxy, table(proxy.url) as made, replica(made) as a:
        lost = ["lost"]
        proxy.fault = lambda operation: lost.pop() if operation == "PutItem" and lost else ""
        await beat(a, "p")
        assert models(a) == {"p": "m"}
        assert proxy.done["PutItem", "lost"] == 1


async def test_a_payload_that_hangs_on_its_way_does_not_undo_the_one_after_it(ministack: str) -> None:
    time = [0.0]
    async with AsyncExitStack() as stack:
        slow, quick = [await stack.enter_async_context(FaultyTable(ministack)) for _ in range(2)]
        made = await stack.enter_async_context(table(quick.url))
        late = await stack.enter_async_context(table(slow.url, made.name))
        a = await stack.enter_async_context(replica(late, time))
        b = await stack.enter_async_context(replica(made, time))
        await beat(b, "p", "first")
        begun, overtaken = asyncio.Event(), asyncio.Event()

        def fault(operation: str) -> str:
            """Of the put of the older payload, which goes through only once the newer is there."""
            if operation != "PutItem" or overtaken.is_set():
                return ""
            begun.set()
            return "cut"

        slow.fault = fault
        older = asyncio.ensure_future(beat(a, "p", "older"))
        await begun.wait()
        await beat(b, "p", "newer")
        overtaken.set()
        await older
        for replica_ in (a, b):
            await replica_.reader.poll()
            assert models(replica_) == {"p": "newer"}


async def test_a_heartbeat_that_renews_what_was_changed_elsewhere_hides_the_change_for_two_readings_at_most(
    ministack: str,
) -> None:
    time = [0.0]
    async with table(ministack) as made, replica(made, time) as a, replica(made, time) as b:
        await beat(a, "p")
        await b.reader.poll()
        await beat(b, "p", "changed")
        await beat(a, "p")  # by its body, which it has not read that another has replaced
        for each in (a, b, a):
            await each.reader.poll()
        assert (models(a), models(b)) == ({"p": "changed"}, {"p": "changed"})
        assert [event for event, _ in a.told] == ["pool.registered", "pool.changed"]


async def test_a_refusal_is_told_by_its_code_and_counted(ministack: str) -> None:
    async with FaultyTable(ministack) as proxy, table(proxy.url) as made, replica(made) as a:
        proxy.fault = lambda operation: "denied"
        with pytest.raises(Unavailable, match="AccessDeniedException"):
            await beat(a, "p")
        with pytest.raises(Failed, match="AccessDeniedException"):
            await a.reader.poll()
        assert a.errors["refused"] >= 2
