import pytest

from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.errands import AT_ONCE, Ahead, Ask, Done, Pause, Put, Step, TakeOut
from gdsvc.backends.kubernetes.leases import JSON_PATCH, Written
from gdsvc.errors import DoesNotFit, Unavailable
from gdsvc.kube.client import Answer
from tests.unit.backends.kubernetes.lease_answers import known, lease, refused, wanted

CREATE = Ask("POST", leases.creation(wanted(), "1.bb", "now"), of_collection=True)
LOOK = Ask("GET")


def renew(before: Written) -> Ask:
    return Ask("PATCH", leases.renewal(before, wanted(), "now"), JSON_PATCH)


def change(before: Written, version: str = "2.bb") -> Ask:
    return Ask("PATCH", leases.change(before, wanted(), version, "now"), JSON_PATCH)


def put(before: Written | None, *answers: Answer | str) -> tuple[list[Ask], list[Step]]:
    """What a Put asks, if these are the answers (a text: none came), and what it makes of each."""
    errand = Put(wanted())
    errand.begin(before)
    asks, steps = [], []
    for answer in answers:
        asks.append(errand.ask("now", "bb"))
        steps.append(errand.broke(answer) if isinstance(answer, str) else errand.answered(answer))
    return asks, steps


# ---------------------------------------------------------------------------------- the ways that a Put can take


def test_what_is_not_there_is_created() -> None:
    assert put(None, lease()) == ([CREATE], [Done(known())])


def test_what_is_the_same_is_renewed() -> None:
    assert put(known(), lease()) == ([renew(known())], [Done(known())])


def test_what_is_another_is_changed() -> None:
    before = known(b"old")
    assert put(before, lease(version="2.bb")) == ([change(before)], [Done(known(version="2.bb"))])


def test_what_was_created_meanwhile_with_the_same_is_renewed() -> None:
    assert put(None, refused(409), lease(), lease()) == (
        [CREATE, LOOK, renew(known())],
        [Ahead(), Ahead(), Done(known())],
    )


def test_what_was_deleted_meanwhile_is_created() -> None:
    assert put(known(), refused(404), lease()) == ([renew(known()), CREATE], [Ahead(), Done(known())])


def test_what_was_changed_meanwhile_to_the_same_is_renewed() -> None:
    changed = known(version="2.cc")
    assert put(known(b"old"), refused(422), lease(version="2.cc"), lease(version="2.cc")) == (
        [change(known(b"old")), LOOK, renew(changed)],
        [Ahead(), Ahead(), Done(changed)],
    )


def test_a_create_whose_answer_was_lost_is_found_done() -> None:
    asks, steps = put(None, "lost", refused(409), lease(version="1.bb"), lease(version="1.bb"))
    assert asks == [CREATE, CREATE, LOOK, renew(known(version="1.bb"))]
    assert steps == [Pause("lost"), Ahead(), Ahead(), Done(known(version="1.bb"))]


def test_a_change_whose_answer_was_lost_is_found_done() -> None:
    before, after = known(b"old"), known(version="2.bb")
    asks, steps = put(before, "lost", refused(422), lease(version="2.bb"), lease(version="2.bb"))
    assert asks == [change(before), change(before), LOOK, renew(after)]
    assert steps[-1] == Done(after)


# --------------------------------------------------------------------------------- an older one undoes no newer one


@pytest.mark.parametrize(
    ("before", "first"),
    [
        (known(b"ours"), refused(422)),  # a renewal of what is no longer there
        (known(b"old"), refused(422)),  # a change of what is no longer there
        (None, refused(409)),  # a creation of what is there
    ],
)
def test_a_change_that_another_replica_made_meanwhile_is_not_undone(before: Written | None, first: Answer) -> None:
    errand = Put(wanted())
    errand.begin(before)
    errand.ask("now", "bb")
    assert errand.answered(first) == Ahead()
    errand.ask("now", "bb")
    assert errand.answered(lease(b"theirs", "2.cc")) == Done(known(b"theirs", "2.cc"))


