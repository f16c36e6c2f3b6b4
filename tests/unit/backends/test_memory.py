"""MemoryPoolStore: leases, completeness, renewals and limits, on lease time that the tests set by hand."""

import json
from math import inf
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.errors import LimitReached
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, EncodedUpsert

STARTED_AT = "2026-01-01T00:00:00.000Z"


class Stand:
    """A store with a lease of 15 s, its clock, and what it has said in the log."""

    def __init__(self, max_pools: int | None = None) -> None:
        self.time = 1000.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.told: list[tuple[str, bytes]] = []
        self.store = MemoryPoolStore(
            Lease(5, 15), self.clock, STARTED_AT, lambda event, key: self.told.append((event, key)), max_pools=max_pools
        )

    def pass_until(self, lease_time: float) -> None:
        """Lets lease time pass, as it does on a loop that is never blocked; nothing else happens."""
        at = 1000.0 + lease_time
        while at - self.time > 0.1:
            self.time += 0.1
            self.clock.tick()
        self.time = at

    async def names(self) -> list[str]:
        """The pools listed, by the last of their names."""
        return [listing.key.dgd_name for listing in (await self.store.list()).items]

    def counts(self) -> tuple[int, int, int]:
        """What a renewal must not move: revision, listings encoded, events published."""
        return self.store.index.revision, self.store.index.encodings, self.store._fanout.published


def body(name: str = "p", **members: Any) -> bytes:
    return json.dumps({"key": {"site_id": "s", "namespace": "n", "dgd_name": name}, **members}).encode()


async def register(store: MemoryPoolStore, sent: bytes) -> bool:
    """As POST /pools does; whether the fast path was enough."""
    if await store.renew(sent):
        return True
    await store.register(model.decode_registration(sent), sent)
    return False


# -------------------------------------------------------------------------------------------------------- leases


@pytest.mark.parametrize(("at", "listed"), [(14.999, ["p"]), (15.0, [])])
async def test_a_silent_pool_is_listed_until_its_lease_ends(at: float, listed: list[str]) -> None:
    stand = Stand()
    await register(stand.store, body())
    stand.pass_until(at)
    assert await stand.names() == listed


@pytest.mark.parametrize("again", [body(), body(model=None)], ids=["the same bytes", "the same payload"])
@pytest.mark.parametrize(("at", "listed"), [(24.999, ["p"]), (25.0, [])])
async def test_a_renewal_moves_the_end_of_the_lease(again: bytes, at: float, listed: list[str]) -> None:
    stand = Stand()
    await register(stand.store, body())
    stand.pass_until(10.0)
    await register(stand.store, again)
    stand.pass_until(at)
    assert await stand.names() == listed


async def test_a_changed_registration_is_a_heartbeat_too() -> None:
    stand = Stand()
    await register(stand.store, body())
    stand.pass_until(10.0)
    await register(stand.store, body(model="m"))
    stand.pass_until(24.999)
    assert await stand.names() == ["p"]


@pytest.mark.parametrize(("at", "listed"), [(44.999, ["p"]), (45.0, [])])
async def test_a_list_ends_leases_by_itself_once_it_is_complete_too(at: float, listed: list[str]) -> None:
    stand = Stand()
    stand.pass_until(20.0)
    assert (await stand.store.list()).completeness is Completeness.EXACT
    await register(stand.store, body("q"))
    await register(stand.store, body())
    stand.pass_until(30.0)
    assert await register(stand.store, body())
    for between in (34.999, 35.0, 40.0):
        stand.pass_until(between)
        assert await stand.names() == (["p", "q"] if between < 35.0 else ["p"])
    stand.pass_until(at)
    assert await stand.names() == listed


async def test_every_registration_is_granted_the_lease() -> None:
    stand = Stand()
    for sent in (body(), body(), body(model="m")):
        assert await stand.store.register(model.decode_registration(sent), sent) == Lease(5, 15)
    assert stand.store.lease == Lease(5, 15)


async def test_a_stop_of_twenty_seconds_loses_nobody() -> None:
    stand = Stand()
    stand.pass_until(60.0)
    for number in range(50):
        await register(stand.store, body(f"{number:02}"))
        stand.pass_until(60.0 + number * 0.1)
    stand.time += 20.0  # and nothing ticked
    assert stand.store.advance() > 0
    assert len(await stand.names()) == 50
    assert stand.store.index.expired == 0


async def test_what_was_not_renewed_after_a_stop_goes_when_its_own_time_is_up() -> None:
    stand = Stand()
    stand.pass_until(60.0)
    await register(stand.store, body())
    stand.time += 20.0
    stand.clock.tick()
    stand.pass_until(94.999)  # the stop does not count: 14.999 s of the lease have passed
    assert await stand.names() == ["p"]
    stand.pass_until(95.001)
    assert await stand.names() == []


async def test_advance_says_when_the_next_lease_ends() -> None:
    stand = Stand()
    assert stand.store.advance() == inf
    await register(stand.store, body("a"))
    stand.pass_until(5.0)
    await register(stand.store, body("b"))
    assert stand.store.advance() == pytest.approx(10.0)
    stand.pass_until(15.0)
    assert stand.store.advance() == pytest.approx(5.0)
    stand.pass_until(20.0)
    assert stand.store.advance() == inf


