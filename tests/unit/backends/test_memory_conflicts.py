"""Relays that disagree about a pool: what counts as a conflict, and how seldom it is shown."""

import json
from itertools import pairwise
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolKey
from gdsvc.pool_discovery.conflicts import FREE_FLIPS, SHOW_EVERY_SECS
from gdsvc.pool_discovery.fanout import Lagged
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import EncodedEvent, EncodedRemoval, EncodedUpsert

KEY = {"site_id": "s", "namespace": "n", "dgd_name": "p"}


class Stand:
    """A store with a lease of 15 s, and every event it published with the lease time at which it did."""

    def __init__(self) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.told: list[str] = []
        self.store = MemoryPoolStore(
            Lease(5, 15), self.clock, "2026-01-01T00:00:00.000Z", lambda event, key: self.told.append(event)
        )
        self.events: list[tuple[float, str | None]] = []
        self._read = 0

    def pass_until(self, at: float) -> None:
        """Beats as a Pulse does, every tenth of a second."""
        while at - self.time > 0.05:
            self.time = min(at, round(self.time + 0.1, 6))
            self.clock.tick()
            self.store.advance()
            self.observe()
        self.time = at

    async def send(self, payload: str, **members: Any) -> None:
        """Registers the pool with `payload` as its model."""
        sent = json.dumps({"key": KEY, "model": payload, **members}).encode()
        if not await self.store.renew(sent):
            await self.store.register(model.decode_registration(sent), sent)
        self.observe()

    def observe(self) -> None:
        """Reads what has been published; the list must agree with the newest event."""
        fanout = self.store._fanout
        while self._read < fanout.published:
            event = fanout.at(self._read)
            self._read += 1
            if not isinstance(event, Lagged):
                self.events.append((self.time, _model(event)))
        if self.events:
            assert self.shown() == self.events[-1][1]

    def shown(self) -> str | None:
        """The model that is listed; None where the pool is not."""
        listed = json.loads(self.store.encoded().join(b"[", b"]"))
        return listed[0]["model"] if listed else None


def _model(event: EncodedEvent) -> str | None:
    match event:
        case EncodedUpsert(encoded=encoded):
            return model.decode_listing(encoded).model
        case EncodedRemoval():
            return None


async def test_a_pool_that_moves_forward_is_shown_at_once_however_often() -> None:
    stand = Stand()
    for version in range(100):
        stand.pass_until(version * 0.1)
        await stand.send(f"v{version}")
    assert [shown for _, shown in stand.events] == [f"v{version}" for version in range(100)]
    assert stand.store.conflicts == 0


@pytest.mark.parametrize(
    ("sequence", "conflicts"),
    [("ABA", 1), ("ABCA", 1), ("ABCDEA", 1), ("ABCDEFA", 0), ("ABAB", 2), ("ABC", 0), ("AABB", 0)],
)
async def test_a_payload_that_comes_back_is_a_conflict(sequence: str, conflicts: int) -> None:
    stand = Stand()
    for payload in sequence:
        await stand.send(payload)
    assert stand.store.conflicts == conflicts
    assert stand.shown() == sequence[-1]
    assert stand.told.count("pool.disputed") == min(conflicts, 1)


@pytest.mark.parametrize(("at", "conflicts"), [(15.999, 1), (16.0, 0)])
async def test_a_payload_comes_back_within_a_lease_or_it_is_news(at: float, conflicts: int) -> None:
    stand = Stand()
    stand.pass_until(1.0)
    await stand.send("A")
    stand.pass_until(2.0)
    await stand.send("B")
    stand.pass_until(10.0)
    await stand.send("B")
    stand.pass_until(at)
    await stand.send("A")
    assert stand.store.conflicts == conflicts


async def test_a_heartbeat_keeps_a_payload_in_mind() -> None:
    stand = Stand()
    await stand.send("A")
    stand.pass_until(10.0)
    await stand.send("A")  # last seen now
    await stand.send("B")
    stand.pass_until(24.0)
    await stand.send("A")
    assert stand.store.conflicts == 1


async def test_the_fourth_flip_waits_for_a_second_and_the_newest_payload_wins() -> None:
    stand = Stand()
    for payload in "ABABA":  # flips: the third, fourth and fifth
        await stand.send(payload)
    assert [shown for _, shown in stand.events] == list("ABABA")
    await stand.send("B")
    await stand.send("A")
    await stand.send("B")
    assert stand.store.conflicts == 6
    assert stand.shown() == "A"
    stand.pass_until(0.9)
    assert stand.shown() == "A"
    stand.pass_until(1.0)
    assert stand.shown() == "B"
    assert stand.events[5:] == [(1.0, "B")]


@pytest.mark.parametrize("every", [0.1, 0.3, 0.7])
async def test_relays_that_fight_for_a_minute_cost_one_event_a_second_at_most(every: float) -> None:
    stand = Stand()
    turns = int(60 / every)
    for turn in range(turns):
        stand.pass_until(turn * every)
        await stand.send("ABC"[turn % 3])
    stand.pass_until(stand.time + 1.1)
    times = [at for at, _ in stand.events]
    at_once = 3 + FREE_FLIPS  # A, B and C are news; so many flips are free
    assert 15 <= len(times) <= 62 + at_once
    assert all(later - earlier >= SHOW_EVERY_SECS - 1e-9 for earlier, later in pairwise(times[at_once - 1 :]))
    assert stand.shown() == "ABC"[(turns - 1) % 3]


