"""Lines of `gdsvc watch`, and how long it waits for a service that went away."""

import io
import json

import pytest

from gdsvc.client import Answer, DiscoveryApi, Options, ServerSentEvent, StreamLost
from gdsvc.client import Refused as StreamRefused
from gdsvc.commands.arguments import Watch
from gdsvc.commands.failures import NoService, Refused
from gdsvc.commands.renderings import Form
from gdsvc.commands.screen import Screen
from gdsvc.commands.watching import Watcher, described, json_line

HERE = "http://127.0.0.1:8080"
PROBLEM = b'{"error":{"message":"too many watchers"}}'


def event(name: str, data: bytes, id: str | None = "e-7") -> ServerSentEvent:  # noqa: A002
    return ServerSentEvent(name, data, id, None)


def watcher() -> Watcher:
    return Watcher(DiscoveryApi(Options(urls=(HERE,))), Watch("pools", ()), Form.TABLE, Screen(io.BytesIO()))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("resync", b'{"complete":true,"pools":[]}', "resync    0 pools; the list is complete"),
        ("resync", b'{"complete":true,"routers":[]}', "resync    0 routers; the list is complete"),
        (
            "upserted",
            b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"model":"m","location":{"region":"r"},"frontends":["u"],'
            b'"capacity":{"max_concurrency":64}}',
            "upserted  a/b/c  model m  region r  capacity 64  1 frontend",
        ),
        ("upserted", b'{"id":"ohio-0","url":"http://a"}', "upserted  ohio-0  http://a"),
        ("removed", b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"}}', "removed   a/b/c"),
        ("removed", b'{"id":"ohio-0"}', "removed   ohio-0"),
        ("removed", b"{}", "removed   {}"),
        ("resync", b"[]", "resync    []"),
        ("new\x1bs", b"\x1b[2J\xff", "new\\x1bs  \\x1b[2J\ufffd"),
    ],
)
def test_an_event_is_one_line_of_words(name: str, data: bytes, words: str) -> None:
    assert described(event(name, data)) == words


@pytest.mark.parametrize("data", [b'{"a":"x\\ny"}', b'{"a":\n\r\n1}', b"no json", b"\xff", b"[" * 100_000])
def test_json_is_one_object_on_one_line_whatever_the_data(data: bytes) -> None:
    line = json_line(event("upserted", data))
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert set(json.loads(line)) == {"event", "id", "data"}


def test_json_holds_the_data_as_it_came() -> None:
    line = json_line(event("removed", b'{"id": "a",  "n": 1.0}', None))
    assert line == b'{"event":"removed","id":null,"data":{"id": "a",  "n": 1.0}}\n'


def refused(status: int, body: bytes = PROBLEM) -> StreamRefused:
    return StreamRefused(Answer(status, {}, body, HERE))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refused(429), Refused),
        (refused(404), Refused),
        (refused(501), Refused),
        (refused(503), NoService),
        (StreamLost(HERE, "broken"), NoService),
    ],
)
def test_a_watch_that_cannot_begin_ends(error: StreamRefused | StreamLost, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        watcher().judge(error)


@pytest.mark.parametrize("error", [refused(429), refused(503), StreamLost(HERE, "broken")])
def test_a_watch_that_had_begun_is_tried_again(error: StreamRefused | StreamLost) -> None:
    watching = watcher()
    watching.heard(event("resync", b"{}"), 0.0)
    assert HERE in watching.judge(error)


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_what_waiting_does_not_mend_ends_a_watch_that_had_begun(status: int) -> None:
    watching = watcher()
    watching.heard(event("resync", b"{}"), 0.0)
    with pytest.raises(Refused):
        watching.judge(refused(status))


def test_a_service_that_says_the_same_and_closes_is_not_asked_in_a_tight_loop() -> None:
    watching = watcher()
    pauses = []
    for now in range(20):
        watching.link.opened(float(now))
        watching.heard(event("resync", b"{}"), float(now))
        pauses.append(watching.link.failed(float(now)))
    assert pauses[-1] > 5


def test_the_service_says_how_long_to_wait_at_least() -> None:
    watching = watcher()
    watching.heard(ServerSentEvent("", b"", None, 3_000), 0.0)
    assert watching.link.failed(0.0) == 3.0
