"""When a heartbeat beats: inside the lease, never in step with its fleet, patiently where it is refused."""

import pytest

from gdsvc.client.heartbeat import granted_lease
from gdsvc.client.schedule import REFUSED_SECS, HeartbeatStatus, Schedule
from gdsvc.model import Lease

LEASE = Lease(5, 15)
URL = "http://gds"


def schedule(randomly: float = 1.0, now: float = 100.0) -> Schedule:
    return Schedule(now, lambda: randomly)


def granted(randomly: float = 1.0, lease: Lease = LEASE) -> Schedule:
    """Sent and granted at 100."""
    beat = schedule(randomly)
    beat.sent(100.0)
    beat.granted(100.0, lease, URL)
    return beat


def test_the_first_beat_is_due_at_once() -> None:
    beat = schedule()
    assert (beat.due_at, beat.state.status) == (100.0, HeartbeatStatus.STARTING)


@pytest.mark.parametrize(("randomly", "due_at"), [(0.0, 105.0), (0.5, 104.5), (1.0, 104.0)])
def test_the_next_beat_comes_within_the_interval_and_up_to_a_fifth_early(randomly: float, due_at: float) -> None:
    assert granted(randomly).due_at == pytest.approx(due_at)


def test_the_interval_counts_from_the_sending_not_from_the_answer() -> None:
    beat = schedule(0.0)
    beat.sent(100.0)
    beat.granted(103.0, LEASE, URL)
    assert beat.due_at == pytest.approx(105.0)


def test_an_answer_slower_than_the_interval_makes_the_next_beat_due_not_overdue() -> None:
    beat = schedule(0.0)
    beat.sent(100.0)
    beat.granted(107.0, LEASE, URL)
    assert beat.due_at == 107.0


def test_the_lease_that_is_granted_is_kept_not_the_one_assumed() -> None:
    assert granted(0.0, Lease(60, 300)).due_at == pytest.approx(160.0)
    assert granted(0.0, Lease(1, 2)).due_at == pytest.approx(101.0)


@pytest.mark.parametrize("lease", [LEASE, Lease(1, 3), Lease(30, 90), Lease(1, 2)])
@pytest.mark.parametrize("randomly", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("stalls", [False, True])
def test_there_are_several_attempts_inside_the_lease_whether_they_fail_at_once_or_stall(
    lease: Lease, randomly: float, stalls: bool
) -> None:
    beat = granted(randomly, lease)
    now, attempts = beat.due_at, 0
    while now < 100 + lease.lease_duration_secs:
        attempts += 1
        budget = beat.sent(now)
        assert budget <= max(1.0, lease.heartbeat_interval_secs)
        now += budget if stalls else 0.0
        beat.failed(now, "down")
        assert beat.due_at > now
        now = beat.due_at
    assert attempts >= (2 if stalls and lease.lease_duration_secs > 2 else 1)
    assert attempts <= 60, "and no tight loop"


def test_failures_back_off_up_to_the_interval_and_no_further() -> None:
    beat = granted(1.0, Lease(5, 1000))
    pauses = []
    for _ in range(8):
        beat.failed(110.0, "down")
        pauses.append(beat.due_at - 110.0)
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])


def test_a_good_beat_makes_the_next_failure_a_first_one() -> None:
    beat = granted(1.0, Lease(5, 1000))
    for _ in range(5):
        beat.failed(110.0, "down")
    beat.sent(120.0)
    beat.granted(120.0, Lease(5, 1000), URL)
    beat.failed(125.0, "down")
    assert beat.due_at == pytest.approx(125.2)


@pytest.mark.parametrize("randomly", [0.0, 1.0])
def test_retry_after_is_kept_where_the_lease_allows_it(randomly: float) -> None:
    beat = granted(randomly)
    beat.failed(104.0, "busy", retry_after_secs=3.0)
    assert 107.0 <= beat.due_at <= 107.6


