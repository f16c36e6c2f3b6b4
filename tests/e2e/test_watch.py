"""Watching over real sockets: what a watcher hears, where it goes on, when it is let in, and how its stream ends."""

import contextlib
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from tests.e2e.hasty_service import KEEP_ALIVE_SECS, STUCK_SECS, TICK_SECS
from tests.e2e.memory import KEPT, Memory
from tests.e2e.process import HASTY, HURRIED, POLL_SECS, Serve, Service, running
from tests.e2e.watcher import Watcher
from tests.e2e.wire import PATIENCE, Connection, pool, request_bytes

LONG = ("--lease-duration-secs", "1000")
AT_ONCE_SECS = 1.0  # on a busy machine
RETRY_MS = (500, 5500)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("watch"), *LONG, command=HASTY) as service:
        yield service


def name_of(item: dict[str, dict[str, str]]) -> str:
    return item["key"]["dgd_name"]


def revision(service: Service) -> int:
    return int(service.samples()["gdsvc_revision"])


def wait_for(service: Service, sample: str, value: float, seconds: float = PATIENCE) -> float:
    """The seconds until a sample of /metrics has this value."""
    started_at = time.monotonic()
    while service.samples()[sample] != value:
        assert time.monotonic() - started_at < seconds, (sample, service.samples()[sample])
        time.sleep(POLL_SECS)
    return time.monotonic() - started_at


# ------------------------------------------------------------------------------------------------ what is heard


def test_the_first_event_is_there_at_once_and_changes_follow(service: Service) -> None:
    service.post("/pools", pool("first"))
    started_at = time.monotonic()
    with Watcher(service.port) as watcher:
        resync = watcher.next()
        assert time.monotonic() - started_at < AT_ONCE_SECS
        assert dict(watcher.headers)["content-type"] == "text/event-stream"
        assert resync.name == "resync"
        assert resync.json() == service.get("/pools").json()
        service.post("/pools", pool("second", model="m"))
        upserted = watcher.next()
        assert (upserted.name, upserted.json()["model"]) == ("upserted", "m")
        service.post("/pools", pool("second", model="m"))  # which changes nothing
        with service.connect() as connection:
            assert connection.request("DELETE", "/pools/ohio/dynamo/second").status == 204
        removed = watcher.next()
        assert (removed.name, removed.json()) == ("removed", {"key": pool("second")["key"]})
        assert int(removed.id.split("-")[1]) == int(upserted.id.split("-")[1]) + 1 == revision(service)


@pytest.mark.parametrize("by_header", [True, False], ids=["Last-Event-ID", "since"])
def test_a_watcher_that_comes_back_hears_what_it_missed(service: Service, by_header: bool) -> None:
    with Watcher(service.port) as watcher:
        watcher.next()
        last_id = watcher.last_id
    for number in range(3):
        service.post("/pools", pool("missed", model=f"{by_header}-{number}"))
    target, headers = (
        ("/pools/watch", {"Last-Event-ID": last_id}) if by_header else (f"/pools/watch?since={last_id}", {})
    )
    with Watcher(service.port, target, headers) as watcher:
        assert [watcher.next().json()["model"] for _ in range(3)] == [f"{by_header}-{number}" for number in range(3)]
        last_id = watcher.last_id
    with Watcher(service.port, headers={"Last-Event-ID": last_id}) as watcher:
        while not watcher.parser.comments:
            assert watcher.receive()
        assert (watcher.events, watcher.last_id) == ([], last_id)


def test_what_leaves_a_filter_is_removed_and_what_enters_it_is_upserted(service: Service) -> None:
    with Watcher(service.port, "/pools/watch?model=wanted&site_id=ohio") as watcher:
        assert watcher.next().json()["pools"] == []
        for model in ("other", "wanted", "wanted too", "wanted"):
            service.post("/pools", pool("turns", model=model))
        heard = [watcher.next() for _ in range(3)]
        assert [event.name for event in heard] == ["upserted", "removed", "upserted"]
        assert heard[1].json() == {"key": pool("turns")["key"]}
        assert watcher.revision == revision(service)
        assert watcher.last_id.count("-") == 2


