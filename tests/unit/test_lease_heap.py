"""What LeaseHeap promises: exact boundaries, order, ownership, and memory that follows what is leased."""

import gc
import math
import sys
import tracemalloc
import weakref

import pytest

from gdsvc._lease_heap import LeaseEntry, LeaseHeap


class Item:
    """Something weakly referable to lease."""


def items(entries: list[LeaseEntry]) -> list[object]:
    return [entry.item for entry in entries]


def heap_of(*leases: tuple[str, float, float]) -> tuple[LeaseHeap, dict[str, LeaseEntry]]:
    """A heap of (item, now, ttl) renewals, and its entries by item."""
    heap = LeaseHeap()
    entries = {item: LeaseEntry(item) for item, _, _ in leases}
    for item, now, ttl in leases:
        heap.renew(entries[item], now, ttl)
    return heap, entries


def test_a_new_entry_holds_its_item_and_is_in_no_heap() -> None:
    item = Item()
    entry = LeaseEntry(item)
    assert entry.item is item
    assert (entry.deadline, entry.linked) == (math.inf, False)
    assert LeaseEntry().item is None
    assert LeaseEntry(item="named").item == "named"


@pytest.mark.parametrize("name", ["item", "deadline", "linked"])
def test_an_entry_is_read_only(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(LeaseEntry(), name, 1.0)


def test_an_entry_can_be_subclassed() -> None:
    class Session(LeaseEntry):
        def __init__(self, name: str, pins: int) -> None:
            super().__init__(name)
            self.pins = pins

    heap = LeaseHeap()
    session = Session("a", pins=3)
    heap.renew(session, 0.0, 1.0)
    assert heap.expire(1.0, 1) == [session]


def test_an_empty_heap_has_no_next_deadline() -> None:
    heap = LeaseHeap()
    assert (len(heap), heap.next_deadline, heap.expire(1e9, 10)) == (0, math.inf, [])


@pytest.mark.parametrize(
    ("renewals", "now", "gone"),
    [
        ([0.0], 14.999, []),
        ([0.0], 15.0, ["a"]),
        ([0.0, 10.0], 24.999, []),
        ([0.0, 10.0], 25.0, ["a"]),
    ],
)
def test_a_lease_ends_at_its_deadline_and_not_before(renewals: list[float], now: float, gone: list[str]) -> None:
    heap, entries = heap_of(("a", renewals[0], 15.0))
    for at in renewals[1:]:
        heap.renew(entries["a"], at, 15.0)
    assert items(heap.expire(now, 10)) == gone
    assert len(heap) == 1 - len(gone)


def test_a_renewal_moves_the_deadline() -> None:
    heap, entries = heap_of(("a", 0.0, 15.0), ("b", 1.0, 15.0))
    heap.renew(entries["a"], 2.0, 15.0)
    assert entries["a"].deadline == 17.0
    assert heap.next_deadline == 16.0
    assert len(heap) == 2
    assert items(heap.expire(17.0, 10)) == ["b", "a"]


def test_an_expired_entry_is_in_no_heap_and_can_come_back() -> None:
    heap, entries = heap_of(("a", 0.0, 15.0))
    assert heap.expire(15.0, 1) == [entries["a"]]
    assert (entries["a"].deadline, entries["a"].linked, heap.next_deadline) == (math.inf, False, math.inf)
    heap.renew(entries["a"], 20.0, 15.0)
    assert (entries["a"].deadline, entries["a"].linked, len(heap)) == (35.0, True, 1)


def test_equal_deadlines_of_one_ttl_end_in_the_order_of_renewal() -> None:
    heap, entries = heap_of(*((name, 0.0, 15.0) for name in "abcd"))
    heap.renew(entries["b"], 0.0, 15.0)
    assert items(heap.expire(15.0, 10)) == ["a", "c", "d", "b"]


def test_leases_of_several_ttls_end_by_deadline() -> None:
    heap, _ = heap_of(("a", 0.0, 30.0), ("b", 0.0, 10.0), ("c", 5.0, 10.0), ("d", 5.0, 1.0), ("e", 7.0, 30.0))
    assert heap.next_deadline == 6.0
    assert items(heap.expire(100.0, 10)) == ["d", "b", "c", "a", "e"]


@pytest.mark.parametrize(("to_ttl", "gone_at"), [(5.0, 6.0), (60.0, 61.0)])
def test_a_lease_moves_to_a_shorter_or_longer_ttl(to_ttl: float, gone_at: float) -> None:
    heap, entries = heap_of(("a", 0.0, 15.0), ("b", 0.0, 15.0), ("c", 0.0, 15.0))
    heap.renew(entries["b"], 1.0, to_ttl)
    assert entries["b"].deadline == gone_at
    assert len(heap) == 3
    early = items(heap.expire(math.nextafter(gone_at, 0.0), 10))
    assert early == ([] if gone_at < 15.0 else ["a", "c"])
    assert items(heap.expire(gone_at, 10)) == ["b"]


def test_a_renewal_at_an_earlier_now_keeps_the_order() -> None:
    heap, entries = heap_of(("a", 10.0, 15.0), ("b", 20.0, 15.0), ("c", 30.0, 15.0), ("d", 15.0, 15.0))
    assert heap.next_deadline == 25.0
    heap.renew(entries["c"], 5.0, 15.0)
    assert heap.next_deadline == 20.0
    assert items(heap.expire(100.0, 10)) == ["c", "a", "d", "b"]


def test_an_earlier_now_goes_behind_its_equals() -> None:
    heap, _ = heap_of(("a", 10.0, 15.0), ("b", 20.0, 15.0), ("c", 10.0, 15.0))
    assert items(heap.expire(100.0, 10)) == ["a", "c", "b"]


def test_expire_takes_no_more_than_its_limit() -> None:
    heap, _ = heap_of(*((name, 0.0, 15.0) for name in "abcde"))
    assert items(heap.expire(15.0, 0)) == []
    assert items(heap.expire(15.0, -1)) == []
    assert items(heap.expire(15.0, 2)) == ["a", "b"]
    assert (len(heap), heap.next_deadline) == (3, 15.0)
    assert items(heap.expire(15.0, 3)) == ["c", "d", "e"]
    assert heap.next_deadline == math.inf


def test_remove_says_whether_the_entry_was_there() -> None:
    heap, entries = heap_of(("a", 0.0, 15.0), ("b", 0.0, 15.0), ("c", 0.0, 15.0))
    assert heap.remove(entries["b"]) is True
    assert heap.remove(entries["b"]) is False
    assert (entries["b"].deadline, entries["b"].linked, len(heap)) == (math.inf, False, 2)
    assert items(heap.expire(15.0, 10)) == ["a", "c"]


def test_removing_the_first_moves_the_next_deadline() -> None:
    heap, entries = heap_of(("a", 0.0, 15.0), ("b", 1.0, 15.0), ("c", 0.0, 15.5))
    assert heap.remove(entries["a"])
    assert heap.next_deadline == 15.5
    assert heap.remove(entries["c"])
    assert heap.next_deadline == 16.0


def test_an_entry_of_another_heap_is_refused_and_stays_where_it_is() -> None:
    heap, other = LeaseHeap(), LeaseHeap()
    entry = LeaseEntry("a")
    other.renew(entry, 0.0, 15.0)
    with pytest.raises(ValueError, match="another heap"):
        heap.renew(entry, 0.0, 15.0)
    with pytest.raises(ValueError, match="another heap"):
        heap.remove(entry)
    assert (len(heap), len(other), entry.deadline) == (0, 1, 15.0)
    assert other.remove(entry)
    heap.renew(entry, 0.0, 15.0)
    assert len(heap) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_now_that_is_not_finite_is_refused(bad: float) -> None:
    heap, entries = heap_of(("a", 0.0, 15.0))
    with pytest.raises(ValueError, match="now must be finite"):
        heap.renew(entries["a"], bad, 15.0)
    with pytest.raises(ValueError, match="now must be finite"):
        heap.expire(bad, 1)
    assert (len(heap), entries["a"].deadline) == (1, 15.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0])
