"""Which payloads are flips, and when a disputed key may be shown."""

import pytest

from gdsvc.pool_discovery.conflicts import Payloads

LEASE = 15.0
A, B, C, D, E, F = range(101, 107)


def flips(payloads: Payloads[str], sequence: list[int], start: float = 0.0, step: float = 1.0) -> list[bool]:
    """Receives `sequence`, one payload a `step`; for each after the first, whether it is a flip."""
    found = []
    for position in range(1, len(sequence)):
        now = start + position * step
        found.append(payloads.changed(sequence[position], sequence[position - 1], now - step, now))
    return found


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ([A, B], [False]),
        ([A, B, C, D, E, F], [False] * 5),
        ([A, B, A], [False, True]),
        ([A, B, C, A], [False, False, True]),
        ([A, B, A, B, A], [False, True, True, True]),
        ([A, B, C, D, E, A], [False, False, False, False, True]),
        ([A, B, C, D, E, F, A], [False] * 6),
        ([A, B, C, D, E, F, B], [False] * 5 + [True]),
    ],
)
def test_a_flip_is_one_of_the_last_four_other_payloads(sequence: list[int], expected: list[bool]) -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    assert flips(payloads, sequence) == expected
    assert payloads.flips == sum(expected)


def test_a_payload_seen_twice_among_the_others_takes_one_place() -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    assert flips(payloads, [A, B, C, B, D, E, A]) == [False, False, True, False, False, True]


@pytest.mark.parametrize(("now", "flip"), [(15.999, True), (16.0, False)])
def test_a_payload_last_seen_a_lease_ago_is_news(now: float, flip: bool) -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    payloads.changed(B, A, replaced_seen_at=1.0, now=2.0)
    assert payloads.changed(A, B, replaced_seen_at=2.0, now=now) is flip


def test_a_pool_that_only_moves_forward_is_never_disputed() -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    for version in range(100):
        assert not payloads.changed(version + 1, version, version * 0.1, version * 0.1)
        payloads.shown_at = version * 0.1
        assert payloads.showable_at(version * 0.1) == version * 0.1
    assert payloads.flips == 0


def test_three_flips_in_a_lease_are_shown_at_once_and_the_fourth_is_held_for_a_second() -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    shown = []
    for position in range(1, 6):  # the first change is no flip
        now = position * 0.1
        payloads.changed(A if position % 2 else B, B if position % 2 else A, now - 0.1, now)
        shown.append(payloads.showable_at(now))
        payloads.shown_at = now
    assert shown[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert shown[4] == pytest.approx(1.4)


@pytest.mark.parametrize(("now", "held"), [(17.999, True), (18.0, False)])
def test_flips_a_lease_ago_no_longer_dispute_the_key(now: float, held: bool) -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    flips(payloads, [A, B, A, B, A, B], start=1.0)  # flips at 3, 4, 5 and 6
    payloads.shown_at = now
    assert payloads.showable_at(now) == (now + 1.0 if held else now)


def test_a_disputed_key_that_was_shown_a_second_ago_is_shown_at_once() -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    flips(payloads, [A, B, A, B, A, B])
    payloads.shown_at = 5.0
    assert payloads.showable_at(6.0) == 6.0


@pytest.mark.parametrize(("now", "forgettable"), [(16.999, False), (17.0, True)])
def test_what_has_not_changed_for_a_lease_can_be_forgotten(now: float, forgettable: bool) -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    payloads.changed(B, A, 1.0, 2.0)
    assert payloads.forgettable(now) is forgettable


def test_what_waits_to_be_shown_is_not_forgotten() -> None:
    payloads: Payloads[str] = Payloads(LEASE)
    payloads.changed(B, A, 1.0, 2.0)
    payloads.held = "B"
    assert not payloads.forgettable(100.0)
