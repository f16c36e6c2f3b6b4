"""Cells, frontends and guards: counted once, whoever forgets what."""

import gc
import weakref

import pytest

from gdsvc._in_flight import Cell, Frontend, Guard


def frontends(cell: Cell, count: int) -> tuple[Frontend, ...]:
    return tuple(Frontend(cell, f"http://10.0.0.{number}") for number in range(1, count + 1))


def test_a_guard_counts_from_hold_to_release() -> None:
    [frontend] = frontends(Cell("a"), 1)
    guard = frontend.hold()
    assert (frontend.cell.in_flight, guard.frontend) == (1, frontend)
    guard.release()
    assert frontend.cell.in_flight == 0


def test_a_guard_is_released_once_however_often_it_is_told() -> None:
    [frontend] = frontends(Cell("a"), 1)
    other = frontend.hold()
    with frontend.hold() as guard:
        guard.release()
        guard.release()
    del guard
    assert frontend.cell.in_flight == 1
    other.release()


def test_a_guard_is_released_by_an_error_and_by_being_forgotten() -> None:
    [frontend] = frontends(Cell("a"), 1)
    with pytest.raises(KeyError), frontend.hold():
        raise KeyError
    guard = frontend.hold()
    del guard
    gc.collect()
    assert frontend.cell.in_flight == 0


def test_a_guard_keeps_its_cell_alive() -> None:
    cell = Cell("a")
    seen = weakref.ref(cell)
    guard = Frontend(cell, "http://10.0.0.1").hold()
    del cell
    assert (seen() or Cell("")).in_flight == 1
    guard.release()
    del guard
    assert seen() is None


def test_there_is_no_guard_without_a_frontend() -> None:
    with pytest.raises(TypeError):
        Guard(None)  # type: ignore[arg-type]
    with Guard(Frontend(Cell("a"), "http://10.0.0.1")) as guard:
        guard.__init__()  # counts nothing: the guard does from its making
        assert guard.frontend.cell.in_flight == 1


def test_frontends_take_turns_and_those_set_aside_are_passed_over() -> None:
    own = frontends(Cell("a"), 3)
    cell = own[0].cell
    assert [cell.rotate(own) for _ in range(4)] == [*own, own[0]]
    own[1].aside = True
    assert [cell.rotate(own) for _ in range(4)] == [own[2], own[0], own[2], own[0]]
    own[1].aside = False
    assert [cell.rotate(own) for _ in range(3)] == [own[1], own[2], own[0]]


def test_where_all_frontends_are_set_aside_they_take_turns_all_the_same() -> None:
    own = frontends(Cell("a"), 2)
    for frontend in own:
        frontend.aside = True
    assert [own[0].cell.rotate(own) for _ in range(3)] == [own[0], own[1], own[0]]


def test_what_is_no_frontend_is_refused() -> None:
    with pytest.raises(ValueError, match="with a frontend"):
        Cell("a").rotate(())
    with pytest.raises(TypeError):
        Cell("a").rotate(("http://10.0.0.1",))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Frontend(None, "http://10.0.0.1")  # type: ignore[arg-type]


def test_eight_answers_win_back_the_trust_that_a_failure_cost() -> None:
    cell = Cell("a")
    cell.succeeded()
    assert cell.strikes == 0
    cell.failed()
    cell.succeeded()
    cell.failed()
    for _ in range(7):
        cell.succeeded()
    assert cell.strikes == 1
    cell.succeeded()
    assert cell.strikes == 0
