"""MemoryPoolStore and its PoolIndex against a slow and obvious registry, under any order of calls and passing time.

The reference knows no filters, no events and no revision: what they must be follows from what it lists.
"""

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gdsvc import model
from gdsvc._pool_index import CHANGED, NEW, UNCHANGED, PoolIndex
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolKey, PoolListing
from gdsvc.pool_discovery.conflicts import FREE_FLIPS, SHOW_EVERY_SECS
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Upserted

Result = TypeVar("Result")
TTL = 2  # seconds: short, so that leases end within few steps
STEP_SECS = 0.0625  # below the lease clock's tick, and exact in binary, so that deadlines are met exactly

SPEC = importlib.util.spec_from_file_location("slow_reference", Path(__file__).with_name("slow_reference.py"))
assert SPEC is not None
assert SPEC.loader is not None
slow_reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(slow_reference)

NAMES = [("a", "n", "1"), ("a", "n", "2"), ("a!", "n", "1"), ("b", "m", "1"), ("ab", "n", "1")]
PAYLOADS: list[dict[str, Any]] = [
    {},
    {"model": "m1"},
    {"model": "m1", "location": None, "frontends": ["http://a"]},
    {"model": "m2", "capabilities": ["x", "y"], "frontends": ["http://a", "http://[::1]:80"]},
]
KEYS = st.sampled_from(NAMES)
SPELLINGS = st.integers(0, 3)


def spell(key: tuple[str, str, str], payload: dict[str, Any], spelling: int) -> bytes:
    """One payload in four spellings: order of members, white space, escapes."""
    names = dict(zip(("site_id", "namespace", "dgd_name"), key, strict=True))
    document = {"key": names, **payload}
    if spelling == 0:
        return json.dumps(document).encode()
    turned = {name: document[name] for name in reversed(document)} | {"key": dict(reversed(names.items()))}
    return json.dumps(
        turned, separators=((",", ":") if spelling == 1 else (" , ", " : ")), indent=spelling % 2
    ).encode()


