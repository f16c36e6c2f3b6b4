"""What LeastInFlight promises: the least loaded, no favour for who fails fast, and what stays keeps its turn."""

from collections import Counter
from collections.abc import Sequence

import pytest

from gdsvc._in_flight import Cell, Frontend, Guard
from gdsvc._picker import LeastInFlight, RoundRobin

Given = tuple[Cell, tuple[Frontend, ...]]


def pool(name: str, frontends: int = 1) -> Given:
    cell = Cell(name)
    return cell, tuple(Frontend(cell, f"http://{name}{number}") for number in range(frontends))


def fleet(names: str) -> list[Given]:
    return [pool(name) for name in names]


def chosen(picker: LeastInFlight) -> Frontend:
    frontend = picker.pick()
    assert frontend is not None
    return frontend


def picked(picker: LeastInFlight, count: int) -> str:
    return "".join(chosen(picker).cell.pool_id for _ in range(count))


@pytest.mark.parametrize("pools", [[], [(Cell("a"), ())]])
def test_nothing_selectable_picks_nothing(pools: list[Given]) -> None:
    picker = LeastInFlight(pools)
    assert (picker.pick(), len(picker)) == (None, 0)


def test_idle_pools_take_turns() -> None:
    assert picked(LeastInFlight(fleet("abc")), 7) == "abcabca"


def test_the_pool_with_the_fewest_requests_in_flight_is_picked() -> None:
    pools = fleet("abc")
    held = [pools[at][1][0].hold() for at in (0, 0, 1, 2, 2, 2)]
    assert picked(LeastInFlight(pools), 2) == "bb"
    held.pop(0).release()
    held.pop(0).release()
    assert picked(LeastInFlight(pools), 2) == "aa"


def test_held_requests_spread_evenly() -> None:
    picker = LeastInFlight(fleet("abcd"))
    guards = [chosen(picker).hold() for _ in range(40)]
    assert Counter(guard.frontend.cell.pool_id for guard in guards) == dict.fromkeys("abcd", 10)


def test_frontends_of_a_pool_take_turns() -> None:
    cell, frontends = pool("a", 3)
    picker = LeastInFlight([(cell, frontends)])
    assert [picker.pick() for _ in range(4)] == [*frontends, frontends[0]]


def requests(picker: LeastInFlight, count: int, broken: str, busy: int) -> Counter[str]:
    """`count` requests of which `busy` are in hand at any time; the pool `broken` answers at once that it cannot."""
    served = Counter[str]()
    in_hand: list[Guard] = []
    for _ in range(count):
        frontend = chosen(picker)
        served[frontend.cell.pool_id] += 1
        if frontend.cell.pool_id == broken:
            frontend.cell.failed()
        else:
            in_hand.append(frontend.hold())
        if len(in_hand) > busy:
            done = in_hand.pop(0)
            done.frontend.cell.succeeded()
            done.release()
    return served


def test_a_pool_that_fails_fast_gets_no_more_than_its_turn_of_a_round() -> None:
    served = requests(LeastInFlight(fleet("abcd")), 400, broken="b", busy=40)
    assert 90 <= served["b"] <= 101


def test_a_pool_that_can_again_is_found_out_and_trusted_again() -> None:
    pools = fleet("abcd")
    pools[1][0].failed()
    busy = [frontends[0].hold() for _, frontends in pools if frontends[0].cell.pool_id != "b"]
    picker = LeastInFlight(pools)
    for _ in range(40):
        chosen(picker).cell.succeeded()
    assert pools[1][0].strikes == 0
    assert picked(picker, 3) == "bbb"
    assert len(busy) == 3


def test_where_all_fail_all_take_turns() -> None:
    pools = fleet("abc")
    for cell, _ in pools:
        cell.failed()
    assert picked(LeastInFlight(pools), 6) == "abcabc"


def test_a_pool_that_is_set_aside_is_passed_over_and_loaded_ones_are_not() -> None:
    pools = fleet("abc")
    pools[0][0].aside = True
    held = [frontends[0].hold() for _, frontends in pools[1:]]
    assert picked(LeastInFlight(pools), 4) == "bcbc"
    assert len(held) == 2


def test_where_all_are_set_aside_all_take_turns() -> None:
    pools = fleet("ab")
    for cell, _ in pools:
        cell.aside = True
    assert picked(LeastInFlight(pools), 4) == "abab"


def test_a_pool_that_stays_keeps_its_last_turn() -> None:
    pools = fleet("abcd")
    picker = LeastInFlight(pools)
    assert picked(picker, 2) == "ab"
    picker.swap([pools[3], pools[1], pools[0], pools[2]])
    assert picked(picker, 4) == "dcab"