def test_a_ttl_that_is_not_finite_and_above_zero_is_refused(bad: float) -> None:
    heap, entries = heap_of(("a", 0.0, 15.0))
    with pytest.raises(ValueError, match="ttl must be finite and above zero"):
        heap.renew(entries["a"], 0.0, bad)
    assert (len(heap), entries["a"].deadline) == (1, 15.0)


def test_a_deadline_beyond_all_numbers_is_refused() -> None:
    heap = LeaseHeap()
    with pytest.raises(ValueError, match=r"now \+ ttl must be finite"):
        heap.renew(LeaseEntry(), 1e308, 1e308)
    assert len(heap) == 0


@pytest.mark.parametrize("bad", [None, "entry", Item()])
def test_what_is_no_entry_is_a_type_error(bad: object) -> None:
    heap = LeaseHeap()
    with pytest.raises(TypeError, match="entry"):
        heap.renew(bad, 0.0, 15.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="entry"):
        heap.remove(bad)  # type: ignore[arg-type]


def test_the_heap_owns_one_reference_to_each_entry() -> None:
    heap = LeaseHeap()
    entry = LeaseEntry("a")
    alone = sys.getrefcount(entry)
    heap.renew(entry, 0.0, 15.0)
    heap.renew(entry, 1.0, 15.0)
    heap.renew(entry, 1.0, 30.0)
    heap.renew(entry, 0.0, 30.0)
    assert sys.getrefcount(entry) == alone + 1
    heap.remove(entry)
    assert sys.getrefcount(entry) == alone
    heap.renew(entry, 0.0, 15.0)
    heap.expire(15.0, 1)
    assert sys.getrefcount(entry) == alone


