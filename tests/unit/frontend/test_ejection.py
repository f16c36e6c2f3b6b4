"""Outlier ejection by literal instants: what bars, for how long, and where too many would be."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc._in_flight import Cell, Frontend
from gdsvc.frontend.ejection import Ejection, Standing

Given = tuple[Cell, tuple[Frontend, ...]]


def pool(name: str, frontends: int = 1) -> Given:
    cell = Cell(name)
    return cell, tuple(Frontend(cell, f"http://{name}{number}") for number in range(frontends))


def fleet(names: str) -> list[Given]:
    return [pool(name) for name in names]


def machine(*pools: Given) -> Ejection:
    made = Ejection()
    made.regroup("m", pools)
    return made


def bar(ejection: Ejection, *frontends: Frontend, now: float = 0.0) -> None:
    for frontend in frontends:
        outcomes = [ejection.failed(frontend, now) for _ in range(5)]
        assert outcomes == [False, False, False, False, True]


def aside(pools: list[Given]) -> str:
    for cell, frontends in pools:
        assert not cell.aside or all(frontend.aside for frontend in frontends)
    return "".join(cell.pool_id for cell, _ in pools if cell.aside)


def test_five_failures_in_a_row_set_a_frontend_aside_for_ten_seconds() -> None:
    pools = [pool("a", 2), pool("b")]
    (cell, (first, other)) = pools[0]
    ejection = machine(*pools)
    for _ in range(4):
        assert not ejection.failed(first, 100.0)
    assert (first.aside, ejection.next_at) == (False, inf)
    assert ejection.failed(first, 101.0)
    assert (first.aside, other.aside, cell.aside, ejection.next_at) == (True, False, False, 111.0)
    ejection.advance(110.999)
    assert (first.aside, ejection.next_at) == (True, 111.0)
    ejection.advance(111.0)
    assert (first.aside, ejection.next_at) == (False, inf)


def test_a_success_breaks_the_row() -> None:
    pools = fleet("ab")
    ejection = machine(*pools)
    [failing] = pools[0][1]
    for _ in range(3):
        for _ in range(4):
            ejection.failed(failing, 0.0)
        assert not ejection.succeeded(failing)
    assert aside(pools) == ""


def test_the_time_aside_doubles_up_to_300_seconds_and_a_success_resets_it() -> None:
    pools = fleet("ab")
    ejection = machine(*pools)
    [failing] = pools[0][1]
    bar(ejection, failing)
    now, times = 0.0, []
    for _ in range(8):
        times.append(ejection.next_at - now)
        now = ejection.next_at
        ejection.advance(now)
        assert ejection.failed(failing, now)  # one failure is enough: the row goes on
    assert times == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    ejection.advance(now + 300.0)
    ejection.succeeded(failing)
    bar(ejection, failing, now=5000.0)
    assert ejection.next_at == 5010.0


def test_a_success_lets_a_frontend_back_at_once() -> None:
    pools = fleet("ab")
    ejection = machine(*pools)
    [failing] = pools[0][1]
    bar(ejection, failing)
    assert aside(pools) == "a"
    assert ejection.succeeded(failing)
    assert (aside(pools), failing.aside, list(ejection.standings())) == ("", False, [])


def test_failures_of_requests_in_hand_do_not_lengthen_the_time() -> None:
    pools = fleet("ab")
    ejection = machine(*pools)
    bar(ejection, *pools[0][1])
    for _ in range(20):
        assert not ejection.failed(pools[0][1][0], 9.0)
    assert ejection.next_at == 10.0


def test_a_pool_is_set_aside_when_all_its_frontends_are() -> None:
    pools = [pool("a", 2), pool("b")]
    ejection = machine(*pools)
    bar(ejection, pools[0][1][0])
    assert aside(pools) == ""
    bar(ejection, pools[0][1][1], now=3.0)
    assert aside(pools) == "a"
    ejection.advance(10.0)
    assert (aside(pools), [f.aside for f in pools[0][1]]) == ("", [False, True])


@pytest.mark.parametrize(("names", "most"), [("ab", "a"), ("abc", "a"), ("abcd", "ab"), ("abcde", "ab")])
def test_at_most_half_of_a_models_pools_are_set_aside_those_first_that_failed_first(names: str, most: str) -> None:
    pools = fleet(names)
    ejection = machine(*pools)
    for at, (_, frontends) in enumerate(pools[:-1]):
        bar(ejection, *frontends, now=float(at))
    assert aside(pools) == most
    assert not pools[-2][1][0].aside or len(names) == 2


@pytest.mark.parametrize("names", ["a", "ab", "abcd"])
def test_where_all_would_be_set_aside_none_is(names: str) -> None:
    pools = fleet(names)
    ejection = machine(*pools)
    bar(ejection, *(frontends[0] for _, frontends in pools))
    assert (aside(pools), any(frontends[0].aside for _, frontends in pools)) == ("", False)
    assert {standing.aside for standing in ejection.standings()} == {False}
    ejection.succeeded(pools[-1][1][0])
    assert aside(pools) == names[: len(names) // 2]


def test_the_only_pool_still_turns_from_a_broken_frontend_to_one_that_works() -> None:
    [only] = [pool("a", 2)]
    ejection = machine(only)
    bar(ejection, only[1][0])
    assert [frontend.aside for frontend in only[1]] == [True, False]


def test_models_are_counted_apart() -> None:
    one, other = fleet("ab"), fleet("cd")
    ejection = machine(*one)
    ejection.regroup("n", other)
    bar(ejection, one[0][1][0], other[0][1][0])
    assert (aside(one), aside(other)) == ("a", "c")


def test_who_comes_back_in_time_is_still_set_aside() -> None:
    pools = fleet("abc")
    ejection = machine(*pools)
    bar(ejection, *pools[0][1])
    ejection.regroup("m", pools[1:])
    assert (aside(pools), list(ejection.standings())) == ("", [])
    ejection.regroup("m", pools)
    assert aside(pools) == "a"
    assert list(ejection.standings()) == [Standing(pools[0][1][0], 10.0, True)]


def test_a_smaller_set_has_room_for_fewer() -> None:
    pools = fleet("abcd")
    ejection = machine(*pools)
    bar(ejection, pools[0][1][0], pools[1][1][0])
    assert aside(pools) == "ab"
    ejection.regroup("m", pools[:3])
    assert aside(pools) == "a"
    ejection.regroup("m", pools[:2])
    assert aside(pools) == ""


@pytest.mark.parametrize("order", ["nm", "mn"])
def test_a_pool_that_changes_its_model_takes_its_record_along(order: str) -> None:
    pools = fleet("abc")
    ejection = machine(*pools)
    bar(ejection, *pools[0][1])
    groups = {"n": pools[:1] + fleet("z"), "m": pools[1:]}
    for name in order:
        ejection.regroup(name, groups[name])
    assert aside(pools) == "a"


def test_a_pool_without_frontends_is_none_of_those_that_are_counted() -> None:
    pools = fleet("ab")
    ejection = machine(*pools, (Cell("x"), ()), (Cell("y"), ()))
    bar(ejection, pools[0][1][0], pools[1][1][0])
    assert aside(pools) == ""


def test_outcomes_of_what_no_catalog_has_any_more_change_nothing_and_are_forgotten() -> None:
    pools = fleet("ab")
    ejection = machine(*pools)
    stranger = pool("z")[1][0]
    bar(ejection, stranger, now=1.0)
    ejection.forget(310.999)
    assert ejection.failed(stranger, 310.999)  # the row goes on: it is still known
    ejection.forget(630.999)
    bar(ejection, stranger, now=631.0)
    assert (aside(pools), stranger.aside) == ("", False)


POOLS = 4


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fail", "fail", "fail", "succeed", "wait", "regroup"]),
            st.integers(0, POOLS - 1),
            st.integers(0, 1),
            st.sampled_from([0.0, 4.0, 10.0, 25.0]),
        ),
        max_size=120,
    )
)
def test_never_too_many_are_set_aside_and_all_come_back(steps: list[tuple[str, int, int, float]]) -> None:
    pools = [pool(str(number), 1 + number % 2) for number in range(POOLS)]
    present = dict(pools)
    ejection, now = machine(*pools), 0.0
    for what, number, which, secs in steps:
        cell, own = pools[number]
        frontend = own[which % len(own)]
        match what:
            case "fail":
                ejection.failed(frontend, now)
            case "succeed":
                ejection.succeeded(frontend)
                assert not frontend.aside
            case "regroup":
                present.pop(cell) if cell in present else present.update({cell: own})
                ejection.regroup("m", list(present.items()))
            case _:
                now += secs
                ejection.advance(now)
        barred = [standing.frontend for standing in ejection.standings()]
        entirely = [each for each, frontends in present.items() if all(f in barred for f in frontends)]
        most = 0 if len(entirely) == len(present) else len(present) // 2
        assert sum(each.aside for each in present) == min(most, len(entirely))
        for each, frontends in pools:
            assert all(f.aside for f in frontends if f in barred and each not in entirely)
            wholly = bool(frontends) and all(f.aside for f in frontends)
            assert each.aside == wholly
            assert each in present or not wholly
        assert ejection.next_at > now or not any(s.until <= now for s in ejection.standings())
    ejection.advance(now + 300.0)
    assert not any(each.aside or any(f.aside for f in own) for each, own in pools)
    assert ejection.next_at == inf
