"""An index of thousands of pools, so of many chunks and a table of bodies that grows, against a dict and sorted()."""

import random

import pytest

from gdsvc._list_parts import ListParts
from gdsvc._pool_index import PoolIndex

TTL = 15.0
STEPS = 4000
NAMES = 3000


class Fleet:
    """Does the same to an index and to dicts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.index = PoolIndex(seed)
        self.shown: dict[bytes, bytes] = {}
        self.bodies: dict[bytes, list[bytes]] = {}  # the newest last
        self.now = 0.0

    def some_key(self) -> bytes:
        return b"site\0ns\0pool-%d" % self.random.randrange(NAMES)

    def register(self, key: bytes) -> None:
        encoded = b"%d" % self.random.randrange(10 ** self.random.randrange(1, 9))
        fresh = self.shown.get(key) != encoded
        body = key + encoded + b" " * self.random.randrange(3)
        self.index.put(key, encoded)
        self.index.beat(key, body, self.now, TTL, fresh)
        before = [] if fresh else self.bodies[key]
        self.bodies[key] = before if body in before else [*before, body][-2:]
        self.shown[key] = encoded

    def respell(self, key: bytes) -> None:
        """The same payload in other bytes."""
        if key in self.shown:
            body = key + self.shown[key] + b"\t" * self.random.randrange(3)
            self.index.beat(key, body, self.now, TTL, fresh=False)
            before = self.bodies[key]
            self.bodies[key] = before if body in before else [*before, body][-2:]

    def remove(self, key: bytes) -> None:
        assert (self.index.remove(key) is not None) is (key in self.shown)
        self.forget(key)

    def expire(self) -> None:
        self.now += self.random.choice([0.0, 0.01, 3.0])
        for key in [listed.item for listed in self.index.expire(self.now, self.random.randrange(1, 400))]:
            self.forget(key)

    def forget(self, key: bytes) -> None:
        self.shown.pop(key, None)
        self.bodies.pop(key, None)

    def assert_lists_agree(self, parts: ListParts) -> None:
        expected = b",".join(self.shown[key] for key in sorted(self.shown))
        assert parts.size == len(expected)
        head = b"[" * self.random.randrange(3)
        assert parts.join(head, b"]") == head + expected + b"]"
        assert parts.join(b"{", b"") == b"{" + expected, "a second time, with another head"

    def assert_bodies_agree(self) -> None:
        known = {body for bodies in self.bodies.values() for body in bodies}
        asked = known | {key + encoded + b" " * spaces for key, encoded in self.shown.items() for spaces in range(3)}
        assert {body for body in asked if self.index.renew(body, self.now, TTL)} == known


@pytest.mark.parametrize("seed", range(4))
def test_lists_and_bodies_of_a_large_fleet_agree_with_a_dict(seed: int) -> None:
    fleet = Fleet(seed)
    for key in {fleet.some_key() for _ in range(2000)}:
        fleet.register(key)
    steps = [fleet.register] * 8 + [fleet.respell] * 2 + [fleet.remove] * 2
    for step in range(STEPS):
        fleet.random.choice(steps)(fleet.some_key())
        if fleet.random.random() < 0.02:
            fleet.expire()
        if fleet.random.random() < 0.1:
            parts = fleet.index.parts()  # now and then one that nobody joins
            if fleet.random.random() < 0.7:
                fleet.assert_lists_agree(parts)
        if step % 500 == 0:
            fleet.assert_bodies_agree()
    fleet.assert_lists_agree(fleet.index.parts())
    fleet.assert_bodies_agree()


def test_a_fleet_that_comes_back_after_all_have_left_is_listed_again() -> None:
    fleet = Fleet(9)
    for _ in range(3):
        for number in range(1000):
            fleet.register(b"site\0ns\0pool-%d" % number)
        fleet.assert_lists_agree(fleet.index.parts())
        for key in list(fleet.shown):
            fleet.remove(key)
        fleet.assert_lists_agree(fleet.index.parts())