async def test_a_lease_that_ended_is_said_once_and_counted() -> None:
    stand = Stand()
    await register(stand.store, body())
    stand.pass_until(15.0)
    stand.store.advance()
    stand.store.advance()
    assert stand.told == [("pool.registered", b"s\0n\0p"), ("pool.expired", b"s\0n\0p")]
    assert stand.store.index.expired == 1


# -------------------------------------------------------------------------------------------------- completeness


@pytest.mark.parametrize(("at", "completeness"), [(14.999, Completeness.ESTIMATED), (15.0, Completeness.EXACT)])
async def test_a_list_is_complete_one_lease_after_the_start(at: float, completeness: Completeness) -> None:
    stand = Stand()
    assert (await stand.store.list()).completeness is Completeness.ESTIMATED
    stand.pass_until(at)
    assert (await stand.store.list()).completeness is completeness
    assert stand.store.completeness is completeness


async def test_becoming_complete_is_a_revision_and_happens_once() -> None:
    stand = Stand()
    assert stand.store.view() == (0, Completeness.ESTIMATED)
    stand.pass_until(15.0)
    assert stand.store.view() == (1, Completeness.EXACT)
    stand.pass_until(100.0)
    assert stand.store.view() == (1, Completeness.EXACT)


@pytest.mark.parametrize("stop", [14.0, 30.0, 100.0])
async def test_a_stop_right_after_the_start_makes_nothing_complete_early(stop: float) -> None:
    stand = Stand()
    stand.time += stop
    stand.clock.tick()
    assert stand.store.view()[1] is Completeness.ESTIMATED
    stand.pass_until(stop + 14.9)
    assert stand.store.view()[1] is Completeness.ESTIMATED
    stand.pass_until(stop + 15.001)
    assert stand.store.view()[1] is Completeness.EXACT


async def test_the_source_of_an_incomplete_list_says_why() -> None:
    stand = Stand()
    (source,) = stand.store.sources()
    assert (source.name, source.complete, source.as_of) == ("pool-registrations", False, STARTED_AT)
    stand.pass_until(15.0)
    stand.store.view()
    (source,) = stand.store.sources()
    assert (source.name, source.complete, source.as_of) == ("pool-registrations", True, STARTED_AT)


# ------------------------------------------------------------------------------------------------------ renewals


async def test_a_heartbeat_of_the_same_bytes_is_not_even_looked_at() -> None:
    stand = Stand()
    await register(stand.store, body(model="m"))
    before = stand.counts()
    for beat in range(1, 100):
        stand.pass_until(beat * 5.0)
        assert await stand.store.renew(body(model="m"))
    stand.store._completeness = Completeness.EXACT  # which became so meanwhile, and is another revision
    assert stand.counts() == before
    assert stand.told == [("pool.registered", b"s\0n\0p")]
    assert stand.store.index.renewed == 99


@pytest.mark.parametrize(
    "spelling",
    [
        b'{"model":"m","key":{"dgd_name":"p","namespace":"n","site_id":"s"}}',
        b'\n{ "key" : {"site_id":"s", "namespace":"n", "dgd_name":"\\u0070"} , "model":"m", "frontends":null }\t',
        b'{"key":{"site_id":"s","namespace":"n","dgd_name":"p"},"model":"x","model":"m","location":null,"id":"mine"}',
    ],
)
async def test_the_same_payload_in_other_bytes_only_renews(spelling: bytes) -> None:
    stand = Stand()
    await register(stand.store, body(model="m"))
    before = stand.counts()
    assert not await register(stand.store, spelling)
    assert stand.counts() == before
    assert (stand.store.new, stand.store.changed, stand.store.conflicts) == (1, 0, 0)
    assert len(stand.told) == 1


async def test_unknown_members_in_another_order_only_renew() -> None:
    stand = Stand()
    await register(stand.store, body(x={"b": 1, "a": [{"d": 2, "c": 3}]}, y=1))
    before = stand.counts()
    await register(stand.store, body(y=1, x={"a": [{"c": 3, "d": 2}], "b": 1}))
    assert stand.counts() == before


async def test_relays_that_differ_only_in_bytes_stay_on_the_fast_path_and_do_not_conflict() -> None:
    stand = Stand()
    one, other = body(model="m"), body(model="m") + b" "
    assert not await register(stand.store, one)
    assert not await register(stand.store, other)
    for beat in range(1, 20):
        stand.pass_until(beat * 2.0)
        assert await stand.store.renew(one)
        assert await stand.store.renew(other)
    third = body(model="m") + b"  "
    assert not await register(stand.store, third)
    assert [await stand.store.renew(sent) for sent in (one, other, third)] == [False, True, True]
    assert stand.store.conflicts == 0


