"""How the process starts and stops: time to /live, notice, drain, grace period, exit codes and their reasons."""

import json
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.process import POLL_SECS, SERVE, Serve, Service, Tell, run_to_end, running
from tests.e2e.wire import PATIENCE, Connection, pool

START_SECS = 0.5  # from the start of the interpreter to GET /live answered, in the best of several starts
STARTS = 30  # at most: on a machine that is busy with other things the first may take longer
GRACE_SECS = 8  # the notice is a quarter of it, at most two seconds
NOTICE_SECS = 2.0
SLACK_SECS = 3.0  # for the machine, on top of what a bound promises
PROGRAM = [*SERVE]
DROP_IN = [str(Path(sys.executable).parent / "global-discovery-service")]


def test_the_service_is_live_within_half_a_second(tmp_path: Path, tell: Tell) -> None:
    took: list[float] = []
    while len(took) < STARTS and not (took and min(took) < START_SECS):
        with running(tmp_path, command=[sys.executable, "-m", "gdsvc", "serve"]) as service:
            took.append(time.monotonic() - service.started_at)
    tell(f"start to /live: {', '.join(f'{seconds * 1000:.0f}' for seconds in sorted(took))} ms")
    assert min(took) < START_SECS


# ------------------------------------------------------------------------------------------------------ stopping


def upload_head(length: int) -> bytes:
    return b"POST /pools HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % length


def wait_for(service: Service, event: str) -> None:
    """Waits for a line of the log."""
    deadline = time.monotonic() + PATIENCE
    while f'"event":"{event}"' not in service.log:
        assert time.monotonic() < deadline, service.log
        time.sleep(POLL_SECS)


def refuses(port: int) -> bool:
    try:
        Connection(port).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # the listener closed while we were in its backlog
        return False
    return False


def with_a_request_in_hand(service: Service) -> None:
    body = json.dumps(pool("slow")).encode()
    with service.connect() as kept, service.connect() as slow:
        assert kept.get("/ready").status == 200
        slow.send(upload_head(len(body)) + body[:10])
        told_at = time.monotonic()
        service.send_signal(signal.SIGTERM)
        wait_for(service, "service.stopping")
        # the notice: not ready, everything else as ever, on old and new connections
        reply = kept.get("/ready")
        assert (reply.status, reply.json()["ready"]) == (503, False)
        assert reply.json()["reasons"]
        assert kept.get("/live").status == 200
        assert kept.post("/pools", pool("late")).status == 200
        assert service.post("/pools", pool("later")).status == 200
        assert service.names() == ["late", "later"]
        # then the listener closes, and the idle connection with it
        while not refuses(service.port):
            assert time.monotonic() < told_at + NOTICE_SECS + SLACK_SECS
            time.sleep(POLL_SECS)
        assert time.monotonic() >= told_at + NOTICE_SECS
        assert kept.rest() == b""
        # then what is in hand ends
        assert service.exit_code is None
        slow.send(body[10:])
        assert slow.read().status == 200
        assert service.wait() == 0
    assert time.monotonic() < told_at + GRACE_SECS
    assert service.events[-1]["event"] == "service.stopped"


def with_a_request_that_never_ends(service: Service) -> None:
    with service.connect() as stuck:
        stuck.send(upload_head(100) + b"{")
        assert service.get("/live").status == 200  # a later request: the first one is in hand now
        told_at = time.monotonic()
        service.send_signal(signal.SIGTERM)
        assert service.wait() > 0
        took = time.monotonic() - told_at
        cut_off = stuck.read()
    assert (cut_off.status, cut_off.header("retry-after")) == (503, "1")
    assert 1.5 < took < 2 + SLACK_SECS  # a part of the grace is kept for closing what is left
    last = service.events[-1]
    assert (last["event"], last["level"]) == ("service.killed", "warning")


