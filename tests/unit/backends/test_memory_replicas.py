"""MemoryReplicaStore: replicas that register themselves beside those that are given."""

import pytest

from gdsvc import model
from gdsvc.backends.memory import MemoryReplicaStore
from gdsvc.errors import Conflict
from gdsvc.model import Lease, RouterReplica
from gdsvc.pool_discovery.fanout import Lagged
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, EncodedRemoval, EncodedUpsert

FIXED = RouterReplica("m-fixed", "http://10.0.0.9:9000")


class Stand:
    """A store of replicas with a lease of 15 s, its clock and its log."""

    def __init__(self, *fixed: RouterReplica) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.told: list[tuple[str, bytes]] = []
        self.store = MemoryReplicaStore(
            Lease(5, 15),
            self.clock,
            "2026-01-01T00:00:00.000Z",
            lambda event, key: self.told.append((event, key)),
            fixed,
        )

    def pass_until(self, at: float) -> None:
        while at - self.time > 0.1:
            self.time += 0.1
            self.clock.tick()
        self.time = at

    async def listed(self) -> list[RouterReplica]:
        return list((await self.store.list()).items)


async def test_a_replica_lives_by_its_lease() -> None:
    stand = Stand()
    replica = RouterReplica("r", "http://[::1]:9000")
    assert await stand.store.register(replica, b"body") == Lease(5, 15)
    stand.pass_until(10.0)
    assert await stand.store.renew(b"body")
    stand.pass_until(24.999)
    assert await stand.listed() == [replica]
    stand.pass_until(25.0)
    assert await stand.listed() == []
    assert stand.told == [("router.registered", b"r"), ("router.expired", b"r")]


async def test_replicas_are_listed_by_id_the_given_among_the_registered() -> None:
    stand = Stand(FIXED)
    others = [RouterReplica(name, "http://a") for name in ("z", "a", "n")]
    for replica in others:
        await stand.store.register(replica)
    assert [replica.id for replica in await stand.listed()] == ["a", "m-fixed", "n", "z"]
    assert stand.store.encoded().join(b"[", b"]").startswith(b'[{"id":"a","url":"http://a"},{"id":"m-fixed"')


async def test_what_was_given_never_leaves() -> None:
    stand = Stand(FIXED)
    stand.pass_until(1000.0)
    assert stand.store.advance() == float("inf")
    assert await stand.listed() == [FIXED]


async def test_what_was_given_cannot_be_changed_or_taken_out() -> None:
    stand = Stand(FIXED)
    before = stand.store.index.revision
    for url in (FIXED.url, "http://other"):
        with pytest.raises(Conflict, match="command line"):
            await stand.store.register(RouterReplica(FIXED.id, url), b"body")
    with pytest.raises(Conflict):
        await stand.store.deregister(FIXED.id)
    assert not await stand.store.renew(b"body")
    assert await stand.listed() == [FIXED]
    assert stand.store.index.revision == before


async def test_a_renewal_is_no_change_and_a_new_url_is_one() -> None:
    stand = Stand()
    fanout = stand.store._fanout
    await stand.store.register(RouterReplica("r", "http://a"), b"1")
    await stand.store.register(RouterReplica("r", "http://a"), b"2")
    assert await stand.store.renew(b"1")
    assert (fanout.published, stand.store.index.revision, len(stand.told)) == (1, 1, 1)
    await stand.store.register(RouterReplica("r", "http://b"), b"3")
    assert (fanout.published, stand.store.index.revision) == (2, 2)
    assert [await stand.store.renew(body) for body in (b"1", b"2", b"3")] == [False, False, True]
    assert (stand.store.new, stand.store.changed) == (1, 1)
    assert stand.told[1:] == [("router.changed", b"r")]


async def test_events_hold_what_is_listed() -> None:
    stand = Stand()
    await stand.store.register(RouterReplica("r", "http://a"))
    await stand.store.deregister("r")
    events = [stand.store._fanout.at(place) for place in range(stand.store._fanout.published)]
    assert events == [EncodedUpsert(b"r", model.encode(RouterReplica("r", "http://a"))), EncodedRemoval(b"r")]
    assert not any(isinstance(event, Lagged) for event in events)


@pytest.mark.parametrize(("at", "completeness"), [(14.999, Completeness.ESTIMATED), (15.0, Completeness.EXACT)])
async def test_replicas_are_complete_after_a_lease_too(at: float, completeness: Completeness) -> None:
    stand = Stand(FIXED)
    stand.pass_until(at)
    assert (await stand.store.list()).completeness is completeness
    assert stand.store.sources()[0].name == "router-registrations"


async def test_replicas_that_come_from_an_iterator_are_listed_too() -> None:
    store = MemoryReplicaStore(Lease(5, 15), LeaseClock(15), "2026-01-01T00:00:00.000Z", fixed=iter([FIXED]))
    assert list((await store.list()).items) == [FIXED]