def test_100_000_entries_all_go_with_their_heap() -> None:
    alive: weakref.WeakSet[Item] = weakref.WeakSet()
    heap = LeaseHeap()
    for number in range(100_000):
        item = Item()
        alive.add(item)
        heap.renew(LeaseEntry(item), number * 0.001, 15.0 + number % 3)
    del item
    assert len(alive) == len(heap) == 100_000
    assert len(heap.expire(65.0, 20_000)) == 20_000
    assert len(alive) == len(heap) == 80_000
    del heap
    assert len(alive) == 0


def test_entries_that_outlive_their_heap_are_free() -> None:
    heap, entries = heap_of(("a", 0.0, 15.0), ("b", 0.0, 15.0), ("c", 0.0, 30.0))
    del heap
    assert [entry.linked for entry in entries.values()] == [False] * 3
    assert [sys.getrefcount(entry) for entry in entries.values()] == [sys.getrefcount(LeaseEntry()) + 1 + 1] * 3


def test_a_cycle_through_a_leased_item_is_collected() -> None:
    class Owner:
        def __init__(self) -> None:
            self.heap = LeaseHeap()
            for ttl in (1.0, 1.0, 2.0):
                self.heap.renew(LeaseEntry(self), 0.0, ttl)

    owner = Owner()
    seen = weakref.ref(owner)
    gc.collect()
    assert seen() is owner
    assert len(owner.heap) == 3
    del owner
    gc.collect()
    assert seen() is None


def test_an_item_that_returns_to_the_heap_as_it_ends_finds_it_whole() -> None:
    heap = LeaseHeap()
    lengths: list[int] = []

    class Last(LeaseEntry):
        def __del__(self) -> None:
            heap.renew(LeaseEntry("late"), 0.0, 20.0)
            lengths.append(len(heap))

    heap.renew(Last("a"), 0.0, 15.0)
    heap.renew(LeaseEntry("b"), 0.0, 15.0)
    assert items(heap.expire(15.0, 1)) == ["a"]
    assert lengths == [2]
    assert items(heap.expire(20.0, 10)) == ["b", "late"]


def test_memory_does_not_grow_as_ttls_come_and_go() -> None:
    heap, entry = LeaseHeap(), LeaseEntry()
    heap.renew(LeaseEntry(), 0.0, 1e9)

    def churn(rounds: int) -> None:
        for number in range(rounds):
            heap.renew(entry, 0.0, 1.0 + number * 0.001)

    churn(1_000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        churn(50_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4_096  # a queue that stayed would cost 56 bytes, 2.8 MB in all


def test_many_ttls_at_once_end_in_order_and_give_their_memory_back() -> None:
    heap = LeaseHeap()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(10_000):
            heap.renew(LeaseEntry(number), 0.0, 1.0 + (number * 7_919) % 10_000)
        gone = heap.expire(20_000.0, 9_999)
        deadlines = [1.0 + (number * 7_919) % 10_000 for number in items(gone)]  # type: ignore[operator]
        del gone
        heap.expire(20_000.0, 1)
        heap.renew(LeaseEntry(), 0.0, 1.0)  # an insertion is what makes the dict of ttls shrink
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert deadlines == [1.0 + number for number in range(9_999)]
    assert after - before < 1_000_000
