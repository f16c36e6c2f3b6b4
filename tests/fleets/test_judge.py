"""The judge of the fleets: what it takes for a fault, and what it leaves open since either may be right."""

from collections.abc import Iterable

import pytest

from tests.fleets.judge import Absent, Asked, Judge, Limits, List, Pool, RoundTrips

LIMITS = Limits(lease_secs=3.0, two_polls_secs=2.0)
GROWN_SECS = 5.0


def asked(at: float, spare_secs: float = 0.0) -> Asked:
    return Asked(at, at, spare_secs)


def beating(until: int, model: str = "m") -> Pool:
    """A heartbeat at each second from 0 to `until`."""
    pool = Pool("p", "m")
    for at in range(until + 1):
        pool.sending(model)
        pool.answered(at, at, model, LIMITS.lease_secs)
    return pool


def faults(pool: Pool, at: float, models: Iterable[str], *, complete: bool = True, up_secs: float = 60.0) -> list[str]:
    judge = Judge(LIMITS, [pool])
    judge.hear([List("a", up_secs, asked(at), complete, dict.fromkeys(models, "m"), b"")])
    return judge.faults


def test_a_pool_that_beats_may_be_missing_only_from_a_list_that_is_not_complete() -> None:
    assert faults(beating(9), 9.5, ["p"]) == []
    assert len(faults(beating(9), 9.5, [])) == 1
    assert faults(beating(9), 9.5, [], complete=False) == []


@pytest.mark.parametrize(("at", "expected"), [(1.999, None), (2.0, "m"), (12.0, "m"), (12.001, None)])
def test_a_pool_must_be_listed_from_two_polls_on_until_a_lease_after_it_last_beat(
    at: float, expected: str | None
) -> None:
    assert beating(9 if at > 2 else 1).expected(asked(at), LIMITS) == expected


def test_a_pool_whose_heartbeats_were_too_far_apart_is_as_new() -> None:
    pool = beating(9)
    pool.answered(12.0, 12.001, "m", LIMITS.lease_secs)
    assert pool.expected(asked(14.0), LIMITS) is None
    assert pool.expected(asked(14.001), LIMITS) == "m"


@pytest.mark.parametrize(("at", "expected"), [(14.499, None), (14.5, Absent.STOPPED)])
def test_a_pool_that_stopped_is_gone_a_lease_and_two_polls_later(at: float, expected: Absent | None) -> None:
    pool = beating(9)
    pool.stopped(9.5)
    assert pool.expected(asked(at), LIMITS) is expected


def test_only_a_replica_that_is_up_for_long_enough_must_have_ended_it() -> None:
    pool = beating(9)
    pool.stopped(9.0)
    assert len(faults(pool, 20.0, ["p"], up_secs=GROWN_SECS)) == 1
    assert faults(pool, 20.0, ["p"], up_secs=GROWN_SECS - 0.001) == []
    assert faults(pool, 20.0, []) == []


def test_a_pool_that_was_taken_out_is_gone_everywhere_two_polls_later() -> None:
    pool = beating(9)
    pool.stopped(9.0)
    pool.deregistering()
    assert faults(pool, 9.1, []) == faults(pool, 9.1, ["p"]) == []
    pool.deregistered(9.5)
    assert faults(pool, 11.499, ["p"]) == []
    assert len(faults(pool, 11.5, ["p"], up_secs=2.0, complete=False)) == 1
    assert faults(pool, 11.5, ["p"], up_secs=1.999) == []


def test_round_trips_are_spared_in_every_bound() -> None:
    pool = beating(9)
    pool.stopped(9.0)
    assert pool.expected(asked(14.5, spare_secs=0.501), LIMITS) is None
    assert pool.expected(asked(14.5, spare_secs=0.5), LIMITS) is Absent.STOPPED


def test_a_heartbeat_that_was_not_answered_may_have_been_taken() -> None:
    pool = beating(9)
    pool.stopped(9.0)
    pool.sending("m")
    assert pool.expected(asked(20.0), LIMITS) is None
    changing = beating(9)
    changing.sending("other")
    assert changing.expected(asked(9.5), LIMITS) is None


def test_a_change_must_be_seen_two_polls_later() -> None:
    pool = beating(9)
    pool.sending("other")
    pool.answered(10.0, 10.0, "other", LIMITS.lease_secs)
    assert [pool.expected(asked(at), LIMITS) for at in (11.999, 12.0)] == [None, "other"]
    assert len(faults(pool, 12.0, ["p"])) == 1


def test_lists_in_which_all_has_settled_are_equal_to_the_byte() -> None:
    judge = Judge(LIMITS, [beating(9)])
    lists = [List(name, 60.0, asked(9.5), True, {"p": "m"}, name.encode()) for name in "ab"]
    judge.hear(lists)
    assert judge.faults == ["lists of a, b differ"]
    judge = Judge(LIMITS, [beating(1)])
    judge.hear(lists)
    assert judge.faults == []


def test_a_bound_spares_two_of_the_slowest_round_trips_of_late() -> None:
    trips = RoundTrips(5.0, 4.0)
    assert trips.spare_secs(0.0) == 0.0
    for at, secs in ((1.0, 0.2), (2.0, 0.05), (3.0, 0.1)):
        trips.took(secs, at)
    assert [trips.spare_secs(at) for at in (3.0, 6.0, 6.1, 8.1)] == [0.4, 0.4, 0.2, 0.0]


def test_a_bound_spares_two_readings_where_calls_were_so_slow_that_they_were_given_up() -> None:
    trips = RoundTrips(5.0, 4.0)
    trips.took(0.249, 0.0)
    assert trips.spare_secs(0.0) == 0.498
    trips.took(0.25, 0.0)
    assert trips.spare_secs(0.0) == 8.5