class StoreModel(RuleBasedStateMachine):
    """A store, the reference and a watcher; after every rule, what they know is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.time = 0.0
        self.clock = LeaseClock(TTL, lambda: self.time)
        self.store = MemoryPoolStore(Lease(1, TTL), self.clock, "2026-01-01T00:00:00Z")
        self.slow = slow_reference.SlowRegistry(TTL)
        self.changes = 0  # of the listings, as the reference has them
        self.encoded = 0
        self.completed = False
        self.flipped_at: dict[tuple[str, str, str], list[float]] = {}
        self.shown_at: dict[tuple[str, str, str], float] = {}
        self.bodies: dict[tuple[str, str, str], list[bytes]] = {}  # those that the fast path must know
        self.seen: dict[PoolKey, PoolListing] = {}  # what a watcher knows
        self.seen_completeness: Completeness | None = None
        self.watch: AsyncIterator[Event[PoolListing, PoolKey]] = self.store.list_and_watch()
        self.follow(self.run(self.awaited()))
        self.next_event = self.loop.create_task(self.awaited())

    def teardown(self) -> None:
        self.next_event.cancel()
        self.loop.run_until_complete(asyncio.gather(self.next_event, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(coroutine)

    async def awaited(self) -> Event[PoolListing, PoolKey]:
        return await anext(self.watch)

    def follow(self, event: Event[PoolListing, PoolKey]) -> None:
        match event:
            case Resync(snapshot):
                self.seen = {listing.key: listing for listing in snapshot.items}
                self.seen_completeness = snapshot.completeness
            case Upserted(listing):
                assert self.seen.get(listing.key) != listing, "nothing changed"
                self.seen[listing.key] = listing
                self.check_rate((listing.key.site_id, listing.key.namespace, listing.key.dgd_name))
            case Removed(key):
                del self.seen[key]

    def check_rate(self, key: tuple[str, str, str]) -> None:
        """A key with more flips in a lease than are free is shown once a second at most."""
        flips = [at for at in self.flipped_at.get(key, []) if self.time - at < TTL]
        if len(flips) > FREE_FLIPS:
            assert self.time - self.shown_at.get(key, -1.0) >= SHOW_EVERY_SECS
        self.shown_at[key] = self.time

    def expired(self) -> None:
        """Ends the reference's leases; the store ends its own when it is advanced."""
        for key in self.slow.expire(self.time):
            self.changes += 1
            self.forget(key)

    def forget(self, key: tuple[str, str, str]) -> None:
        """A pool that comes back has no past."""
        for kept in (self.bodies, self.flipped_at, self.shown_at):
            kept.pop(key, None)

    def drain(self) -> None:
        """Lets the watcher read all there is."""
        self.run(asyncio.sleep(0))
        while self.next_event.done():
            self.follow(self.next_event.result())
            self.next_event = self.loop.create_task(self.awaited())
            self.run(asyncio.sleep(0))

    def step(self) -> None:
        self.store.view()  # as who lists does, so that nothing depends on a pulse
        self.drain()
        self.expired()
        if self.time >= TTL and not self.completed:
            self.completed = True
            self.changes += 1

    # -- what a rule may do, to both

    def do_register(self, key: tuple[str, str, str], payload: dict[str, Any], spelling: int) -> None:
        self.step()
        body = spell(key, payload, spelling)
        before = self.slow.pools.get(key)
        changed = self.slow.register(body, self.time)
        known = self.bodies.setdefault(key, [])
        conflicts = self.store.conflicts
        renewed: bool = self.run(self.store.renew(body))
        assert renewed is (body in known)
        if not renewed:
            assert self.run(self.store.register(model.decode_registration(body), body)) == Lease(1, TTL)
            known[:] = [body] if changed else [*known, body][-2:]
        if self.store.conflicts > conflicts:
            self.flipped_at.setdefault(key, []).append(self.time)
        assert changed is (before is None or before[1] != self.slow.pools[key][1])
        if changed:
            self.changes += 1
            self.encoded += 1
        self.drain()

    def do_deregister(self, key: tuple[str, str, str]) -> None:
        self.step()
        known = self.slow.pools.pop(key, None) is not None
        assert self.run(self.store.deregister(PoolKey(*key))) is known
        self.forget(key)
        self.changes += known

    def wait(self, steps: int) -> None:
        for _ in range(steps):
            self.time += STEP_SECS
            self.clock.tick()
            self.step()

    # -- what must hold

    @invariant()
    def both_list_the_same_bytes(self) -> None:
        if not self.disputed():
            self.assert_both_list_the_same()

    def assert_both_list_the_same(self) -> None:
        parts = self.store.encoded()
        envelope = (b'{"complete":%s,"pools":[' % (b"true" if self.completed else b"false"), b"]}")
        assert parts.join(*envelope) == self.slow.encode(self.completed)

    @invariant()
    def filters_keep_what_a_slow_look_keeps(self) -> None:
        listings = [json.loads(encoded) for encoded in self.store.index.listings()]
        for where, keep in (
            (Filter(models=frozenset({"m1"})), lambda item: item["model"] == "m1"),
            (Filter(site_ids=frozenset({"a", "b"})), lambda item: item["key"]["site_id"] in ("a", "b")),
            (Filter(regions=frozenset({"eu"})), lambda item: False),
        ):
            assert json.loads(self.store.encoded(where).join(b"[", b"]")) == [item for item in listings if keep(item)]

    @invariant()
    def the_watcher_knows_what_is_listed(self) -> None:
        self.drain()
        encodings = self.store.index.listings()
        assert [model.encode_listing(self.seen[key]) for key in sorted(self.seen)] == encodings
        assert self.seen_completeness is (Completeness.EXACT if self.completed else Completeness.ESTIMATED)

    @invariant()
    def the_revision_grows_with_what_is_visible_and_each_change_is_encoded_once(self) -> None:
        index = self.store.index
        if self.store.conflicts <= FREE_FLIPS:
            assert (index.revision, index.encodings) == (self.changes, self.encoded)
        assert index.revision <= self.changes
        assert index.encodings <= self.encoded
        assert index.next_deadline == min((deadline for deadline, _ in self.slow.pools.values()), default=float("inf"))

    @invariant()
    def each_revision_has_one_event(self) -> None:
        assert self.store.index.revision == self.store.changes.published

    def disputed(self) -> bool:
        """Whether relays that disagree may have the newest payload wait to be shown; never for longer than a second."""
        since = self.time - TTL - SHOW_EVERY_SECS
        return any(len([at for at in flips if at >= since]) > FREE_FLIPS for flips in self.flipped_at.values())


class StoreMachine(StoreModel):
    """Few pools that change, renew, leave and lapse."""

    @rule(key=KEYS, payload=st.sampled_from(PAYLOADS), spelling=SPELLINGS)
    def register(self, key: tuple[str, str, str], payload: dict[str, Any], spelling: int) -> None:
        self.do_register(key, payload, spelling)

    @rule(key=KEYS)
    def deregister(self, key: tuple[str, str, str]) -> None:
        self.do_deregister(key)

    @rule(steps=st.integers(1, 20))
    def time_passes(self, steps: int) -> None:
        self.wait(steps)

    @precondition(lambda self: self.slow.pools)
    @rule(share=st.floats(0, 1))
    def a_lease_ends_exactly_now(self, share: float) -> None:
        deadlines = sorted(deadline for deadline, _ in self.slow.pools.values())
        target = deadlines[int(share * (len(deadlines) - 1))]
        while self.time < target:
            self.time += STEP_SECS
            self.clock.tick()
        self.step()
        assert all(deadline > self.time for deadline, _ in self.slow.pools.values())


