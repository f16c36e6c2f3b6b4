"""What RoundRobin promises: whole rounds, cursors that survive swaps, and no value that no snapshot had."""

import gc
import inspect
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice, pairwise

import pytest

from gdsvc._picker import RoundRobin

Pools = list[tuple[str, list[str]]]


def fleet(names: str) -> Pools:
    """Pools of one frontend each, one per letter."""
    return [(name, [name.upper()]) for name in names]


def picked(picker: RoundRobin[str, str], count: int) -> list[str]:
    """The pools of the next picks."""
    return [pair[0] for pair in islice(iter(picker.pick, None), count)]


@pytest.mark.parametrize("pools", [[], [("a", [])], [("a", []), ("b", ())]])
def test_nothing_selectable_picks_nothing(pools: Pools) -> None:
    picker = RoundRobin(pools)
    assert (picker.pick(), picker.pick(), len(picker), picker.pools) == (None, None, 0, ())
    assert RoundRobin[str, str]().pick() is None


def test_a_pool_without_frontends_is_left_out() -> None:
    picker = RoundRobin([("a", ["A"]), ("b", []), ("c", ["C"])])
    assert (len(picker), picker.pools) == (2, ("a", "c"))
    assert picked(picker, 4) == ["a", "c", "a", "c"]


def test_every_pool_has_one_turn_a_round_and_its_frontends_take_turns() -> None:
    picker = RoundRobin([("a", ["A1", "A2", "A3"]), ("b", ["B1"]), ("c", ["C1", "C2"])])
    a, b, c = cycle(["A1", "A2", "A3"]), cycle(["B1"]), cycle(["C1", "C2"])
    for _ in range(7):
        assert [picker.pick() for _ in range(3)] == [("a", next(a)), ("b", next(b)), ("c", next(c))]


def test_pools_may_come_from_an_iterator_and_frontends_be_any_sequence() -> None:
    picker = RoundRobin((key, frontends) for key, frontends in [((1, "x"), (b"A",)), ((2, "y"), (b"B", b"C"))])
    assert [picker.pick() for _ in range(3)] == [((1, "x"), b"A"), ((2, "y"), b"B"), ((1, "x"), b"A")]


def test_pick_takes_no_argument_and_needs_no_bound_method() -> None:
    assert inspect.ismethoddescriptor(RoundRobin.pick)
    with pytest.raises(TypeError):
        RoundRobin().pick(1)  # type: ignore[call-arg]


def test_pick_allocates_nothing() -> None:
    picker = RoundRobin([("a", ["A1", "A2"]), ("b", ["B1"]), ("c", ["C1"])])
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        picker.pick()
    after = sys.getallocatedblocks()
    assert after - before < 50
    assert picker.pick() is [picker.pick() for _ in range(6)][-1]


def test_a_pool_given_twice_is_refused_and_changes_nothing() -> None:
    picker = RoundRobin(fleet("abc"))
    assert picked(picker, 1) == ["a"]
    with pytest.raises(ValueError, match="once"):
        picker.swap([("x", ["X"]), ("y", ["Y"]), ("x", ["Z"])])
    assert picker.pools == ("a", "b", "c")
    assert picked(picker, 3) == ["b", "c", "a"]


@pytest.mark.parametrize("bad", [None, 3, [("a",)], [("a", None)], [([], ["A"])], [("a", ["A"], 1)]])
def test_pools_of_the_wrong_shape_change_nothing(bad: object) -> None:
    picker = RoundRobin(fleet("ab"))
    with pytest.raises((TypeError, ValueError)):
        picker.swap(bad)  # type: ignore[arg-type]
    assert picked(picker, 2) == ["a", "b"]


@pytest.mark.parametrize("picks", range(7))
def test_a_swap_to_the_same_pools_changes_no_turn(picks: int) -> None:
    pools = [("a", ["A1", "A2"]), ("b", ["B1", "B2", "B3"]), ("c", ["C1"])]
    still, swapped = RoundRobin(pools), RoundRobin(pools)
    for picker in (still, swapped):
        picked(picker, picks)
    swapped.swap(pools)
    assert [swapped.pick() for _ in range(12)] == [still.pick() for _ in range(12)]


