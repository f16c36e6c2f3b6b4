"""The table of causes, whole; and what TCP's counter proves."""

import itertools

import pytest

from gdsvc.frontend.upstream.failures import Cause, Ending, UpstreamFailed, cause_of, ending_of, is_unread
from gdsvc.frontend.upstream.origin import Origin


def test_before_the_first_byte_a_reused_connection_may_be_repeated_where_it_was_unread_or_reset() -> None:
    table = {
        (Ending.END_OF_STREAM, True): Cause.UNREAD,
        (Ending.END_OF_STREAM, False): Cause.NO_REPLY,
        (Ending.RESET, True): Cause.UNREAD,
        (Ending.RESET, False): Cause.RESET,
        (Ending.OTHER, True): Cause.NO_REPLY,
        (Ending.OTHER, False): Cause.NO_REPLY,
    }
    for ending, unread in itertools.product(Ending, (True, False)):
        assert cause_of(ending, begun=False, reused=True, unread=unread) is table[ending, unread]


def test_a_fresh_connection_or_a_begun_reply_is_never_repeated() -> None:
    for ending, unread, reused in itertools.product(Ending, (True, False), (True, False)):
        assert cause_of(ending, begun=True, reused=reused, unread=unread) is Cause.BROKEN_OFF
        assert cause_of(ending, begun=False, reused=False, unread=unread) is Cause.NO_REPLY


def test_what_may_be_repeated_and_what_blames_the_upstream() -> None:
    repeatable = {cause for cause in Cause if cause.may_be_repeated}
    assert repeatable == {Cause.NOT_ESTABLISHED, Cause.NO_ROOM, Cause.UNREAD, Cause.RESET}
    blameless = {cause for cause in Cause if not cause.blames_the_upstream}
    assert blameless == {Cause.NO_ROOM, Cause.UNREAD, Cause.RESET}


@pytest.mark.parametrize(
    ("acknowledged", "unread"),
    [(101, True), (102, False), (57, True), (0, False), (None, False)],
    ids=["all before", "a byte of the request", "less than was written", "a kernel that does not count", "unknown"],
)
def test_a_request_is_unread_where_nothing_beyond_what_was_written_before_is_acknowledged(
    acknowledged: int | None, unread: bool
) -> None:
    assert is_unread(acknowledged, written_before=100) is unread


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, Ending.END_OF_STREAM),
        (ConnectionResetError(), Ending.RESET),
        (BrokenPipeError(), Ending.RESET),
        (TimeoutError(), Ending.OTHER),
        (OSError(113, "No route to host"), Ending.OTHER),
    ],
)
def test_endings(error: Exception | None, ending: Ending) -> None:
    assert ending_of(error) is ending


def test_a_failure_names_the_origin() -> None:
    failure = UpstreamFailed(Cause.SILENT, Origin("http", "::1", 80), "silent for 5 s")
    assert str(failure) == "http://[::1]: silent for 5 s"
    assert failure.cause is Cause.SILENT