def with_half_a_head(service: Service) -> None:
    with service.connect() as connection:
        connection.send(b"GET /pools HTTP/1.1\r\nHost: test\r\nX-")
        asked_at = time.monotonic()
        service.send_signal(signal.SIGTERM)
        assert service.wait() == 0
        assert time.monotonic() - asked_at < 10.0


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Stops that take their time, of a service each, at the same time: they spend it waiting."""
    directory = tmp_path_factory.mktemp("stops")

    def stopping(stop: Callable[[Service], None], grace_secs: int) -> None:
        with running(directory, "--shutdown-grace-secs", str(grace_secs)) as service:
            stop(service)

    with ThreadPoolExecutor() as threads:
        yield {
            "in hand": threads.submit(stopping, with_a_request_in_hand, GRACE_SECS),
            "never ends": threads.submit(stopping, with_a_request_that_never_ends, 2),
            "half a head": threads.submit(stopping, with_half_a_head, 12),
        }


@pytest.mark.slow
def test_sigterm_fails_readiness_then_closes_the_listener_then_finishes_what_is_in_hand(
    stops: dict[str, Future[None]],
) -> None:
    stops["in hand"].result()


@pytest.mark.slow
def test_a_request_that_never_ends_is_cut_when_the_grace_period_ends(stops: dict[str, Future[None]]) -> None:
    stops["never ends"].result()


def test_half_a_head_keeps_nobody_from_stopping(stops: dict[str, Future[None]]) -> None:
    stops["half a head"].result()


def test_a_second_signal_ends_the_process_at_once(serve: Serve) -> None:
    service = serve()
    with service.connect() as stuck:
        stuck.send(upload_head(100) + b"{")
        service.send_signal(signal.SIGTERM)
        wait_for(service, "service.stopping")
        told_at = time.monotonic()
        service.send_signal(signal.SIGTERM)
        assert service.wait() > 0
    assert time.monotonic() - told_at < 1.0
    assert service.events[-1]["event"] == "service.killed"


def test_sigint_stops_without_the_notice(serve: Serve) -> None:
    service = serve()
    with service.connect() as kept:
        assert kept.get("/live").status == 200
        told_at = time.monotonic()
        service.send_signal(signal.SIGINT)
        assert service.wait() == 0
        assert kept.rest() == b""
    assert time.monotonic() - told_at < 1.0


def test_sigterm_during_idleness_ends_with_the_notice(serve: Serve) -> None:
    service = serve("--shutdown-grace-secs", "2")
    told_at = time.monotonic()
    service.send_signal(signal.SIGTERM)
    assert service.wait() == 0
    assert time.monotonic() - told_at < 2


def test_without_a_grace_period_sigterm_ends_at_once(serve: Serve) -> None:
    service = serve("--shutdown-grace-secs", "0")
    told_at = time.monotonic()
    service.send_signal(signal.SIGTERM)
    assert service.wait() == 0
    assert time.monotonic() - told_at < 1


# ------------------------------------------------------------------------------------------------ starting badly


@pytest.mark.parametrize("program", [PROGRAM, DROP_IN], ids=["gdsvc serve", "global-discovery-service"])
def test_a_taken_port_is_exit_code_1_and_one_line_that_names_the_address(program: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_to_end(*program, "--listen", address)
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert address in line
    assert "in use" in line


def test_two_services_never_share_a_port(serve: Serve) -> None:
    first = serve()
    assert run_to_end(*PROGRAM, "--listen", f"127.0.0.1:{first.port}").returncode == 1
    assert first.get("/live").status == 200


@pytest.mark.parametrize("program", [PROGRAM, DROP_IN], ids=["gdsvc serve", "global-discovery-service"])
def test_all_faults_of_a_command_line_are_told_together(program: list[str]) -> None:
    ended = run_to_end(
        *program,
        *("--listen", "nowhere", "--heartbeat-interval-secs", "9", "--lease-duration-secs", "9"),
        *("--router", "a=ftp://b", "--tls-key-path", "/nowhere/key.pem", "--unknown-flag", "1", "--log-level"),
        *("--dynamodb-table", "t"),
        environ={"GDSVC_MAX_POOLS": "many"},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    faults = ended.stderr.splitlines()
    for expected in (
        ("--listen",),
        ("--heartbeat-interval-secs", "--lease-duration-secs"),
        ("--router",),
        ("--tls-key-path", "--tls-cert-path"),
        ("--tls-key-path", "/nowhere/key.pem"),
        ("--unknown-flag",),
        ("--log-level",),
        ("--dynamodb-table", "--registration-storage"),
        ("--max-pools", "GDSVC_MAX_POOLS"),
    ):
        assert [line for line in faults if all(part in line for part in expected)], (expected, faults)


def test_help_and_version_need_no_valid_command_line() -> None:
    with ThreadPoolExecutor() as at_once:
        helped = [
            at_once.submit(run_to_end, *program, "--listen", "nowhere", "--help") for program in (PROGRAM, DROP_IN)
        ]
        versions = [at_once.submit(run_to_end, *program, "--version") for program in (PROGRAM, DROP_IN)]
    for shown in (future.result() for future in helped):
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "--lease-duration-secs" in shown.stdout
    assert [future.result().returncode for future in versions] == [0, 0]


# ------------------------------------------------------------------------------------------------- flags and twins


def lease(service: Service) -> tuple[int, int]:
    granted = service.post("/pools", pool("asking")).json()
    return granted["heartbeat_interval_secs"], granted["lease_duration_secs"]


def test_the_drop_in_program_takes_the_same_flags(serve: Serve) -> None:
    flags = ("--heartbeat-interval-secs", "7", "--lease-duration-secs=21", "--router", "a=http://b")
    service = serve(*flags, command=DROP_IN)
    assert lease(service) == (7, 21)
    assert service.get("/routers").json()["routers"] == [{"id": "a", "url": "http://b"}]


def test_variables_set_what_the_command_line_does_not(serve: Serve) -> None:
    service = serve(
        *("--heartbeat-interval-secs", "7"),
        environ={
            "GDSVC_HEARTBEAT_INTERVAL_SECS": "8",
            "GDSVC_LEASE_DURATION_SECS": "24",
            "GDSVC_ROUTER": "b=http://b\ta=http://a\n",
            "GDSVC_MAX_POOLS": "",
            "GDSVC_PORT": "tcp://10.0.0.1:8080",
            "GDSVC_SERVICE_HOST": "10.0.0.1",
        },
    )
    assert lease(service) == (7, 24)
    assert [router["id"] for router in service.get("/routers").json()["routers"]] == ["a", "b"]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system has no IPv6")
def test_the_address_of_ipv6_clusters_takes_callers_of_both_families(serve: Serve) -> None:
    service = serve("--listen", "[::]:0")
    for host in ("::1", "127.0.0.1"):
        with Connection(service.port, host=host) as connection:
            assert connection.get("/ready").status == 200


def test_a_bound_on_pools_answers_429_and_when_to_come_back(serve: Serve) -> None:
    service = serve("--max-pools", "2", "--heartbeat-interval-secs", "3")
    replies = [service.post("/pools", pool(name)) for name in ("a", "b", "c", "a")]
    assert [reply.status for reply in replies] == [200, 200, 429, 200]
    assert int(replies[2].header("retry-after") or "") >= 1
    assert replies[2].json()["error"]["message"]
    assert service.names() == ["a", "b"]