def test_a_new_pool_comes_first_among_equals() -> None:
    pools = fleet("abc")
    picker = LeastInFlight(pools)
    picked(picker, 5)
    picker.swap([*pools, pool("x")])
    assert picked(picker, 4) == "xcab"


@pytest.mark.parametrize(
    "bad", [None, [("a", ())], [(Cell("a"), ("http://a",))], [(Cell("a"), pool("b")[1])], [(None, ())]]
)
def test_what_is_no_cell_with_its_frontends_is_refused_and_changes_nothing(bad: Sequence[Given]) -> None:
    picker = LeastInFlight(fleet("ab"))
    with pytest.raises(TypeError):
        picker.swap(bad)
    assert picked(picker, 2) == "ab"


def test_a_pool_given_twice_is_refused() -> None:
    [one] = fleet("a")
    with pytest.raises(ValueError, match="once"):
        LeastInFlight([one, one])


def test_a_second_attempt_goes_to_another_pool_else_to_another_frontend() -> None:
    pools = [pool("a", 2), pool("b")]
    held = pools[1][1][0].hold()
    picker = LeastInFlight(pools)
    first = chosen(picker)
    second = picker.pick_besides(first)
    assert first.cell is pools[0][0]
    assert second is held.frontend
    alone = LeastInFlight(pools[:1])
    other = alone.pick_besides(first)
    assert other in pools[0][1]
    assert other is not first
    assert LeastInFlight(pools[1:]).pick_besides(held.frontend) is None
    assert not any(cell.aside or any(f.aside for f in frontends) for cell, frontends in pools)


def test_of_very_many_pools_each_is_compared_every_few_picks() -> None:
    pools = [pool(str(number)) for number in range(1500)]
    picker = LeastInFlight(pools)
    assert len({chosen(picker) for _ in range(1500)}) == 1500
    held = [frontends[0].hold() for _, frontends in pools[1:]]
    assert pools[0][1][0] in {picker.pick() for _ in range(3)}
    assert len(held) == 1499


# ------------------------------------------------------------------------------------- round-robin, with frontends


def rota(pools: list[Given]) -> RoundRobin[Cell, Frontend]:
    return RoundRobin(pools)


def turns(picker: RoundRobin[Cell, Frontend], count: int) -> list[Frontend]:
    return [pair[1] for pair in (picker.pick() for _ in range(count)) if pair is not None]


def test_round_robin_passes_over_a_frontend_that_is_set_aside_and_its_pool_keeps_its_turn() -> None:
    pools = [pool("a", 2), pool("b")]
    (a1, a2), (b,) = pools[0][1], pools[1][1]
    a1.aside = True
    assert turns(rota(pools), 4) == [a2, b, a2, b]


def test_round_robin_passes_over_a_pool_whose_frontends_are_all_set_aside_until_it_is_back() -> None:
    pools = [pool("a", 2), pool("b"), pool("c")]
    (a1, a2), (b,), (c,) = (frontends for _, frontends in pools)
    a1.aside = a2.aside = True
    picker = rota(pools)
    assert turns(picker, 4) == [b, c, b, c]
    a2.aside = False
    assert turns(picker, 6) == [a2, b, c, a2, b, c]


def test_round_robin_takes_all_in_turn_where_all_are_set_aside() -> None:
    pools = fleet("abc")
    for _, (frontend,) in pools:
        frontend.aside = True
    assert [each.cell.pool_id for each in turns(rota(pools), 6)] == list("abcabc")


def test_a_pool_that_was_set_aside_has_no_turns_to_catch_up_on_after_a_swap() -> None:
    pools = fleet("abc")
    picker = rota(pools)
    pools[0][1][0].aside = True
    turns(picker, 7)
    picker.swap(pools)
    pools[0][1][0].aside = False
    names = [each.cell.pool_id for each in turns(picker, 9)]
    assert [set(names[at : at + 3]) for at in (0, 3, 6)] == [set("abc")] * 3


def test_a_second_attempt_of_round_robin_is_never_the_first_again() -> None:
    pools = [pool("a", 2), pool("b")]
    picker = rota(pools)
    for _ in range(9):
        [first] = turns(picker, 1)
        second = picker.pick_besides(first)
        assert second is not None
        assert second[1] is not first
    [alone] = fleet("z")
    assert rota([alone]).pick_besides(alone[1][0]) is None
    assert not alone[1][0].aside
    assert rota([]).pick_besides(alone[1][0]) is None
