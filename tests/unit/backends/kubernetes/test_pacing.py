"""Whether a heartbeat may go unwritten. Leases are of 10 s; with a fraction of 0.5 they grant 15 s."""

from hypothesis import given
from hypothesis import strategies as st

from gdsvc.backends.kubernetes.echoes import Echoes, Moment
from gdsvc.backends.kubernetes.pacing import Pacing

LEASE_SECS = 10.0


def half() -> Pacing:
    return Pacing(LEASE_SECS, 0.5)


def test_without_a_fraction_every_heartbeat_is_written() -> None:
    pacing = Pacing(LEASE_SECS, 0.0)
    pacing.renewed("p", 100.0)
    assert pacing.granted_secs == 10
    assert not pacing.needs_no_write("p", 10, 100.0)


def test_what_may_go_unwritten_is_granted_on_top_rounded_up() -> None:
    assert [Pacing(LEASE_SECS, fraction).granted_secs for fraction in (0.05, 0.5, 1.0)] == [11, 15, 20]


def test_a_heartbeat_is_written_once_the_fraction_has_passed() -> None:
    pacing = half()
    pacing.renewed("p", 100.0)
    assert pacing.needs_no_write("p", 15, 104.999)
    assert not pacing.needs_no_write("p", 15, 105.0)


def test_what_was_never_renewed_is_written() -> None:
    assert not half().needs_no_write("p", 15, 100.0)


def test_a_renewal_that_is_told_late_takes_nothing_back() -> None:
    pacing = half()
    pacing.renewed("p", 100.0)
    pacing.renewed("p", 98.0)
    assert pacing.needs_no_write("p", 15, 104.999)


def test_a_lease_that_grants_no_more_than_our_lease_is_always_written() -> None:
    pacing = half()
    pacing.renewed("p", 100.0)
    assert not pacing.needs_no_write("p", 10, 100.0)  # by a replica without a fraction
    assert pacing.needs_no_write("p", 12, 101.999)
    assert not pacing.needs_no_write("p", 12, 102.0)


def test_a_member_that_is_gone_is_written_again() -> None:
    pacing = half()
    pacing.renewed("p", 100.0)
    pacing.gone("p")
    assert not pacing.needs_no_write("p", 15, 100.0)


@given(
    fraction=st.floats(0.0, 1.0),
    steps=st.lists(
        st.tuples(st.sampled_from(["beat", "other", "ours", "watch"]), st.floats(0.0, 9.0), st.integers(0, 3)),
        max_size=60,
    ),
)
def test_no_reader_drops_a_member_within_a_lease_of_any_heartbeat(
    fraction: float, steps: list[tuple[str, float, int]]
) -> None:
    """Writes take as long as they like, our watch lags as it likes, and a reader may see a write once it is done.

    `log` is what the API server holds in order: (name, stamp, done at). Another replica renews `p` at times; we write
    `q`, too, whose echo is what tells how late our watch is.
    """
    pacing, echoes, now, told = Pacing(LEASE_SECS, fraction), Echoes(), 0.0, 0
    log: list[tuple[str, str, float]] = []
    for deed, passed, many in steps:
        now += passed
        begun_at, stamp = Moment(now, now), f"{len(log)}"
        match deed:
            case "beat" if pacing.needs_no_write("p", pacing.granted_secs, now):
                last = max(done for name, _, done in log if name == "p")
                assert last + pacing.granted_secs >= now + LEASE_SECS
            case "beat" | "ours":
                name = "p" if deed == "beat" else "q"
                echoes.sending(name, stamp, begun_at)
                now += many
                log.append((name, stamp, now))
                pacing.renewed(name, begun_at.monotonic)
            case "other":
                log.append(("p", stamp, now))
            case _:
                for name, renewed, _ in log[told : told + many]:
                    sent_at = echoes.seen(name, renewed)
                    if sent_at is not None:
                        echoes.told(sent_at)
                    pacing.renewed(name, echoes.told_until.monotonic)
                told = min(told + many, len(log))