def test_routers_are_watched_by_their_id(service: Service) -> None:
    with Watcher(service.port, "/routers/watch") as watcher:
        assert watcher.next().json()["routers"] == []
        service.post("/routers", {"id": "a/b", "url": "http://[::1]:9000"})
        assert watcher.next().json() == {"id": "a/b", "url": "http://[::1]:9000"}
        with service.connect() as connection:
            assert connection.request("DELETE", "/routers/a%2Fb").status == 204
        assert watcher.next().json() == {"id": "a/b"}


@pytest.mark.slow
def test_becoming_complete_is_a_resync_although_nothing_else_changed(serve: Serve) -> None:
    service = serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2", command=HURRIED)
    with Watcher(service.port) as watcher:
        assert watcher.next().json()["complete"] is False
        resync = watcher.next()
        assert (resync.name, resync.json()) == ("resync", {"complete": True, "pools": []})
        assert watcher.revision == revision(service) == 1


def test_a_silent_stream_says_its_id_in_time(service: Service) -> None:
    with Watcher(service.port) as watcher, Watcher(service.port, "/pools/watch?model=nobody-has-it") as filtered:
        for silent in (watcher, filtered):
            silent.next()
        last_ids = watcher.last_id, filtered.last_id
        came = watcher.comments_within(2.5 * KEEP_ALIVE_SECS)
        assert len(came) == 2
        assert KEEP_ALIVE_SECS - 2 * TICK_SECS < came[1] - came[0] < KEEP_ALIVE_SECS + AT_ONCE_SECS
        filtered.comments_within(TICK_SECS)
        assert (watcher.parser.ids, filtered.parser.ids) == ([last_ids[0]] * 3, [last_ids[1]] * 3)


# ------------------------------------------------------------------------------------------------------ manners


def test_a_change_is_encoded_once_for_all_watchers(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(Watcher(service.port)) for _ in range(50)]
        for watcher in watchers:
            watcher.next()
        before = service.samples()
        for number in range(20):
            service.post("/pools", pool("encoded", model=f"{number}"))
        last = revision(service)
        heard = [[event.json()["model"] for event in watcher.until(last)] for watcher in watchers]
        assert heard == [[f"{number}" for number in range(20)]] * 50
        after = service.samples()
        assert after["gdsvc_watch_event_encodings_total"] - before["gdsvc_watch_event_encodings_total"] == 20
        assert after["gdsvc_watch_events_total"] - before["gdsvc_watch_events_total"] == 20 * 50


def test_an_old_client_is_written_to_until_the_connection_closes(service: Service) -> None:
    with service.connect() as connection:
        connection.send(b"GET /pools/watch HTTP/1.0\r\n\r\n")
        _, _, headers = connection._read_head()
        assert "transfer-encoding" not in dict(headers)
        assert dict(headers).get("connection") != "keep-alive"
        received = connection._unread
        while b"\n\n" not in received:
            received += (chunk := connection.socket.recv(1 << 16))
            assert chunk
        assert received.startswith(b"retry: ")


def test_head_of_a_watch_leaves_the_connection_usable(service: Service) -> None:
    with service.connect() as connection:
        for _ in range(3):
            reply = connection.request("HEAD", "/pools/watch")
            assert (reply.status, reply.header("content-type")) == (200, "text/event-stream")
        assert connection.get("/live").status == 200


def test_a_watcher_with_requests_behind_its_own_is_freed_when_it_leaves(service: Service) -> None:
    wait_for(service, "gdsvc_watchers", 0)
    with service.connect() as connection:
        connection.send(request_bytes("GET", "/pools/watch") + request_bytes("GET", "/live") * 3)
        received = b""
        while b"event: resync" not in received:
            received += (chunk := connection.socket.recv(1 << 16))
            assert chunk
        wait_for(service, "gdsvc_watchers", 1)
    wait_for(service, "gdsvc_watchers", 0, 2 * KEEP_ALIVE_SECS + AT_ONCE_SECS)


def test_a_filter_of_a_thousand_values_is_a_filter_like_any_other(service: Service) -> None:
    query = "&".join(f"model=m{number}" for number in range(1000))
    with Watcher(service.port, f"/pools/watch?{query}") as watcher:
        watcher.next()
        service.post("/pools", pool("of-a-thousand", model="m999"))
        assert watcher.next().json()["model"] == "m999"
        service.post("/pools", pool("of-a-thousand", model="m1000"))
        assert watcher.next().name == "removed"