def test_the_round_goes_on_at_the_first_pool_that_is_still_there() -> None:
    picker = RoundRobin(fleet("abcde"))
    assert picked(picker, 1) == ["a"]
    picker.swap(fleet("ade"))
    assert picked(picker, 6) == ["d", "e", "a", "d", "e", "a"]


def test_a_new_pool_has_its_turn_within_the_round_that_goes_on() -> None:
    picker = RoundRobin(fleet("abc"))
    assert picked(picker, 2) == ["a", "b"]
    picker.swap(fleet("axbc"))
    assert picker.pools == ("a", "x", "b", "c")
    assert set(picked(picker, 2)) == {"c", "x"}
    assert picked(picker, 4) == ["a", "b", *picked(RoundRobin(fleet("cx")), 2)]


def test_a_swap_of_order_alone_serves_nobody_twice() -> None:
    picker = RoundRobin(fleet("abc"))
    served = []
    for turn in range(9):
        served += picked(picker, 1)
        picker.swap(fleet("bac" if turn % 2 else "cab"))
    assert [set(served[at : at + 3]) for at in (0, 3, 6)] == [set("abc")] * 3


def test_a_pool_that_stays_keeps_its_frontend_cursor() -> None:
    picker = RoundRobin([("a", ["A1", "A2", "A3"]), ("b", ["B"])])
    assert [picker.pick() for _ in range(2)] == [("a", "A1"), ("b", "B")]
    picker.swap([("a", ("A1", "A2", "A3"))])
    assert [picker.pick() for _ in range(3)] == [("a", "A2"), ("a", "A3"), ("a", "A1")]


def test_changed_frontends_go_on_at_the_first_that_is_still_there() -> None:
    picker = RoundRobin([("a", ["A1", "A2", "A3", "A4"])])
    assert picker.pick() == ("a", "A1")
    picker.swap([("a", ["A4", "A0", "A3", "A1"])])
    assert [picker.pick() for _ in range(4)] == [("a", "A3"), ("a", "A1"), ("a", "A4"), ("a", "A0")]
    picker.swap([("a", ["B1", "B2"])])
    assert [picker.pick() for _ in range(2)] == [("a", "B1"), ("a", "B2")]


def flip_order(turn: int) -> Iterator[Pools]:
    yield from (fleet("dcba"), fleet("abcd"))


def flap_each(turn: int) -> Iterator[Pools]:
    yield from (fleet("abcd".replace(gone, "")) for gone in "abcd")
    yield fleet("abcd")


def empty_and_fill(turn: int) -> Iterator[Pools]:
    yield from ([], [], fleet("abcd"))


def flap_in_groups(turn: int) -> Iterator[Pools]:
    yield from (fleet("a"), fleet("bcd"), fleet("abcd"))


def lose_frontends(turn: int) -> Iterator[Pools]:
    yield from ([("a", []), *fleet("bcd")], [*fleet("ab"), ("c", []), ("d", [])], fleet("abcd"))


def pass_strangers_through(turn: int) -> Iterator[Pools]:
    yield from ([*fleet("abcd"), (f"x{turn}", ["X"])], [(f"y{turn}", ["Y"]), *fleet("abcd")], fleet("abcd"))


