"""What the memory store publishes: one event for each revision, with what filters need to know of before and after."""

from itertools import pairwise
from typing import Any

import pytest

from gdsvc import model
from gdsvc.backends.leased import EXPIRY_SLICE
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.errors import LimitReached
from gdsvc.model import Lease, PoolKey, PoolLocation, PoolRegistration
from gdsvc.pool_discovery.fanout import LAGGED, Lagged
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import EncodedEvent, EncodedRemoval, EncodedUpsert, Facets


class Stand:
    """A store with a lease of 15 s on a clock that is set by hand."""

    def __init__(self, **options: Any) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.store = MemoryPoolStore(Lease(5, 15), self.clock, "2026-01-01T00:00:00.000Z", **options)

    def pass_until(self, at: float) -> None:
        while at - self.time > 0.1:
            self.time += 0.1
            self.clock.tick()
        self.time = at

    async def register(self, name: str, model_name: str | None = None, region: str | None = None) -> bytes:
        location = None if region is None else PoolLocation(region)
        registration = PoolRegistration(PoolKey("s", "n", name), location, model_name)
        await self.store.register(registration)
        return model.encode_registered(registration)

    def events(self) -> list[EncodedEvent | Lagged]:
        """All of them; fails where there are more or fewer than revisions."""
        changes = self.store.changes
        assert changes.published == self.store.index.revision
        return [changes.at(place) for place in range(changes.published)]


async def test_a_new_pool_was_nothing_before() -> None:
    stand = Stand()
    encoded = await stand.register("p", "m", "eu")
    assert stand.events() == [EncodedUpsert(b"s\0n\0p", encoded, Facets("m", "eu"), None)]


async def test_a_change_carries_what_the_pool_was_filtered_by_before() -> None:
    stand = Stand()
    await stand.register("p", "m1", "eu")
    second = await stand.register("p", "m2", None)
    third = await stand.register("p", None, "us")
    assert stand.events()[1:] == [
        EncodedUpsert(b"s\0n\0p", second, Facets("m2", None), Facets("m1", "eu")),
        EncodedUpsert(b"s\0n\0p", third, Facets(None, "us"), Facets("m2", None)),
    ]


@pytest.mark.parametrize("by_delete", [True, False])
async def test_a_removal_carries_what_the_pool_was_filtered_by(by_delete: bool) -> None:
    stand = Stand()
    await stand.register("p", "m1", "eu")
    await stand.register("p", "m2", "us")
    if by_delete:
        await stand.store.deregister(PoolKey("s", "n", "p"))
    else:
        stand.pass_until(15.0)
        stand.store.advance()
    removals = [event for event in stand.events() if isinstance(event, EncodedRemoval)]
    assert removals == [EncodedRemoval(b"s\0n\0p", Facets("m2", "us"))]


async def test_a_pool_that_comes_back_was_nothing_before() -> None:
    stand = Stand()
    await stand.register("p", "m1")
    await stand.store.deregister(PoolKey("s", "n", "p"))
    await stand.register("p", "m2")
    event = stand.events()[-1]
    assert isinstance(event, EncodedUpsert)
    assert (event.facets, event.was) == (Facets("m2"), None)


async def test_a_change_that_was_held_back_is_told_against_what_was_shown() -> None:
    stand = Stand()
    for turn in range(8):  # two relays disagree, so that the last of these is held back
        stand.pass_until(stand.time + 0.1)
        await stand.register("p", f"m{turn % 2}")
    shown = [event for event in stand.events() if isinstance(event, EncodedUpsert)]
    stand.pass_until(stand.time + 1.1)
    stand.store.view()
    later = [event for event in stand.events() if isinstance(event, EncodedUpsert)]
    for before, after in pairwise(later):
        assert after.was == before.facets
    assert len(shown) <= len(later) < 8
    assert later[-1].facets == Facets("m1")


async def test_a_payload_held_back_of_a_pool_that_left_is_never_shown() -> None:
    stand = Stand()
    for turn in range(8):
        stand.pass_until(stand.time + 0.1)
        await stand.register("p", f"m{turn % 2}")
    await stand.store.deregister(PoolKey("s", "n", "p"))
    stand.pass_until(stand.time + 3.0)
    stand.store.view()
    assert isinstance(stand.events()[-1], EncodedRemoval)


async def test_completeness_is_a_revision_and_one_event() -> None:
    stand = Stand()
    await stand.register("p")
    stand.pass_until(14.0)
    await stand.register("p")
    stand.pass_until(15.0)
    stand.store.view()
    assert stand.events()[1:] == [LAGGED]


async def test_every_revision_has_an_event_whatever_happens() -> None:
    stand = Stand(max_pools=EXPIRY_SLICE + 10)
    for number in range(EXPIRY_SLICE + 10):
        await stand.register(f"{number}")
    with pytest.raises(LimitReached):
        await stand.register("one more")
    await stand.register("0")
    await stand.store.deregister(PoolKey("s", "n", "unknown"))
    for at in (14.9, 15.0, 15.1, 16.0):
        stand.pass_until(at)
        stand.store.view()
        stand.events()
    assert stand.store.index.revision == 2 * (EXPIRY_SLICE + 10) + 1
