from itertools import accumulate

from gdsvc.kube.backoff import Backoff


def test_waits_double_from_800_ms_to_30_s() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    assert [round(backoff.wait_secs(), 3) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_jitter_takes_at_most_half_of_a_wait() -> None:
    backoff = Backoff(draw=lambda: 0.0)
    assert [round(backoff.wait_secs(), 3) for _ in range(7)] == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]


def test_only_progress_starts_over() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    for _ in range(5):
        backoff.wait_secs()
    backoff.progressed()
    assert (backoff.wait_secs(), backoff.wait_secs()) == (0.8, 1.6)


def test_a_minute_of_failures_is_fewer_than_a_dozen_requests() -> None:
    backoff = Backoff(draw=lambda: 0.0)
    assert sum(at < 60 for at in accumulate(backoff.wait_secs() for _ in range(100))) < 12


def test_instances_that_fail_together_come_back_ten_seconds_apart() -> None:
    last = []
    for instance in range(50):
        backoff = Backoff(draw=lambda draw=instance / 50: draw)  # type: ignore[misc]
        last.append([backoff.wait_secs() for _ in range(7)][-1])
    assert max(last) - min(last) > 10