@pytest.mark.parametrize(
    "swaps", [flip_order, flap_each, empty_and_fill, flap_in_groups, lose_frontends, pass_strangers_through]
)
def test_200_swaps_between_two_picks_starve_nobody(swaps: Callable[[int], Iterator[Pools]]) -> None:
    picker = RoundRobin(fleet("abcd"))
    served = Counter[str]()
    for turn in range(40):
        for _ in range(200 // len(list(swaps(turn)))):
            for pools in swaps(turn):
                picker.swap(pools)
        served.update(picked(picker, 1))
    assert served == dict.fromkeys("abcd", 10)


@pytest.mark.parametrize("strangers", [1, 2, 5])
def test_pools_that_come_and_go_around_a_stable_one_neither_starve_nor_promote_it(strangers: int) -> None:
    picker = RoundRobin[str, str]()
    served = []
    for turn in range(60):
        passing: Pools = [(f"x{turn}-{number}", ["X"]) for number in range(strangers)]
        picker.swap([*passing[::2], ("stable", ["S"]), *passing[1::2]])
        served += picked(picker, 1)
    turns = [turn for turn, name in enumerate(served) if name == "stable"]
    assert {later - turn for turn, later in pairwise(turns)} == {strangers + 1}


def test_a_pool_that_is_there_at_every_other_pick_has_its_turns() -> None:
    picker = RoundRobin(fleet("ab"))
    served = []
    for turn in range(40):
        picker.swap(fleet("ab" if turn % 2 else "abx"))
        served += picked(picker, 1)
    assert Counter(served)["x"] >= 10
    assert min(Counter(served)["a"], Counter(served)["b"]) >= 10


def test_pools_that_left_are_not_kept_for_ever() -> None:
    class Key:
        pass

    alive: weakref.WeakSet[Key] = weakref.WeakSet()
    picker = RoundRobin[Key, str]()
    for turn in range(500):
        keys = [Key() for _ in range(10)]
        alive.update(keys)
        picker.swap([(key, ["A"]) for key in keys])
        del keys
        if turn % 3:
            picker.pick()
    assert len(alive) <= 30
    del picker
    assert len(alive) == 0


def test_a_cycle_through_a_pool_is_collected() -> None:
    class Key:
        picker: RoundRobin["Key", str]

    key = Key()
    key.picker = RoundRobin([(key, ["A"])])
    seen = weakref.ref(key)
    del key
    gc.collect()
    assert seen() is None


def test_picks_inside_a_comparison_see_whole_snapshots_and_lose_no_turn() -> None:
    served: list[str] = []

    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            pair = picker.pick() if armed else None
            if pair is not None:
                served.append(pair[0].name)
            return isinstance(other, Key) and other.name == self.name

    armed = False
    picker = RoundRobin([(Key(name), [name]) for name in "abcd"])
    armed = True
    for _ in range(20):
        picker.swap([(Key(name), [name]) for name in "dbca"])
    assert len(served) > 100
    assert {tuple(sorted(served[at : at + 4])) for at in range(0, len(served) - 4, 4)} == {tuple("abcd")}


def test_a_swap_inside_a_comparison_is_not_lost_sight_of() -> None:
    class Key(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            if inner:
                picker.swap(inner.pop())
                served.extend(picked(picker, 2))
            return str.__eq__(self, other)

    inner: list[Pools] = []
    served: list[str] = []
    picker: RoundRobin[str, str] = RoundRobin([(Key(name), [name]) for name in "abc"])
    assert picked(picker, 1) == ["a"]
    inner.append(fleet("abcx"))
    picker.swap([(Key(name), [name]) for name in "cbax"])
    assert picker.pools == ("c", "b", "a", "x")
    assert served == ["b", "c"]
    assert picked(picker, 4) == ["x", "a", "b", "c"]


def test_a_pool_whose_end_picks_and_swaps_finds_the_new_snapshot() -> None:
    seen: list[tuple[object, object] | None] = []

    class Key:
        def __del__(self) -> None:
            seen.append(picker.pick())
            picker.swap([("last", ["L"])])

    picker: RoundRobin[object, str] = RoundRobin([(Key(), ["K"])])
    picker.swap([("b", ["B"])])  # the pool that left may still be remembered
    picker.swap([("c", ["C"])])
    assert seen == [("c", "C")]
    assert picker.pick() == ("last", "L")


def test_threads_that_pick_while_another_swaps_see_only_pairs_of_a_snapshot() -> None:
    snapshots = [
        [(f"p{pool}", [f"{number}-{pool}-{frontend}" for frontend in range(1 + pool % 3)]) for pool in range(number, 8)]
        for number in range(8)
    ]
    valid = {(pool, frontend) for pools in snapshots for pool, frontends in pools for frontend in frontends}
    picker = RoundRobin(snapshots[0])
    strange: list[object] = []

    def pick() -> None:
        for _ in range(30_000):
            pair = picker.pick()
            if pair not in valid:
                strange.append(pair)

    def swap() -> None:
        for turn in range(3_000):
            picker.swap(snapshots[turn * 5 % 8])

    threads = [threading.Thread(target=task) for task in (pick, pick, swap, pick, swap)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert strange == []
    assert set(picked(picker, len(picker))) == set(picker.pools)
