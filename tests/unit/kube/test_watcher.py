"""The machine, with literal event lists and whole-state comparison."""

import pytest

from gdsvc.kube.framing import Unreadable
from gdsvc.kube.objects import ENDPOINT_SLICE, EndpointSlice, ListMeta
from gdsvc.kube.watcher import (
    Apply,
    Ask,
    Delete,
    Failed,
    Init,
    InitApply,
    InitDelete,
    InitDone,
    Listing,
    Output,
    State,
    Streaming,
    Unlisted,
    Watcher,
    Watching,
)
from tests.unit.kube.events import bookmark, error, event, slice_, status

WATCH = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "50"}
STREAM = {**WATCH, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

Machine = Watcher[EndpointSlice]


def plain() -> Machine:
    """A machine that lists plainly, nothing asked yet."""
    return Watcher(ENDPOINT_SLICE, streaming=False)


def streaming() -> Machine:
    """A machine in the middle of a streaming list."""
    machine = Watcher(ENDPOINT_SLICE)
    machine.opened()
    return machine


def watching(revision: str = "10") -> Machine:
    """A machine that lists plainly and watches from `revision`."""
    machine = plain()
    machine.opened()
    machine.listed(ListMeta(revision))
    machine.opened()
    return machine


def at(machine: Machine) -> State:
    """The state, asked for anew: mypy takes an attribute for constant between two asserts."""
    return machine.state


def feed(machine: Machine, *lines: bytes) -> list[Output[EndpointSlice]]:
    return [output for line in lines for output in machine.receive(line)]


def kinds(outputs: list[Output[EndpointSlice]]) -> list[str]:
    return [output.kind if isinstance(output, Failed) else type(output).__name__ for output in outputs]


# --------------------------------------------------------------------------------------------- plain lists


def test_the_first_list_takes_any_revision_and_is_not_paged() -> None:
    assert plain().ask() == Ask({"resourceVersion": "0"}, watch=False)


def test_a_list_becomes_visible_only_when_it_is_whole() -> None:
    machine = plain()
    assert machine.opened() == [Init("first")]
    assert at(machine) == Listing(Unlisted("0", "first"))
    assert machine.item(slice_("a", 5)) == [InitApply(slice_("a", 5))]
    assert machine.listed(ListMeta("7")) == [InitDone()]
    assert at(machine) == Watching("7")


def test_after_a_list_the_watch_begins_at_its_revision_with_bookmarks() -> None:
    assert watching("7").ask() == Ask({**WATCH, "resourceVersion": "7"}, watch=True)


def test_a_list_that_breaks_half_way_counts_for_nothing() -> None:
    machine = plain()
    machine.opened()
    machine.item(slice_("a", 5))
    assert machine.broke("connection", "reset") == [Failed("connection", "reset")]
    assert at(machine) == Unlisted("0", "first")
    assert machine.opened() == [Init("first")]


def test_a_list_without_a_revision_counts_for_nothing() -> None:
    machine = plain()
    machine.opened()
    assert kinds(machine.listed(ListMeta(""))) == ["unreadable"]
    assert at(machine) == Unlisted("0", "first")


def test_a_part_of_a_list_is_not_taken_for_the_whole() -> None:
    machine = plain()
    machine.opened()
    assert kinds(machine.listed(ListMeta("7", more="token"))) == ["unreadable"]
    assert at(machine) == Unlisted("0", "first")


def test_an_item_that_cannot_be_read_costs_only_itself() -> None:
    machine = plain()
    machine.opened()
    assert kinds(machine.item(Unreadable("Expected `array`, got `int`"))) == ["unreadable"]
    assert machine.item(slice_("a", 5)) == [InitApply(slice_("a", 5))]


def test_a_relist_asks_for_nothing_older_than_what_was_seen() -> None:
    machine = watching("10")
    feed(machine, event("MODIFIED", "a", 12))
    machine.relist("interval")
    assert machine.ask() == Ask({"resourceVersion": "12", "resourceVersionMatch": "NotOlderThan"}, watch=False)
    assert machine.opened() == [Init("interval")]


def test_a_relist_that_breaks_is_asked_for_again_with_the_same_revision() -> None:
    machine = watching("10")
    machine.relist("interval")
    machine.opened()
    machine.broke("timeout", "silent")
    assert at(machine) == Unlisted("10", "interval")


# -------------------------------------------------------------------------------------------------- events


def test_changes_move_the_revision_and_come_out_in_order() -> None:
    machine = watching()
    outputs = feed(machine, event("ADDED", "a", 11, "10.0.0.1"), event("MODIFIED", "a", 12), event("DELETED", "a", 13))
    assert outputs == [Apply(slice_("a", 11, "10.0.0.1")), Apply(slice_("a", 12)), Delete(slice_("a", 13))]
    assert at(machine) == Watching("13")


def test_a_bookmark_moves_the_revision_and_is_no_event() -> None:
    machine = watching()
    assert feed(machine, bookmark(40)) == []
    assert machine.ask().query["resourceVersion"] == "40"


def test_a_watch_that_ends_after_its_time_is_resumed_without_an_error() -> None:
    machine = watching()
    feed(machine, bookmark(40))
    assert machine.ended(50.0) == []
    assert at(machine) == Watching("40")


@pytest.mark.parametrize(("lasted", "failures"), [(0.999, ["ended_early"]), (1.0, [])])
def test_a_clean_end_within_a_second_is_an_error(lasted: float, failures: list[str]) -> None:
    machine = watching()
    assert kinds(machine.ended(lasted)) == failures
    assert at(machine) == Watching("10")


def test_a_broken_watch_goes_on_where_it_was() -> None:
    machine = watching()
    feed(machine, event("ADDED", "a", 11))
    assert kinds(machine.broke("connection", "reset")) == ["connection"]
    assert at(machine) == Watching("11")


# --------------------------------------------------------------------------------- the revision is at fault


@pytest.mark.parametrize(
    "line",
    [
        error(410, "Expired", "too old resource version: 5 (600)"),
        error(410),  # some servers give no reason
        error(500, "Expired"),
    ],
)
def test_410_inside_a_watch_lists_again_without_a_revision(line: bytes) -> None:
    machine = watching()
    assert kinds(feed(machine, line)) == ["expired"]
    assert machine.ask() == Ask({}, watch=False)
    assert machine.opened() == [Init("expired")]


@pytest.mark.parametrize("body", [status(410, "Expired"), b"<html>410 Gone</html>", b""])
def test_410_as_a_status_lists_again_without_a_revision(body: bytes) -> None:
    machine = watching()
    assert kinds(machine.refused(410, body)) == ["expired"]
    assert at(machine) == Unlisted(None, "expired")


def test_410_for_a_relist_asks_without_a_revision() -> None:
    machine = watching()
    machine.relist("interval")
    machine.refused(410, status(410, "Expired"))
    assert machine.ask() == Ask({}, watch=False)


@pytest.mark.parametrize(
    "body",
    [
        status(504, "Timeout", "Timeout: Too large resource version: 99, current: 8"),
        status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]),
    ],
)
def test_too_large_a_revision_asks_without_one(body: bytes) -> None:
    machine = watching()
    machine.relist("interval")
    assert kinds(machine.refused(504, body)) == ["too_large_revision"]
    assert at(machine) == Unlisted(None, "too_large_revision")