class DisputedStoreMachine(StoreModel):
    """One pool whose relays disagree all the time: what is held back must come, and no sooner than it may."""

    @rule(payload=st.sampled_from(PAYLOADS[:3]), steps=st.integers(0, 6))
    def register(self, payload: dict[str, Any], steps: int) -> None:
        self.wait(steps)
        self.do_register(NAMES[0], payload, 0)

    @rule(steps=st.integers(1, 4), often=st.integers(4, 8))
    def two_relays_disagree(self, steps: int, often: int) -> None:
        for turn in range(often):
            self.wait(steps)
            self.do_register(NAMES[0], PAYLOADS[turn % 2], 0)

    @rule(before=st.booleans())
    def the_pool_leaves(self, before: bool) -> None:
        if before:
            self.do_deregister(NAMES[0])

    @rule()
    def a_second_later_both_list_the_same(self) -> None:
        self.wait(int(SHOW_EVERY_SECS / STEP_SECS))
        self.assert_both_list_the_same()


class IndexMachine(RuleBasedStateMachine):
    """PoolIndex alone, with numbers for time that may also stand still, and expiry in slices."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PoolIndex(3)
        self.now = 0.0
        self.listed: dict[bytes, bytes] = {}
        self.deadlines: dict[bytes, float] = {}
        self.bodies: dict[bytes, list[bytes]] = {}
        self.revision = 0

    @rule(
        key=st.sampled_from([b"a\0x", b"a\0y", b"b\0x", b"b"]),
        encoded=st.sampled_from([b"1", b"22"]),
        spelling=SPELLINGS,
    )
    def register(self, key: bytes, encoded: bytes, spelling: int) -> None:
        body = key + b"|" + encoded + b" " * spelling
        expected = NEW if key not in self.listed else UNCHANGED if self.listed[key] == encoded else CHANGED
        assert self.index.put(key, encoded) == expected
        self.index.beat(key, body, self.now, TTL, fresh=expected != UNCHANGED)
        known = [] if expected != UNCHANGED else self.bodies[key]
        self.bodies[key] = known if body in known else [*known, body][-2:]
        self.listed[key] = encoded
        self.deadlines[key] = self.now + TTL
        self.revision += expected != UNCHANGED

    @rule(key=st.sampled_from([b"a\0x", b"a\0y"]), encoded=st.sampled_from([b"1", b"22"]), spelling=SPELLINGS)
    def renew(self, key: bytes, encoded: bytes, spelling: int) -> None:
        body = key + b"|" + encoded + b" " * spelling
        known = body in self.bodies.get(key, [])
        assert self.index.renew(body, self.now, TTL) is known
        if known:
            self.deadlines[key] = self.now + TTL

    @rule(key=st.sampled_from([b"a\0x", b"b\0x", b"c"]))
    def remove(self, key: bytes) -> None:
        assert (self.index.remove(key) is not None) is (key in self.listed)
        self.forget(key)

    @rule(passes=st.sampled_from([0.0, 0.5, 1.0, 2.0]), limit=st.integers(1, 5))
    def expire(self, passes: float, limit: int) -> None:
        self.now += passes
        due = [key for key, deadline in self.deadlines.items() if deadline <= self.now]
        gone = [listed.item for listed in self.index.expire(self.now, limit)]
        assert set(gone) <= set(due)
        assert len(gone) == min(limit, len(due))
        for key in gone:
            self.forget(key)

    def forget(self, key: bytes) -> None:
        self.revision += self.listed.pop(key, None) is not None
        self.deadlines.pop(key, None)
        self.bodies.pop(key, None)

    @invariant()
    def knows_what_is_listed_and_until_when(self) -> None:
        encodings = [self.listed[key] for key in sorted(self.listed)]
        assert self.index.listings() == encodings
        assert self.index.parts().join(b"[", b"]") == b"[" + b",".join(encodings) + b"]"
        assert (len(self.index), self.index.revision) == (len(self.listed), self.revision)
        assert {key: self.index.deadline(key) for key in self.listed} == self.deadlines


def test_the_reference_knows_no_member_that_the_model_does_not_write() -> None:
    listing = slow_reference.listing(spell(NAMES[0], PAYLOADS[3], 0))[1]
    assert list(listing) == list(
        json.loads(model.encode_listing(model.listing_of(model.decode_registration(spell(NAMES[0], PAYLOADS[3], 0)))))
    )


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
DisputedStoreMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
IndexMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestStore = StoreMachine.TestCase
TestDisputedStore = DisputedStoreMachine.TestCase
TestIndex = IndexMachine.TestCase