@pytest.mark.parametrize("randomly", [0.0, 1.0])
@pytest.mark.parametrize("asked", [30.0, 1e9])
def test_retry_after_never_costs_the_lease(randomly: float, asked: float) -> None:
    beat = granted(randomly)
    beat.failed(105.0, "busy", retry_after_secs=asked)
    assert 105.0 < beat.due_at < 115.0


def test_retry_after_without_a_lease_is_kept_for_one_lease_at_most() -> None:
    beat = schedule()
    beat.failed(100.0, "busy", retry_after_secs=1e9)
    assert beat.due_at == pytest.approx(115.0)


def test_a_failure_that_never_ends_is_told_as_what_it_is() -> None:
    beat = granted()
    beat.failed(105.0, "down")
    assert beat.state.status is HeartbeatStatus.RETRYING
    assert beat.lapses_at() == 115.0
    beat.passed(114.999)
    assert beat.state.status is HeartbeatStatus.RETRYING
    beat.passed(115.0)
    assert (beat.state.status, beat.state.reason, beat.lapses_at()) == (HeartbeatStatus.LAPSED, "down", None)
    beat.failed(116.0, "still down")
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.LAPSED, "still down")
    beat.sent(117.0)
    beat.granted(117.0, LEASE, URL)
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.REGISTERED, None)


def test_a_lease_that_ended_before_the_next_beat_could_be_sent_is_told() -> None:
    beat = granted()
    beat.passed(114.999)
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.REGISTERED, None)
    beat.passed(115.0)
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.LAPSED, "no heartbeat was sent in time")
    beat.sent(115.0)
    beat.granted(115.1, LEASE, URL)
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.REGISTERED, None)


def test_failures_before_the_first_grant_lapse_nothing() -> None:
    beat = schedule()
    beat.failed(100.0, "down")
    beat.passed(1000.0)
    assert (beat.state.status, beat.state.reason, beat.lapses_at()) == (HeartbeatStatus.STARTING, "down", None)


@pytest.mark.parametrize("randomly", [0.0, 1.0])
def test_a_refusal_is_tried_again_slowly_and_says_why(randomly: float) -> None:
    beat = granted(randomly)
    beat.refused(115.0, "422: $.model")
    assert 115 + REFUSED_SECS / 2 <= beat.due_at <= 115 + REFUSED_SECS
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.REFUSED, "422: $.model")


@pytest.mark.parametrize("randomly", [0.0, 1.0])
def test_a_refusal_is_tried_again_inside_a_lease_that_holds(randomly: float) -> None:
    beat = granted(randomly)
    beat.refused(105.0, "409")
    assert 105 + LEASE.heartbeat_interval_secs / 2 <= beat.due_at <= 105 + LEASE.heartbeat_interval_secs
    beat.refused(114.9, "409")
    beat.sent(115.0)
    beat.granted(115.0, LEASE, URL)
    assert (beat.state.status, beat.state.reason) == (HeartbeatStatus.REGISTERED, None)


def test_a_change_is_due_at_once_also_after_a_refusal() -> None:
    beat = granted()
    beat.refused(105.0, "no")
    beat.changed(106.0)
    assert beat.due_at == 106.0


def test_two_of_a_fleet_that_start_together_do_not_beat_in_step() -> None:
    early, late = granted(0.9), granted(0.1)
    assert late.due_at - early.due_at > 0.5


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'"x"',
        b"\xff",
        b"[" * 10_000,
        b'{"heartbeat_interval_secs":0,"lease_duration_secs":15}',
        b'{"heartbeat_interval_secs":15,"lease_duration_secs":15}',
        b'{"heartbeat_interval_secs":"5","lease_duration_secs":15}',
    ],
)
def test_what_grants_no_lease_is_seen(body: bytes) -> None:
    assert granted_lease(body) is None


def test_a_lease_is_read_whatever_else_is_said() -> None:
    assert granted_lease(b'{"heartbeat_interval_secs":5,"lease_duration_secs":15,"later":1}') == LEASE
