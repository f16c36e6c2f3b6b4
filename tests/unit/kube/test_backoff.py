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


def test_the_wait_before_another_question_is_short_once_and_takes_no_step() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    waits = [backoff.wait_secs(), backoff.wait_secs(), backoff.prompt_secs(), backoff.wait_secs()]
    assert waits == [0.8, 1.6, 0.8, 3.2]
    assert backoff.prompt_secs() == 6.4  # no progress since the last one
    backoff.progressed()
    assert (backoff.prompt_secs(), backoff.prompt_secs()) == (0.8, 0.8)


def test_what_the_server_asks_for_takes_no_step_and_is_never_short_of_the_first() -> None:
    backoff = Backoff(draw=lambda: 0.0)
    assert [backoff.told_secs(secs) for secs in (17.0, 2.0, 0.0)] == [17.0, 2.0, 0.8]
    assert backoff.wait_secs() == 0.4
    assert Backoff(draw=lambda: 1.0).told_secs(2.0) == 2.8  # who was told the same does not come back together


def test_a_minute_of_failures_is_fewer_than_a_dozen_requests() -> None:
    backoff = Backoff(draw=lambda: 0.0)
    assert sum(at < 60 for at in accumulate(backoff.wait_secs() for _ in range(100))) < 12


def test_instances_that_fail_together_come_back_ten_seconds_apart() -> None:
    last = []
    for instance in range(50):
        backoff = Backoff(draw=lambda draw=instance / 50: draw)  # type: ignore[misc]
        last.append([backoff.wait_secs() for _ in range(7)][-1])
    assert max(last) - min(last) > 10
