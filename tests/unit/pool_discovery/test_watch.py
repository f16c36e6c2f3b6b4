"""Snapshots: decoded when they are looked at, and only then."""

import pytest

from gdsvc.pool_discovery.watch import Completeness, Items, Removed, Resync, Snapshot, Upserted


class Decoder:
    """Counts what it decodes."""

    def __init__(self) -> None:
        self.decoded: list[bytes] = []

    def __call__(self, encoded: bytes) -> str:
        self.decoded.append(encoded)
        return encoded.decode()


def test_items_are_decoded_when_they_are_looked_at() -> None:
    decoder = Decoder()
    items = Items([b"a", b"b", b"c"], decoder)
    assert len(items) == 3
    assert decoder.decoded == []
    assert items[1] == "b"
    assert decoder.decoded == [b"b"]


def test_items_are_a_sequence() -> None:
    items = Items([b"a", b"b", b"c"], bytes.decode)
    assert list(items) == ["a", "b", "c"]
    assert items[-1] == "c"
    assert "b" in items
    assert items.index("c") == 2
    assert list(reversed(items)) == ["c", "b", "a"]
    with pytest.raises(IndexError):
        items[3]


def test_a_slice_decodes_nothing_either() -> None:
    decoder = Decoder()
    tail = Items([b"a", b"b", b"c"], decoder)[1:]
    assert decoder.decoded == []
    assert list(tail) == ["b", "c"]


def test_events_are_values() -> None:
    assert Upserted("a") == Upserted("a")
    assert Removed("a") != Removed("b")
    snapshot = Snapshot(("a",), Completeness.EXACT, 3)
    assert Resync(snapshot) == Resync(Snapshot(("a",), Completeness.EXACT, 3))
    assert Resync(snapshot) != Resync(Snapshot(("a",), Completeness.ESTIMATED, 3))
