"""Which address comes first, and when a name is looked up again. Time is a number."""

import socket

from gdsvc.frontend.upstream.names import Address, Addresses

A, B, C = (Address(socket.AF_INET, (f"192.0.2.{last}", 80)) for last in (1, 2, 3))


def known(*addresses: Address, ttl: float = 30.0, now: float = 100.0) -> Addresses:
    made = Addresses(ttl)
    made.found(addresses, now)
    return made


def test_a_new_name_is_due_and_has_no_address() -> None:
    made = Addresses(30.0)
    assert (made.is_due(0.0), made.is_known, made.order()) == (True, False, [])


def test_what_was_found_is_taken_from_memory_for_its_time() -> None:
    made = known(A)
    assert not made.is_due(129.999)
    assert made.is_due(130.0)


def test_each_connection_begins_with_the_next_address() -> None:
    made = known(A, B, C)
    assert [made.order() for _ in range(4)] == [[A, B, C], [B, C, A], [C, A, B], [A, B, C]]


def test_an_address_that_failed_is_tried_last_until_it_works_again() -> None:
    made = known(A, B)
    made.failed(A)
    assert [made.order() for _ in range(2)] == [[B, A], [B, A]]
    made.works(A)
    assert {tuple(made.order()) for _ in range(2)} == {(A, B), (B, A)}


def test_a_name_whose_addresses_all_fail_is_due_a_second_after_it_was_looked_up() -> None:
    made = known(A, B)
    made.failed(A)
    assert not made.is_due(101.0)
    made.failed(B)
    assert not made.is_due(100.999)
    assert made.is_due(101.0)
    assert set(made.order()) == {A, B}


def test_a_look_up_that_fails_keeps_what_is_known_and_is_repeated_after_a_second() -> None:
    made = known(A)
    made.not_found("gone", 130.0)
    assert made.order() == [A]
    assert not made.is_due(130.999)
    assert made.is_due(131.0)


def test_a_new_look_up_forgets_what_failed() -> None:
    made = known(A, B)
    made.failed(A)
    made.found([B, A], 130.0)
    assert {tuple(made.order()) for _ in range(2)} == {(A, B), (B, A)}