def test_a_gateways_504_says_nothing_about_the_revision() -> None:
    machine = watching()
    machine.relist("interval")
    assert kinds(machine.refused(504, b"upstream timed out")) == ["refused"]
    assert at(machine) == Unlisted("10", "interval")


def test_a_revision_that_the_server_cannot_parse_is_dropped() -> None:
    machine = watching("abc")
    machine.refused(500, status(500, None, 'resourceVersion: Invalid value: "abc": invalid syntax'))
    assert at(machine) == Unlisted(None, "revision_refused")


@pytest.mark.parametrize("code", [401, 403, 429, 500, 502, 503])
def test_other_refusals_keep_the_revision(code: int) -> None:
    machine = watching()
    machine.refused(code, status(code))
    assert at(machine) == Watching("10")


def test_an_error_event_of_another_kind_keeps_the_revision() -> None:
    machine = watching()
    assert kinds(feed(machine, error(500, "InternalError", "etcdserver: leader changed"))) == ["refused"]
    assert at(machine) == Watching("10")


def test_retry_after_is_handed_on_from_the_header_and_from_the_status() -> None:
    assert watching().refused(429, b"", 7.0)[0].retry_after_secs == 7.0  # type: ignore[union-attr]
    failed = watching().refused(429, status(429, "TooManyRequests", retryAfterSeconds=3))[0]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after_secs) == ("throttled", 3)


# ------------------------------------------------------------------------------------------- odd payloads

ODD_LINES = {
    "a bare string": b'"unauthorized"',
    "text": b"too many requests, please try again later",
    "HTML": b"<html><body>502 Bad Gateway</body></html>",
    "a cut line": b'{"type":"ADDED","object":{"metadata":{"na',
    "null": b"null",
    "a list": b"[]",
    "no type": b'{"object":{}}',
    "a type that is no string": b'{"type":7,"object":{}}',
    "no object": b'{"type":"ADDED"}',
    "a null object": b'{"type":"ADDED","object":null}',
    "an object without metadata": b'{"type":"MODIFIED","object":{"kind":"EndpointSlice"}}',
    "invalid UTF-8": b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}',
    "a lone surrogate": b'{"type":"\\ud800","object":{}}',
    "deep nesting": b'{"type":"ADDED","object":' + b"[" * 100_000,
    "an unknown type": b'{"type":"RENAMED","object":{}}',
    "a bookmark without a revision": b'{"type":"BOOKMARK","object":{"metadata":{}}}',
    "a null bookmark": b'{"type":"BOOKMARK","object":null}',
    "an error that is no Status": b'{"type":"ERROR","object":"boom"}',
    "NUL": b"\x00",
}