def test_the_next_heartbeat_may_change_what_the_last_one_lost_to() -> None:
    theirs = known(b"theirs", "2.cc")
    assert put(theirs, lease(version="3.bb"))[0] == [change(theirs, "3.bb")]


def test_a_deleted_lease_is_no_longer_what_a_change_may_replace() -> None:
    """Deleted and created anew by others while we tried."""
    steps = put(known(b"old"), refused(404), refused(409), lease(b"theirs", "1.cc", "u-2"))[1]
    assert steps[-1] == Done(known(b"theirs", "1.cc", "u-2"))


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("code", [401, 408, 409, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again_after_a_pause(code: int) -> None:
    (step,) = put(known(), refused(code, retry_after_secs=None))[1]
    assert isinstance(step, Pause)
    assert step.least_secs == 0.0


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_pause_is_as_long_as_the_server_wants(code: int) -> None:
    (step,) = put(known(), refused(code, retry_after_secs=7.0))[1]
    assert isinstance(step, Pause)
    assert step.least_secs == 7.0


@pytest.mark.parametrize(("before", "code"), [(known(), 403), (None, 403), (None, 404), (None, 422), (known(), 400)])
def test_what_only_a_person_can_mend_is_not_asked_again(before: Written | None, code: int) -> None:
    (step,) = put(before, refused(code, "leases is forbidden"))[1]
    assert isinstance(step, Unavailable)
    assert "leases is forbidden" in str(step)


@pytest.mark.parametrize("before", [None, known(b"old")])
def test_a_registration_that_the_server_finds_too_long_does_not_fit(before: Written | None) -> None:
    (step,) = put(before, refused(422, "metadata.annotations: Too long: must have at most 262144 bytes"))[1]
    assert isinstance(step, DoesNotFit)
    assert isinstance(put(before, refused(413))[1][0], DoesNotFit)


def test_a_lease_that_says_nothing_is_written_anew() -> None:
    nothing = Answer(200, b'{"metadata": {"name": "p", "uid": "u-1"}}', None)
    repair = Ask("PATCH", leases.repair("u-1", wanted(), "1.bb", "now"), JSON_PATCH)
    assert put(None, refused(409), nothing, lease()) == ([CREATE, LOOK, repair], [Ahead(), Ahead(), Done(known())])


def test_a_lease_that_changes_all_the_time_is_not_asked_for_in_a_tight_loop() -> None:
    errand = Put(wanted())
    errand.begin(known(version="0.aa"))
    steps: list[Step] = []
    for turn in range(10):
        errand.ask("now", "bb")
        steps.append(errand.answered(lease(version=f"{turn}.cc") if turn % 2 else refused(422)))
    assert steps[:AT_ONCE] == [Ahead()] * AT_ONCE
    assert all(isinstance(step, Pause) for step in steps[AT_ONCE:])


# ------------------------------------------------------------------------------------------------------ taking out


def taken_out(*answers: Answer | str) -> list[Step]:
    errand = TakeOut()
    errand.begin(None)
    steps = []
    for answer in answers:
        assert errand.ask("now", "bb") == Ask("DELETE")
        steps.append(errand.broke(answer) if isinstance(answer, str) else errand.answered(answer))
    return steps


def test_what_is_deleted_was_there() -> None:
    assert taken_out(Answer(200, b"{}", None)) == [Done(None)]


def test_what_is_not_there_was_not_there() -> None:
    assert taken_out(refused(404)) == [Done(None, existed=False)]


def test_what_is_gone_after_an_answer_was_lost_was_there() -> None:
    assert taken_out("lost", refused(404))[-1] == Done(None, existed=True)


def test_a_refused_deletion_is_asked_again_or_given_up_like_any_other() -> None:
    assert isinstance(taken_out(refused(500))[0], Pause)
    assert isinstance(taken_out(refused(403))[0], Unavailable)
