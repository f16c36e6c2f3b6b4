"""Whether a heartbeat may go unwritten. Leases are of 10 s; with a fraction of 0.5 they grant 15 s."""

from hypothesis import given
from hypothesis import strategies as st

from gdsvc.backends.kubernetes.pacing import Pacing

LEASE_SECS = 10.0


def half() -> Pacing:
    return Pacing(LEASE_SECS, 0.5)


def renewed(pacing: Pacing, at: float, stamp: str = "t") -> None:
    pacing.sending("p", stamp, at)
    pacing.written("p")


def test_without_a_fraction_every_heartbeat_is_written() -> None:
    pacing = Pacing(LEASE_SECS, 0.0)
    renewed(pacing, 100.0)
    assert pacing.granted_secs == 10
    assert not pacing.needs_no_write("p", 10, 100.0)


def test_what_may_go_unwritten_is_granted_on_top_rounded_up() -> None:
    assert [Pacing(LEASE_SECS, fraction).granted_secs for fraction in (0.05, 0.5, 1.0)] == [11, 15, 20]


def test_a_heartbeat_is_written_once_the_fraction_has_passed() -> None:
    pacing = half()
    renewed(pacing, 100.0)
    assert pacing.needs_no_write("p", 15, 104.999)
    assert not pacing.needs_no_write("p", 15, 105.0)


def test_nothing_is_passed_over_before_the_first_write_is_done() -> None:
    pacing = half()
    pacing.sending("p", "t", 100.0)
    assert not pacing.needs_no_write("p", 15, 100.0)


def test_a_write_that_took_long_counts_from_before_it_was_sent() -> None:
    pacing = half()
    pacing.sending("p", "t", 100.0)
    assert not pacing.needs_no_write("p", 15, 104.0)
    pacing.written("p")
    assert pacing.needs_no_write("p", 15, 104.0)
    assert not pacing.needs_no_write("p", 15, 105.0)


def test_a_lease_that_grants_no_more_than_our_lease_is_always_written() -> None:
    pacing = half()
    renewed(pacing, 100.0)
    assert not pacing.needs_no_write("p", 10, 100.0)  # by a replica without a fraction
    assert pacing.needs_no_write("p", 12, 101.999)
    assert not pacing.needs_no_write("p", 12, 102.0)


def test_another_replicas_renewal_counts_from_our_last_write_that_the_watch_told_before() -> None:
    pacing = half()
    renewed(pacing, 100.0, "ours")
    pacing.told("q", "theirs")  # written we do not know when: our own was not told yet
    assert not pacing.needs_no_write("q", 15, 101.0)
    pacing.told("p", "ours")
    pacing.told("q", "theirs again")
    assert pacing.needs_no_write("q", 15, 104.999)
    assert not pacing.needs_no_write("q", 15, 105.0)


def test_a_member_that_is_gone_is_written_again() -> None:
    pacing = half()
    renewed(pacing, 100.0)
    pacing.gone("p")
    assert not pacing.needs_no_write("p", 15, 100.0)


@given(
    fraction=st.floats(0.0, 1.0),
    steps=st.lists(
        st.tuples(st.sampled_from(["beat", "other", "other q", "watch"]), st.floats(0.0, 9.0), st.floats(0.0, 3.0)),
        max_size=60,
    ),
)
def test_no_reader_drops_a_member_within_a_lease_of_any_heartbeat(
    fraction: float, steps: list[tuple[str, float, float]]
) -> None:
    """Writes take as long as they like, our watch lags as it likes, and a reader sees a write when it is done.

    `log` is what the API server holds in order: (name, stamp, done at). Another replica renews `p` and `q` too.
    """
    pacing, now, told = Pacing(LEASE_SECS, fraction), 0.0, 0
    log: list[tuple[str, str, float]] = []

    def write(name: str, took: float, *, ours: bool) -> float:
        stamp = f"{len(log)}"
        if ours:
            pacing.sending(name, stamp, now)
        log.append((name, stamp, now + took))
        if ours:
            pacing.written(name)
        return now + took

    for deed, passed, took in steps:
        now += passed
        match deed:
            case "beat":
                if pacing.needs_no_write("p", pacing.granted_secs, now):
                    last = max(done for name, _, done in log if name == "p")
                    assert last + pacing.granted_secs >= now + LEASE_SECS
                else:
                    now = write("p", took, ours=True)
            case "other":
                now = write("p", took, ours=False)
            case "other q":
                now = write("q", took, ours=True)
            case _:
                until = told + round(took)
                for name, stamp, _ in log[told:until]:
                    pacing.told(name, stamp)
                told = min(until, len(log))