def test_no_server_can_silence_us_for_longer_than_a_minute() -> None:
    for failed in watching().refused(429, b"", 99999.0) + watching().refused(429, status(429, retryAfterSeconds=1e300)):
        assert isinstance(failed, Failed)
        assert failed.retry_after_secs == 60.0


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
def test_an_odd_line_is_one_error_and_the_next_event_is_applied(line: bytes) -> None:
    machine = watching()
    outputs = feed(machine, line, event("ADDED", "a", 11))
    assert [type(output) for output in outputs] == [Failed, Apply]


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
def test_what_an_odd_line_may_have_meant_is_listed_again_when_the_watch_ends(line: bytes) -> None:
    machine = watching()
    feed(machine, line)
    machine.ended(50.0)
    assert at(machine) == Unlisted("10", "unreadable")


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
def test_an_odd_line_never_ends_a_streaming_list_as_whole(line: bytes) -> None:
    machine = streaming()
    assert InitDone() not in feed(machine, line)


def test_a_message_is_short_whatever_the_server_sends() -> None:
    failed = watching().refused(500, status(500, "x" * 10, "y" * 100_000))[0]
    assert isinstance(failed, Failed)
    assert len(failed.message) < 500


@pytest.mark.parametrize("code", [None, 0, -1, "410", 1.5])
def test_an_error_with_an_odd_code_is_an_error(code: object) -> None:
    line = b'{"type":"ERROR","object":{"code":%s}}' % repr(code).replace("'", '"').replace("None", "null").encode()
    assert [type(output) for output in feed(watching(), line)] == [Failed]


# ----------------------------------------------------------------------------------------- streaming lists


def test_a_streaming_list_is_asked_for_first_and_may_not_be_silent() -> None:
    assert Watcher(ENDPOINT_SLICE).ask() == Ask({**STREAM, "resourceVersion": "0"}, watch=True, patience_secs=3.0)


def test_a_streaming_list_ends_at_its_bookmark_and_becomes_the_watch() -> None:
    machine = streaming()
    outputs = feed(
        machine,
        event("ADDED", "a", 5),
        event("ADDED", "b", 6),
        bookmark(7),
        event("DELETED", "a", 8),
        bookmark(9, end=True),
        event("ADDED", "c", 10),
    )
    expected = [InitApply(slice_("a", 5)), InitApply(slice_("b", 6)), InitDelete(slice_("a", 8)), InitDone()]
    assert outputs == [*expected, Apply(slice_("c", 10))]
    assert at(machine) == Watching("10")


def test_a_streaming_relist_names_the_last_revision() -> None:
    machine = streaming()
    feed(machine, bookmark(9, end=True))
    machine.relist("interval")
    assert machine.ask().query == {**STREAM, "resourceVersion": "9"}


def test_a_streaming_relist_after_410_names_none() -> None:
    machine = streaming()
    feed(machine, bookmark(9, end=True), error(410, "Expired"))
    assert machine.ask().query == STREAM


@pytest.mark.parametrize("code", [400, 422, 500, 501])
def test_a_server_that_refuses_a_streaming_list_is_asked_plainly_at_once(code: int) -> None:
    machine = Watcher(ENDPOINT_SLICE)
    assert machine.refused(code, status(code)) == []
    assert machine.ask() == Ask({"resourceVersion": "0"}, watch=False)


def test_an_error_500_inside_a_streaming_list_falls_back_without_an_error() -> None:
    machine = streaming()
    feed(machine, event("ADDED", "a", 5))
    assert feed(machine, error(500, "InternalError", "no progress notify")) == []
    assert machine.ask() == Ask({"resourceVersion": "0"}, watch=False)


def test_a_server_that_took_it_for_an_ordinary_watch_is_asked_plainly() -> None:
    machine = streaming()
    feed(machine, event("ADDED", "a", 5))
    assert machine.ended(50.0) == []
    assert machine.ask() == Ask({"resourceVersion": "0"}, watch=False)


def test_a_server_that_is_silent_on_a_streaming_list_is_asked_plainly() -> None:
    machine = streaming()
    assert machine.fell_silent() == []
    assert machine.ask() == Ask({"resourceVersion": "0"}, watch=False)


def test_a_streaming_list_that_breaks_counts_for_nothing_and_is_tried_again() -> None:
    machine = streaming()
    feed(machine, event("ADDED", "a", 5))
    assert kinds(machine.broke("connection", "reset")) == ["connection"]
    assert machine.ask().query["sendInitialEvents"] == "true"
    assert machine.opened() == [Init("first")]


def test_410_and_504_for_a_streaming_list_say_nothing_against_streaming() -> None:
    for code, reason in ((410, "Expired"), (504, "Timeout")):
        machine = streaming()
        feed(machine, error(code, reason, "Too large resource version: 9"))
        assert machine.ask().query == STREAM
        assert isinstance(machine.state, Unlisted)


@pytest.mark.parametrize("code", [401, 403, 429, 503])
def test_refusals_that_pass_say_nothing_against_streaming(code: int) -> None:
    machine = Watcher(ENDPOINT_SLICE)
    assert isinstance(machine.refused(code, status(code))[0], Failed)
    assert machine.ask().query["sendInitialEvents"] == "true"


def test_a_view_kept_by_streaming_says_which_list_it_is_in() -> None:
    assert streaming().state == Streaming(Unlisted("0", "first"))