@pytest.mark.parametrize("member", ["model", "capabilities", "frontends", "location", "capacity", "x"])
async def test_a_change_of_any_member_is_one_change(member: str) -> None:
    values: dict[str, tuple[Any, Any]] = {
        "model": ("m", "M"),
        "capabilities": (["a", "b"], ["b", "a"]),
        "frontends": (["http://a:1"], ["http://a:2"]),
        "location": ({"region": "eu"}, {"region": "eu", "rack": 1}),
        "capacity": ({"live_workers": 1}, {"live_workers": 2}),
        "x": (1, 1.0),
    }
    one, other = values[member]
    stand = Stand()
    await register(stand.store, body(**{member: one}))
    revision, encodings, published = stand.counts()
    assert not await register(stand.store, body(**{member: other}))
    assert stand.counts() == (revision + 1, encodings + 1, published + 1)
    assert (stand.store.new, stand.store.changed) == (1, 1)
    assert stand.told[1:] == [("pool.changed", b"s\0n\0p")]


async def test_a_change_takes_the_old_bytes_off_the_fast_path() -> None:
    stand = Stand()
    await register(stand.store, body(model="a"))
    await register(stand.store, body(model="b"))
    assert not await stand.store.renew(body(model="a"))
    assert await stand.store.renew(body(model="b"))


async def test_a_registration_made_in_python_needs_no_bytes() -> None:
    stand = Stand()
    registration = PoolRegistration(PoolKey("s", "n", "p"), model="m")
    await stand.store.register(registration)
    before = stand.counts()
    await stand.store.register(registration)
    await register(stand.store, body(model="m"))
    assert stand.counts() == before


async def test_what_is_published_is_the_encoding_that_is_listed() -> None:
    stand = Stand()
    await register(stand.store, body(model="m", x=[1]))
    event = stand.store._fanout.at(0)
    assert isinstance(event, EncodedUpsert)
    assert [event.encoded] == stand.store.index.listings()


# ------------------------------------------------------------------------------------------------ deregistration


async def test_a_pool_that_is_taken_out_is_gone_at_once_and_may_come_back() -> None:
    stand = Stand()
    await register(stand.store, body())
    key = PoolKey("s", "n", "p")
    assert await stand.store.deregister(key)
    assert await stand.names() == []
    assert not await stand.store.deregister(key)
    assert not await register(stand.store, body()), "the bytes are forgotten with the pool"
    assert await stand.names() == ["p"]
    assert stand.store.deregistered == 1
    assert [event for event, _ in stand.told] == ["pool.registered", "pool.deregistered", "pool.registered"]


@pytest.mark.parametrize(("at", "known"), [(14.999, True), (15.0, False)])
async def test_a_pool_that_lapsed_is_not_there_to_be_taken_out(at: float, known: bool) -> None:
    stand = Stand()
    await register(stand.store, body())
    stand.pass_until(at)
    assert await stand.store.deregister(PoolKey("s", "n", "p")) is known
    assert (stand.store.deregistered, stand.store.index.expired) == (int(known), int(not known))


# -------------------------------------------------------------------------------------------- limits and filters


async def test_more_pools_than_allowed_are_refused_and_those_that_are_there_renew_and_change() -> None:
    stand = Stand(max_pools=2)
    await register(stand.store, body("a"))
    await register(stand.store, body("b"))
    with pytest.raises(LimitReached, match=r"at most 2 pools \(--max-pools\)") as caught:
        await register(stand.store, body("c"))
    assert caught.value.retry_after_secs == 5
    assert await register(stand.store, body("a"))
    await register(stand.store, body("b", model="m"))
    assert await stand.names() == ["a", "b"]
    assert stand.store.new == 2


@pytest.mark.parametrize(("at", "place"), [(14.999, False), (15.0, True)])
async def test_a_pool_that_lapsed_frees_its_place(at: float, place: bool) -> None:
    stand = Stand(max_pools=1)
    await register(stand.store, body("a"))
    stand.pass_until(at)
    if not place:
        with pytest.raises(LimitReached):
            await register(stand.store, body("b"))
    else:
        await register(stand.store, body("b"))
    assert await stand.names() == (["b"] if place else ["a"])


async def test_a_pool_that_is_taken_out_frees_its_place() -> None:
    stand = Stand(max_pools=1)
    await register(stand.store, body("a"))
    await stand.store.deregister(PoolKey("s", "n", "a"))
    await register(stand.store, body("b"))
    assert await stand.names() == ["b"]


async def test_filters_are_anded_across_names_and_ored_within_one() -> None:
    stand = Stand()
    await register(stand.store, body("a", model="m1", location={"region": "eu"}))
    await register(stand.store, body("b", model="m2", location={"region": "eu"}))
    await register(stand.store, body("c", model="m1"))

    def names(where: Filter) -> list[str]:
        listed = json.loads(stand.store.encoded(where).join(b"[", b"]"))
        return [item["key"]["dgd_name"] for item in listed]

    assert names(Filter()) == ["a", "b", "c"]
    assert names(Filter(models=frozenset({"m1", "m2"}), regions=frozenset({"eu"}))) == ["a", "b"]
    assert names(Filter(models=frozenset({"m1"}))) == ["a", "c"]
    assert names(Filter(site_ids=frozenset({"s"}), models=frozenset({"m2"}))) == ["b"]
    assert names(Filter(site_ids=frozenset({"S"}))) == []
