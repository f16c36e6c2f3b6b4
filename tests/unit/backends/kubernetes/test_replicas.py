"""Replicas that share the Leases of one scripted API server: the same to callers as one. Leases are of 15 s."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.view import DEAD_SECS, LATE_SECS
from gdsvc.backends.shared.reading import STALE_SECS, Trust
from gdsvc.errors import DoesNotFit, Unavailable
from gdsvc.model import PoolKey, PoolListing, PoolRegistration, RouterReplica, listing_of
from tests.contract.leases import LeaseReplica, pass_time
from tests.kube.api_server import Request, reply
from tests.kube.lease_server import LeaseServer, lease_server, refused

LEASE_SECS = 15
pytestmark = pytest.mark.loops("uvloop")


def pool(name: str = "p", model: str | None = None) -> PoolRegistration:
    return PoolRegistration(PoolKey("s", "n", name), model=model)


LEASE_OF_P = model.pool_id(pool().key)


@asynccontextmanager
async def replicas(count: int = 2, fraction: float = 0.0) -> AsyncIterator[tuple[LeaseServer, list[LeaseReplica]]]:
    """Replicas on one clock, which have all seen all."""
    time = [100.0]
    async with lease_server() as api, AsyncExitStack() as stack:
        made = [await stack.enter_async_context(LeaseReplica(api, time, fraction).running()) for _ in range(count)]
        yield api, made


async def listed(replica: LeaseReplica) -> list[PoolListing]:
    await replica.catch_up()
    return list((await replica.pools.list()).items)


async def beat(replica: LeaseReplica, registration: PoolRegistration) -> None:
    """A heartbeat as the HTTP face takes it."""
    body = model.encode_listing(registration)
    if not await replica.pools.renew(body):
        await replica.pools.register(registration, body)


# ------------------------------------------------------------------------------------------------- the same as one


async def test_replicas_list_the_same() -> None:
    async with replicas(3) as (_, them):
        for number in range(12):
            await beat(them[number % 3], pool(f"p{number:02}"))
        lists = [await listed(replica) for replica in them]
        assert lists == [[listing_of(pool(f"p{number:02}")) for number in range(12)]] * 3


async def test_heartbeats_that_go_round_the_replicas_never_flap() -> None:
    async with replicas(3) as (_, them):
        for number in range(9):
            await beat(them[number % 3], pool())
            await pass_time(5.0, *them)
            assert [replica.names() for replica in them] == [["p"]] * 3
        events = [event for replica in them for event, _ in replica.told]
        assert events == ["pool.registered"] * 3


async def test_a_pool_that_falls_silent_leaves_every_replica_a_lease_later() -> None:
    async with replicas() as (_, (one, other)):
        await beat(one, pool())
        await other.catch_up()
        await pass_time(LEASE_SECS - 0.0625, one, other)
        assert (one.names(), other.names()) == (["p"], ["p"])
        await pass_time(0.0625, one, other)
        assert (one.names(), other.names()) == ([], [])


async def test_a_change_through_one_replica_is_shown_by_the_other() -> None:
    async with replicas() as (_, (one, other)):
        await beat(one, pool(model="old"))
        await beat(other, pool(model="new"))
        assert await listed(one) == await listed(other) == [listing_of(pool(model="new"))]
        await beat(one, pool(model="newer"))
        assert await listed(other) == [listing_of(pool(model="newer"))]


async def test_a_pool_that_registers_through_all_at_once_is_one_listing() -> None:
    async with replicas(3) as (api, them):
        await asyncio.gather(*(beat(replica, pool()) for replica in them for _ in range(20)))
        assert [await listed(replica) for replica in them] == [[listing_of(pool())]] * 3
        assert LEASE_OF_P in api.objects


async def test_a_pool_taken_out_through_one_is_gone_for_all_until_it_registers_again() -> None:
    async with replicas() as (_, (one, other)):
        await beat(one, pool(model="first"))
        assert await listed(other) == [listing_of(pool(model="first"))]
        assert await other.pools.deregister(pool().key)
        assert await listed(one) == await listed(other) == []
        assert not await one.pools.deregister(pool().key)
        for number in range(3):  # whoever takes it out and whoever registers it again
            await beat(one, pool(model=f"again {number}"))
            assert await listed(other) == [listing_of(pool(model=f"again {number}"))]
            assert await (one if number else other).pools.deregister(pool().key)
            assert await listed(one) == await listed(other) == []


async def test_a_pool_taken_out_and_registered_at_once_through_one_is_listed_at_once() -> None:
    async with replicas() as (_, (one, other)):
        for version in ("a", "b", "c"):
            await beat(one, pool(model=version))
        await one.pools.deregister(pool().key)
        await beat(one, pool(model="d"))
        assert one.names() == ["p"]
        assert await listed(one) == await listed(other) == [listing_of(pool(model="d"))]


async def test_router_replicas_are_shared_as_pools_are() -> None:
    async with replicas() as (_, (one, other)):
        await one.storage.routers.register(RouterReplica("ohio/0", "http://10.0.0.7:8000"))
        await other.catch_up()
        assert list((await other.storage.routers.list()).items) == [RouterReplica("ohio/0", "http://10.0.0.7:8000")]
        assert await other.storage.routers.deregister("ohio/0")
        await one.catch_up()
        assert list((await one.storage.routers.list()).items) == []


async def test_a_new_replica_lists_at_once_and_is_sure_a_lease_later() -> None:
    async with replicas(1) as (api, (one,)):
        await beat(one, pool())
        async with LeaseReplica(api, one.time).running() as new:
            assert (new.names(), new.pools.trust) == (["p"], Trust.YOUNG)
            await pass_time(LEASE_SECS, one, new)
            assert new.pools.trust is Trust.WHOLE


async def test_before_it_has_seen_all_a_replica_lists_nothing_and_is_not_ready() -> None:
    async with lease_server() as api:
        replica = LeaseReplica(api, [0.0])
        with pytest.raises(Unavailable):
            await replica.pools.list()
        with pytest.raises(Unavailable):
            await replica.pools.register(pool())
        assert replica.storage.not_ready() == "the Leases that hold the registrations have not been read yet"
        async with replica.running():
            assert replica.storage.not_ready() == ""


async def test_a_replica_that_stops_takes_its_own_lease_with_it() -> None:
    async with replicas(2) as (api, _):
        assert len(api.objects) == 2
    assert api.objects == {}


# -------------------------------------------------------------------------------------------- when it is not to be seen


async def test_nothing_expires_while_the_watch_is_silent() -> None:
    async with replicas() as (api, (one, other)):
        await beat(one, pool())
        await other.catch_up()
        api.watchers.clear()  # open, and told nothing any more
        await pass_time(10 * LEASE_SECS, one, other, blind=True)
        assert (one.names(), other.names()) == (["p"], ["p"])
        assert one.pools.trust is Trust.STALE


async def test_nothing_expires_while_nobody_can_write_though_the_watch_is_alive() -> None:
    async with replicas() as (api, (one, other)):
        await beat(one, pool())
        await other.catch_up()
        api.always = reply(refused(500))
        await pass_time(LATE_SECS + STALE_SECS - 0.125, one, other, blind=True)
        assert (other.names(), other.pools.trust) == (["p"], Trust.YOUNG)
        await pass_time(0.25, one, other, blind=True)
        assert (other.names(), other.pools.trust) == (["p"], Trust.STALE)
        api.always = None
        await beat(one, pool())
        await pass_time(LEASE_SECS + LATE_SECS, one, other)  # which were silent, too, before reading was called failing
        assert other.pools.trust is Trust.WHOLE
        assert [event for event, _ in other.told] == ["pool.registered", "pool.expired"]


async def test_a_heartbeat_that_was_not_written_is_refused_and_renews_nothing() -> None:
    async with replicas(1) as (api, (one,)):
        await beat(one, pool())
        await pass_time(10.0, one)
        api.script.append(reply(refused(403)))
        with pytest.raises(Unavailable, match="403"):
            await beat(one, pool())
        await pass_time(5.0, one)
        assert one.names() == []


@pytest.mark.load  # for the reflector's pauses
async def test_what_changed_while_the_watch_was_away_is_found_by_the_next_list() -> None:
    async with replicas() as (api, (one, other)):
        for name in ("stays", "leaves", "anew"):
            await beat(one, pool(name, "before"))
        await other.catch_up()
        api.compact()
        held = list(api.watchers)
        api.watchers.clear()
        await one.pools.deregister(pool("leaves").key)
        await one.pools.deregister(pool("anew").key)
        await beat(one, pool("anew", "after"))
        api.compact()
        for writer in held:
            writer.close()
        await other.catch_up()
        assert await listed(other) == [listing_of(pool("anew", "after")), listing_of(pool("stays", "before"))]
        assert await listed(one) == await listed(other)


# ------------------------------------------------------------------------------------------------- Leases of others


async def test_a_lease_that_says_nothing_is_told_once_and_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def broken(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"] = {}

    async with replicas() as (api, (one, other)):
        await beat(one, pool())
        await beat(one, pool("q"))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                api.change(LEASE_OF_P, broken)
            await other.catch_up()
        assert other.storage.view.unreadable == 1
        assert [listing.key.dgd_name for listing in await listed(other)] == ["p", "q"]
        await beat(one, pool())  # which mends it
        assert json.loads(api.objects[LEASE_OF_P]["metadata"]["annotations"][leases.REGISTRATION])["key"]


async def test_a_registration_of_another_member_is_none() -> None:
    def other_key(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"][leases.REGISTRATION] = model.encode_listing(pool("q")).decode()
        document["metadata"]["annotations"][leases.VERSION] = "9.aa"
        document["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"

    async with replicas() as (api, (one, other)):
        await beat(one, pool())
        await other.catch_up()
        api.change(LEASE_OF_P, other_key)
        assert await listed(other) == [listing_of(pool())]


async def test_a_label_that_somebody_adds_is_no_renewal() -> None:
    async with replicas() as (api, (one, other)):
        await beat(one, pool())
        await pass_time(10.0, one, other)
        api.change(LEASE_OF_P, lambda document: document["metadata"]["labels"].update(seen="yes"))
        await pass_time(5.0, one, other)
        assert (one.names(), other.names()) == ([], [])


async def test_a_lease_that_died_long_ago_is_not_listed_at_first_sight() -> None:
    def long_ago(document: dict[str, Any]) -> None:
        document["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"

    async with replicas(1) as (api, (one,)):
        await beat(one, pool())
        api.change(LEASE_OF_P, long_ago)
        async with LeaseReplica(api, one.time).running() as new:
            assert await listed(new) == []
            await beat(new, pool())
            assert await listed(new) == [listing_of(pool())]


async def test_a_lease_that_nobody_renews_is_cleared_away_and_one_that_is_renewed_is_not() -> None:
    async with replicas(1) as (api, (one,)):
        view, writer = one.storage.view, one.storage.writer
        assert writer is not None
        await beat(one, pool("dead"))
        await beat(one, pool("lives"))
        await one.catch_up()
        one.time[0] += 0.5
        while one.time[0] < 100.0 + DEAD_SECS + 2.0:
            one.time[0] += 0.9  # which is no stall
            one.advance()
        await beat(one, pool("lives"))
        await one.catch_up()
        dead = view.dead()
        assert [written.name for written in dead] == [model.pool_id(pool("dead").key)]
        await beat(one, pool("dead"))
        await writer.clear_away(dead[0])  # which has come to life since
        assert model.pool_id(pool("dead").key) in api.objects
        (known,) = [view.known(model.pool_id(pool("dead").key))]
        assert known is not None
        await one.catch_up()
        current = view.known(known.name)
        assert current is not None
        await writer.clear_away(current)
        assert known.name not in api.objects


async def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    async with replicas(1) as (_, (one,)):
        await beat(one, pool())
        with pytest.raises(DoesNotFit):
            await beat(one, PoolRegistration(pool().key, capabilities=("x" * 100,) * 3000))
        assert await listed(one) == [listing_of(pool())]
        await beat(one, PoolRegistration(pool().key, capabilities=("x" * 100,) * 1000))


# --------------------------------------------------------------------------------------------------- fewer writes


def renewals(api: LeaseServer) -> int:
    """The PATCHes of pools that came."""
    return sum(request.method == "PATCH" and LEASE_OF_P in request.path for request in api.requests)


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, 18), (0.5, 6)])
async def test_a_fraction_writes_only_once_it_has_passed_whichever_replica_is_asked(
    fraction: float, expected: int
) -> None:
    async with replicas(2, fraction) as (api, (one, other)):
        await beat(one, pool())
        for number in range(18):
            await pass_time(2.5, one, other)
            await beat(other if number % 2 else one, pool())
        assert expected - 1 <= renewals(api) <= expected + 1
        assert [event for event, _ in (*one.told, *other.told)] == ["pool.registered"] * 2


async def test_a_heartbeat_that_was_not_written_is_good_for_a_whole_lease_on_every_replica() -> None:
    async with replicas(2, 0.5) as (api, (one, other)):
        await beat(one, pool())
        await pass_time(7.0, one, other)
        before = renewals(api)
        await beat(other, pool())
        assert renewals(api) == before
        await pass_time(LEASE_SECS - 0.0625, one, other)
        assert (one.names(), other.names()) == (["p"], ["p"])
        await pass_time(0.5 * LEASE_SECS + 1.0, one, other)
        assert (one.names(), other.names()) == ([], [])


async def test_a_replica_without_a_fraction_beside_one_with_it_loses_no_pool() -> None:
    """As while flags are rolled out: what the one grants is what the other counts with."""
    time = [100.0]
    async with (
        lease_server() as api,
        LeaseReplica(api, time, 0.5).running() as new,
        LeaseReplica(api, time).running() as old,
    ):
        await beat(old, pool())
        await new.catch_up()
        await pass_time(5.0, old, new)
        await beat(new, pool())
        await pass_time(LEASE_SECS - 0.0625, old, new)
        assert (old.names(), new.names()) == (["p"], ["p"])


async def test_a_request_for_a_lease_selects_ours_alone() -> None:
    async with replicas(1) as (api, _):
        reads: list[Request] = [request for request in api.requests if request.method == "GET"]
        assert {request.query["labelSelector"] for request in reads} == {leases.MEMBER_LABEL}
        assert {request.path for request in reads} == {"/apis/coordination.k8s.io/v1/namespaces/n/leases"}