# ------------------------------------------------------------------------------------------------------- places


@pytest.mark.parametrize("by_reset", [False, True], ids=["closed", "reset"])
def test_one_watcher_more_than_there_are_places_comes_in_when_another_leaves(serve: Serve, by_reset: bool) -> None:
    service = serve("--max-watchers", "3", *LONG)
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(Watcher(service.port)) for _ in range(3)]
        refused = service.get("/pools/watch")
        assert (refused.status, refused.header("retry-after")) == (429, "5")
        assert "--max-watchers" in refused.json()["error"]["message"]
        assert service.get("/routers/watch").status == 429, "both lists share the places"
        if by_reset:
            watchers[0].reset()
        else:
            watchers[0].connection.close()
        wait_for(service, "gdsvc_watchers", 2)
        with Watcher(service.port) as late:
            assert late.next().name == "resync"
            assert service.get("/pools/watch").status == 429
    wait_for(service, "gdsvc_watchers", 0)
    assert service.samples()['gdsvc_watchers_closed_total{cause="left"}'] == 4


# -------------------------------------------------------------------------------------------------- slow readers


def stuck(service: Service) -> Connection:
    """A watcher that has a small buffer and reads nothing."""
    connection = service.connect()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(request_bytes("GET", "/pools/watch"))
    return connection


def test_readers_that_do_not_read_cost_bounded_memory_and_are_given_up(service: Service) -> None:
    wait_for(service, "gdsvc_watchers", 0)
    service.post("/pools", pool("large", capabilities=["x" * 100_000]))
    before = service.samples()
    memory = Memory(service)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(stuck(service))
        reader = stack.enter_context(Watcher(service.port))
        reader.next()
        first = revision(service)
        for number in range(300):
            service.post("/pools", pool("large", capabilities=["x" * 100_000], model=f"{number}"))
            assert [event.json()["model"] for event in reader.until(first + number + 1)] == [f"{number}"]
        wait_for(service, "gdsvc_watchers", 1, STUCK_SECS + AT_ONCE_SECS + PATIENCE)
        after = service.samples()
    closed = {
        cause: after[name] - before[name]
        for cause in ("left", "stuck", "slow", "failed")
        for name in [f'gdsvc_watchers_closed_total{{cause="{cause}"}}']
    }
    assert closed["left"] + closed["stuck"] + closed["slow"] == 10, closed
    assert closed["failed"] == 0
    assert memory.peak_growth() < KEPT, "30 MB were written to each"


# ---------------------------------------------------------------------------------------------------------- stop


def test_a_stop_ends_all_streams_at_once_and_properly_while_the_rest_is_still_served(serve: Serve) -> None:
    service = serve(*LONG)
    with contextlib.ExitStack() as stack:
        watchers = [stack.enter_context(Watcher(service.port)) for _ in range(100)]
        for watcher in watchers:
            watcher.next()
        service.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        for watcher in watchers:
            watcher.until_over()
        assert time.monotonic() - stopped_at < AT_ONCE_SECS
        assert all(watcher.ended and not watcher.broken for watcher in watchers)
        assert service.get("/live").status == 200
        assert service.get("/pools/watch").status == 503
        retries = [watcher.parser.retry_ms for watcher in watchers]
        assert len(set(retries)) > 50
        assert all(retry is not None and RETRY_MS[0] <= retry < RETRY_MS[1] for retry in retries)
    assert service.wait() == 0


def test_a_stop_does_not_wait_for_readers_that_do_not_read(serve: Serve) -> None:
    service = serve(*LONG, "--shutdown-grace-secs", "2")
    for number in range(40):
        service.post("/pools", pool(f"{number}", capabilities=["x" * 500_000]))
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(stuck(service))
        wait_for(service, "gdsvc_watchers", 20)
        service.send_signal(signal.SIGINT)
        stopped_at = time.monotonic()
        assert service.wait() == 0
        assert time.monotonic() - stopped_at < 2.0
    assert "service.killed" not in service.log
