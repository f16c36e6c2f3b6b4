"""Explain over the memory store, in every state that a pool can be in; instants are of a clock that the tests set."""

import json
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.leased import EXPIRY_SLICE
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolKey
from gdsvc.pool_discovery.explain import Explanation
from gdsvc.pool_discovery.lease_clock import LeaseClock

KEY = PoolKey("s", "n", "p")


class Stand:
    """A store with a lease of 15 s; its instants are 1970's."""

    def __init__(self) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.store = MemoryPoolStore(
            Lease(5, 15), self.clock, "1970-01-01T00:00:00.000Z", unix_now=lambda: round(self.time, 3)
        )

    def pass_until(self, at: float) -> None:
        while at - self.time > 0.1:
            self.time += 0.1
            self.clock.tick()
        self.time = at

    async def beat(self, source: str | None = None, name: str = "p", **members: Any) -> None:
        sent = json.dumps({"key": {"site_id": "s", "namespace": "n", "dgd_name": name}, **members}).encode()
        if not await self.store.renew(sent, source):
            await self.store.register(model.decode_registration(sent), sent, source)

    def explain(self, name: str = "p") -> Explanation:
        explained = self.store.explain(PoolKey("s", "n", name))
        assert explained is not None
        assert explained.key.dgd_name == name
        return explained

    def happened(self) -> list[tuple[str, str, str]]:
        return [(entry.at[17:23], entry.event, entry.cause) for entry in self.explain().history]


async def test_nothing_is_known_of_a_pool_never_heard_of() -> None:
    assert Stand().store.explain(KEY) is None


async def test_a_listed_pool_shows_its_lease_and_who_beat_last() -> None:
    stand = Stand()
    await stand.beat("10.0.0.1")
    stand.pass_until(5.0)
    await stand.beat("10.0.0.2")
    stand.pass_until(8.25)
    told = stand.explain()
    assert told.listed
    assert told.lease is not None
    assert (told.lease.age_secs, told.lease.remaining_secs) == (3.25, 11.75)
    assert (told.registrations.count, told.registrations.last_from, told.registrations.conflicts) == (2, "10.0.0.2", 0)
    assert told.sources == stand.store.sources()
    assert stand.happened() == [("00.000", "registered", "first heartbeat from 10.0.0.1")]


@pytest.mark.parametrize(("at", "listed"), [(14.999, True), (15.0, False)])
async def test_a_pool_is_explained_as_it_is_now(at: float, listed: bool) -> None:
    stand = Stand()
    await stand.beat()
    stand.pass_until(at)
    assert stand.explain().listed is listed


async def test_a_pool_that_fell_silent_is_told_when_it_left_and_what_was_heard_of_it() -> None:
    stand = Stand()
    for _ in range(3):
        await stand.beat("::ffff:10.0.0.1")
    stand.pass_until(20.0)
    told = stand.explain()
    assert (told.listed, told.lease) == (False, None)
    assert "no heartbeat came for 15 s" in told.reason
    assert (told.registrations.count, told.registrations.last_from) == (3, "10.0.0.1")
    assert stand.happened()[-1] == ("20.000", "expired", "no heartbeat came for 15 s")


async def test_a_pool_that_was_taken_out_is_told_by_whom() -> None:
    stand = Stand()
    await stand.beat()
    stand.pass_until(1.0)
    await stand.store.deregister(KEY, "10.0.0.9")
    told = stand.explain()
    assert not told.listed
    assert "taken out by a DELETE from 10.0.0.9" in told.reason
    assert stand.happened()[-1] == ("01.000", "deregistered", "taken out by a DELETE from 10.0.0.9")


async def test_a_pool_that_came_back_is_counted_anew_and_keeps_its_past() -> None:
    stand = Stand()
    await stand.beat()
    await stand.beat()
    await stand.store.deregister(KEY)
    await stand.beat()
    assert stand.explain().registrations.count == 1
    assert [event for _, event, _ in stand.happened()] == ["registered", "deregistered", "registered"]


async def test_a_change_names_the_members_that_changed() -> None:
    stand = Stand()
    await stand.beat(model="m", x=1)
    await stand.beat("::1", model="M", x=1.0, frontends=["http://a"])
    assert stand.happened()[-1][1:] == ("changed", "the payload changed (frontends, model, x) from ::1")


async def test_relays_that_disagree_are_counted_and_said_once() -> None:
    stand = Stand()
    for turn in range(10):
        stand.pass_until(turn * 0.25)
        await stand.beat(model=f"m{turn % 2}")
    told = stand.explain()
    assert told.registrations.conflicts == 8
    assert "relays disagree" in told.reason
    assert [event for _, event, _ in stand.happened()].count("disputed") == 1


async def test_conflicts_of_a_pool_that_left_are_still_told() -> None:
    stand = Stand()
    for turn in range(10):
        await stand.beat(model=f"m{turn % 2}")
    await stand.store.deregister(KEY)
    assert stand.explain().registrations.conflicts == 8


async def test_a_lease_whose_turn_in_a_mass_expiry_is_to_come_has_nothing_left() -> None:
    stand = Stand()
    for number in range(EXPIRY_SLICE + 1):
        await stand.beat(name=f"{number}")
    stand.pass_until(15.5)
    told = stand.explain(f"{EXPIRY_SLICE}")
    assert told.listed
    assert told.lease is not None
    assert (told.lease.age_secs, told.lease.remaining_secs) == (15.0, 0.0)
    assert not stand.explain(f"{EXPIRY_SLICE}").listed