async def test_what_is_held_back_is_renewed_by_its_own_bytes_and_not_by_those_that_are_shown() -> None:
    stand = Stand()
    for payload in "ABABAB":
        await stand.send(payload)
    assert stand.shown() == "A"
    held, shown = (json.dumps({"key": KEY, "model": name}).encode() for name in "BA")
    assert await stand.store.renew(held)
    assert not await stand.store.renew(shown)


async def test_a_payload_that_goes_back_to_what_is_shown_is_no_event() -> None:
    stand = Stand()
    for payload in "ABABABA":  # the last one is what is shown still
        await stand.send(payload)
    published, revision = len(stand.events), stand.store.index.revision
    stand.pass_until(5.0)
    assert stand.shown() == "A"
    assert (len(stand.events), stand.store.index.revision) == (published, revision)


async def test_a_pool_that_leaves_while_its_newest_payload_waits_is_just_gone() -> None:
    stand = Stand()
    for payload in "ABABAB":
        await stand.send(payload)
    assert await stand.store.deregister(PoolKey("s", "n", "p"))
    stand.observe()
    stand.pass_until(5.0)
    assert stand.events[-1] == (0.0, None)
    assert stand.shown() is None


async def test_a_dispute_is_over_a_lease_after_the_flips() -> None:
    stand = Stand()
    for payload in "ABABAB":
        await stand.send(payload)
    stand.pass_until(5.0)
    await stand.send("B")
    stand.pass_until(16.0)
    await stand.send("C")
    await stand.send("D")
    assert [shown for at, shown in stand.events if at == 16.0] == ["C", "D"]


async def test_a_dispute_after_the_pool_left_and_came_back_keeps_its_own_second() -> None:
    stand = Stand()
    for payload in "ABABAB":  # the last one is to be shown at 1.0
        await stand.send(payload)
    assert await stand.store.deregister(PoolKey("s", "n", "p"))
    stand.pass_until(0.5)
    for payload in "ABABAB":  # and this one at 1.5
        await stand.send(payload)
    stand.pass_until(1.4)
    assert stand.shown() == "A"
    stand.pass_until(1.5)
    assert stand.shown() == "B"


async def test_an_appointment_that_a_direct_change_overtook_is_void() -> None:
    stand = Stand()
    stand.pass_until(1.0)
    for payload in "ABA":  # a flip at 1.0
        await stand.send(payload)
    stand.pass_until(15.5)
    for payload in "BAB":  # flips, and the last of them the fourth in a lease: it is to be shown at 16.5
        await stand.send(payload)
    assert stand.shown() == "A"
    stand.pass_until(16.1)
    await stand.send("C")  # the flip at 1.0 is over a lease ago: shown at once
    assert stand.shown() == "C"
    await stand.send("A")  # again the fourth flip in a lease: to be shown at 17.1
    assert stand.shown() == "C"
    stand.pass_until(17.0)
    assert stand.shown() == "C"
    stand.pass_until(17.1)
    assert stand.shown() == "A"


async def test_a_list_shows_what_waited_by_itself() -> None:
    stand = Stand()
    stand.pass_until(20.0)
    assert stand.store.view()[0] == 1
    for payload in "ABABAB":
        await stand.send(payload)
    stand.clock.tick()
    for at, shown in ((20.5, "A"), (20.999, "A"), (21.0, "B")):
        stand.time = at
        stand.store.view()
        assert stand.shown() == shown
        stand.clock.tick()


async def test_of_two_pools_that_wait_each_is_shown_at_its_own_time() -> None:
    stand = Stand()
    stand.pass_until(20.0)
    stand.store.view()

    async def dispute(name: str) -> None:
        for payload in "ABABAB":
            sent = json.dumps({"key": {**KEY, "dgd_name": name}, "model": payload}).encode()
            await stand.store.register(model.decode_registration(sent), sent)

    await dispute("p")
    stand.clock.tick()
    stand.time = 20.5
    await dispute("q")
    for at, shown in ((20.999, ["A", "A"]), (21.0, ["B", "A"]), (21.499, ["B", "A"]), (21.5, ["B", "B"])):
        stand.clock.tick()
        stand.time = at
        assert [listing.model for listing in (await stand.store.list()).items] == shown


async def test_relays_of_other_pools_are_not_held_back() -> None:
    stand = Stand()
    for payload in "ABABAB":
        await stand.send(payload)
    other = json.dumps({"key": {**KEY, "dgd_name": "q"}, "model": "x"}).encode()
    before = stand.store._fanout.published
    await stand.store.register(model.decode_registration(other), other)
    assert stand.store._fanout.published == before + 1


async def test_what_is_remembered_of_changes_is_forgotten_after_a_lease() -> None:
    stand = Stand()
    for number in range(200):
        for payload in "AB":
            sent = json.dumps({"key": {**KEY, "dgd_name": str(number)}, "model": payload}).encode()
            await stand.store.register(model.decode_registration(sent), sent)
    assert len(stand.store._payloads) == 200
    stand.time += 0.9
    for _ in range(20):
        stand.pass_until(stand.time + 0.9)
        for number in range(200):
            sent = json.dumps({"key": {**KEY, "dgd_name": str(number)}, "model": "B"}).encode()
            assert await stand.store.renew(sent)
    assert len(stand.store._payloads) == 0
    assert len(stand.store.index) == 200
