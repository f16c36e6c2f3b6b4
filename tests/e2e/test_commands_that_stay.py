"""The commands that go on until they are told to end: watch and register."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
import yaml

from tests.e2e.bad_servers import Scripted, event, http, stream
from tests.e2e.people import Gdsvc, in_this_process, running, through_a_shell, unread, wait_until_full
from tests.e2e.process import POLL_SECS, Serve, Service
from tests.e2e.wire import PATIENCE, pool

EMPTY = b'{"complete":true,"pools":[]}'
LISTING = b'{"key":{"site_id":"ohio","namespace":"dynamo","dgd_name":"mocker-1"},"id":"x","model":"m"}'
GONE = b'{"key":{"site_id":"ohio","namespace":"dynamo","dgd_name":"mocker-1"}}'
FIRST = stream(b"retry: 50\n\n", event("resync", EMPTY, "e-1"), event("upserted", LISTING, "e-2"))
SECOND = stream(b": hello\nid: e-2\n\n", event("removed", GONE, "e-3"))


def url(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Gdsvc:
    """One that is expected to end by itself."""
    return in_this_process(capsys)


# ------------------------------------------------------------------------------------------------------ watch


def test_a_watch_prints_a_line_for_each_event_and_resumes_where_it_broke_off() -> None:
    with (
        Scripted(FIRST, SECOND, holds=True) as server,
        running("watch", "--url", server.url, "--model", "a b") as watch,
    ):
        watch.wait_for_lines(3)
        done = watch.end(signal.SIGINT)
        first, second = server.requests
    assert done.code == 0
    instant = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert re.fullmatch(
        rf"{instant}  resync    0 pools; the list is complete\n"
        rf"{instant}  upserted  ohio/dynamo/mocker-1  model m  0 frontends\n"
        rf"{instant}  removed   ohio/dynamo/mocker-1\n",
        done.out,
    )
    assert done.err == (
        "gdsvc watch: the service ended the stream; trying again\ngdsvc watch: the service is there again\n"
    )
    assert first.startswith(b"GET /pools/watch?model=a+b HTTP/1.1\r\n")
    assert b"Last-Event-ID" not in first
    assert b"\r\nLast-Event-ID: e-2\r\n" in second


def test_json_of_a_watch_is_one_object_a_line_with_the_data_as_it_came() -> None:
    with Scripted(FIRST, holds=True) as server, running("watch", "--url", server.url, "--output", "json") as watch:
        lines = watch.wait_for_lines(2)
        assert lines[1].encode() == b'{"event":"upserted","id":"e-2","data":' + LISTING + b"}\n"
        assert json.loads(lines[0]) == {"event": "resync", "id": "e-1", "data": {"complete": True, "pools": []}}
        assert watch.end(signal.SIGTERM).code == 0


def test_yaml_of_a_watch_is_one_document_an_event() -> None:
    with Scripted(FIRST, holds=True) as server, running("watch", "--url", server.url, "--output", "yaml") as watch:
        watch.wait_for(lambda: any("model: m" in line for line in watch.out))
        done = watch.end(signal.SIGINT)
    first, second = yaml.safe_load_all(done.out)
    assert first == {"event": "resync", "id": "e-1", "data": {"complete": True, "pools": []}}
    assert second == {"event": "upserted", "id": "e-2", "data": json.loads(LISTING)}


def test_a_watch_ends_at_once_when_its_reader_leaves(tmp_path: Path) -> None:
    with Scripted(FIRST, holds=True) as server:
        done = through_a_shell("gdsvc watch | head -n 1", tmp_path, GDSVC_URL=server.url)  # or a timeout ends it
    assert done.code == 0
    assert done.out.count("\n") == 1
    assert done.err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_whose_reader_does_not_read_ends_when_told(number: signal.Signals) -> None:
    long = stream(event("resync", b'{"complete":true,"pools":[],"more":"%b"}' % (b"x" * (1 << 20)), "1"))
    with Scripted(long, holds=True) as server, unread("watch", "--output", "json", "--url", server.url) as watch:
        assert watch.stdout is not None
        wait_until_full(watch.stdout.fileno())
        watch.send_signal(number)
        assert watch.wait(PATIENCE) == 0
        assert watch.stdout.read()[:20] == b'{"event":"resync","i'


def test_a_watch_of_a_service_without_one_is_refused(command: Gdsvc) -> None:
    problem = b'{"error":{"message":"no such path"}}'
    with Scripted(http("404 Not Found", "application/json", problem)) as server:
        done = command("watch", "--url", server.url)
    assert (done.code, done.out) == (1, "")
    assert done.err == f"gdsvc watch: {server.url} has no watch: no such path (404)\n"


def test_a_watch_of_a_real_service_sees_a_pool_come_and_go(command: Gdsvc, serve: Serve) -> None:
    service = serve()
    with running("watch", "--url", url(service), "--output", "json", "--site-id", "ohio") as watch:
        watch.wait_for_lines(1)
        assert service.post("/pools", pool("come")).status == 200
        watch.wait_for_lines(2)
        assert command("deregister", "ohio/dynamo/come", "--url", url(service)).code == 0
        lines = watch.wait_for_lines(3)
        events = [json.loads(line)["event"] for line in lines]
        assert watch.end(signal.SIGINT).code == 0
    assert events == ["resync", "upserted", "removed"]


# --------------------------------------------------------------------------------------------------- register


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(pool("mine", model="m")))
    return path


def short(serve: Serve) -> Service:
    """A service with leases that end while one waits."""
    return serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")


@pytest.mark.slow
def test_a_registered_pool_outlives_its_lease_and_is_left_to_it_at_the_end(serve: Serve, file: Path) -> None:
    service = short(serve)
    with running("register", "-f", str(file), "--url", url(service)) as register:
        lines = register.wait_for_lines(1)
        assert lines == [f"ohio/dynamo/mine is registered at {url(service)}: a heartbeat every 1 s, a lease of 2 s\n"]
        deadline = time.monotonic() + PATIENCE
        while service.samples()['gdsvc_registrations_total{outcome="renewed"}'] < 3:  # of which two take a lease
            assert time.monotonic() < deadline
            assert service.names() == ["mine"]
            time.sleep(POLL_SECS)
        done = register.end(signal.SIGINT)
        assert (done.code, done.err) == (0, "")
        assert service.names() == ["mine"]
    samples = service.samples()
    assert samples["gdsvc_expired_total"] == samples['gdsvc_registrations_total{outcome="changed"}'] == 0


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_deregister_takes_the_pool_out_at_the_end(serve: Serve, file: Path, number: signal.Signals) -> None:
    service = serve()
    with running("register", "-f", str(file), "--deregister", "--url", url(service), "--output", "json") as register:
        assert register.wait_for_lines(1) == ['{"heartbeat_interval_secs":5,"lease_duration_secs":15}\n']
        assert service.names() == ["mine"]
        done = register.end(number)
    assert (done.code, done.err) == (0, "")
    assert service.names() == []


def test_a_registration_comes_from_standard_input_too(serve: Serve, file: Path, tmp_path: Path) -> None:
    service = serve()
    done = through_a_shell(f"gdsvc register -f - --deregister < {file} | head -n 1", tmp_path, GDSVC_URL=url(service))
    assert done.code == 0
    assert "ohio/dynamo/mine is registered" in done.out
    assert done.err == ""
    assert service.names() == []


def test_trouble_with_the_heartbeat_is_said_and_its_end_too(file: Path) -> None:
    lease = http("200 OK", "application/json", b'{"heartbeat_interval_secs":1,"lease_duration_secs":9}')
    broken = http("503 Service Unavailable", "application/json", b'{"error":{"message":"the store is away"}}')
    with (
        Scripted(lease, lease, broken, lease) as server,
        running("register", "-f", str(file), "--url", server.url) as register,
    ):
        register.wait_for(lambda: len(register.err) >= 2)
        done = register.end(signal.SIGINT)
    assert done.code == 0
    trouble, well = done.err.splitlines()
    assert "ohio/dynamo/mine is not renewed, its lease still holds: " in trouble
    assert "the store is away" in trouble
    assert well.endswith("ohio/dynamo/mine is registered again")


def test_who_is_in_a_hurry_presses_ctrl_c_twice(serve: Serve, file: Path) -> None:
    service = serve()
    with running("register", "-f", str(file), "--deregister", "--url", url(service)) as register:
        register.wait_for_lines(1)
        service.send_signal(signal.SIGSTOP)  # the DELETE will hang
        register.send_signal(signal.SIGINT)
        register.wait_for(lambda: not register.catches(signal.SIGTERM))
        done = register.end(signal.SIGINT)
        service.send_signal(signal.SIGCONT)
    assert (done.code, done.err) == (130, "")


def test_a_pool_that_could_not_be_taken_out_is_said(serve: Serve, file: Path) -> None:
    service = serve()
    with running("register", "-f", str(file), "--deregister", "--url", url(service)) as register:
        register.wait_for_lines(1)
        service.stop()
        done = register.end(signal.SIGINT)
    assert done.code == 3
    assert "ohio/dynamo/mine could not be taken out: " in done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "expected"),
        (b'{"key":{"site_id":"a","namespace":"b"}}', "$.key.dgd_name"),
        (b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"frontends":["x"]}', "frontends[0]"),
    ],
)
def test_a_file_that_is_no_registration_is_refused(command: Gdsvc, file: Path, content: bytes, said: str) -> None:
    file.write_bytes(content)
    done = command("register", "-f", str(file))
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_file_beyond_all_bounds_is_not_read_to_its_end(command: Gdsvc) -> None:
    done = command("register", "-f", "/dev/zero")
    assert (done.code, done.out) == (2, "")
    assert "expected at most 16777216 bytes" in done.err


def test_a_file_that_is_not_there_is_wrong_usage(command: Gdsvc, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        done = command("register", "-f", str(path))
        assert (done.code, done.out) == (2, "")
        assert str(path) in done.err


def test_a_registration_that_the_service_refuses_ends_the_command(command: Gdsvc, serve: Serve, file: Path) -> None:
    service = serve("--max-pools", "1")
    assert service.post("/pools", pool("first")).status == 200
    done = command("register", "-f", str(file), "--url", url(service))
    assert (done.code, done.out) == (1, "")
    assert "(429)" in done.err


def test_a_service_that_is_not_there_ends_a_registration(command: Gdsvc, file: Path) -> None:
    with Scripted() as server:
        pass
    done = command("register", "-f", str(file), "--url", server.url)
    assert (done.code, done.out) == (3, "")
    assert done.err.count("\n") == 1
