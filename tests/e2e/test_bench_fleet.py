"""`python -m bench.fleet` against real services: what it measures, what it finds wrong, how large fleets fare."""

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lying_service import Lie, LyingService
from tests.e2e.process import POLL_SECS, Serve, Service, Tell, running
from tests.e2e.wire import PATIENCE

ROOT = Path(__file__).parents[2]
FLEET = (sys.executable, "-W", "error", "-m", "bench.fleet")
MAX_WATCHERS = 2
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2", "--max-watchers", str(MAX_WATCHERS))
OWN_SHORT = ("--heartbeat-interval", "1", "--lease", "3")  # a busy machine may hold a beat up for one of them
MEMORY_MIB = 50
MINUTE = ("--seconds", "60")


class Run:
    """A running generator; `--json` gives `figures` once it has ended."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._said_path, self._told_path = directory / "said", directory / "told"
        with self._said_path.open("wb") as said, self._told_path.open("wb") as told:
            self._process = subprocess.Popen(
                [*FLEET, *flags], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=told, start_new_session=True
            )

    @property
    def said(self) -> str:
        return self._said_path.read_text()

    @property
    def told(self) -> str:
        return self._told_path.read_text()

    @property
    def figures(self) -> Any:
        assert "Traceback" not in self.told, self.told
        return json.loads(self.said)

    def wait_until_told(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.told):
            assert self._process.poll() is None, self.told
            assert time.monotonic() < deadline, self.told
            time.sleep(POLL_SECS)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self._process.wait(seconds)

    def stop(self) -> None:
        """By SIGTERM first, so that it stops the service that it started."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@contextlib.contextmanager
def fleet(directory: Path, *flags: str) -> Iterator[Run]:
    """A generator that is gone when the block ends."""
    run = Run(directory, *flags)
    try:
        yield run
    finally:
        run.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that others use too."""
    with running(tmp_path_factory.mktemp("fleet"), *SHORT) as service:
        yield service


def url_of(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


# ----------------------------------------------------------------------------------------------- what it measures


@pytest.mark.load
def test_a_small_fleet_is_served_well_and_its_figures_add_up(tmp_path: Path) -> None:
    flags = (
        "--pools",
        "50",
        "--watchers",
        "5",
        "--seconds",
        "3",
        "--relays",
        "2",
        "--changes",
        "20",
        "--turnover",
        "2",
    )
    with fleet(tmp_path, *flags, "--reconnects", "5", *OWN_SHORT, "--json") as run:
        assert run.wait(2 * PATIENCE) == 0, run.told
    figures = run.figures
    beats, pools, events = figures["heartbeats"], figures["pools"], figures["events"]
    assert (figures["heartbeat_secs"], figures["lease_secs"]) == (1, 3)
    assert beats["sent"] > 50 * 2 * 2
    assert beats["missed"] < beats["sent"] / 10, beats["first_fault"]
    assert (pools["false_expiries"], pools["refused"]) == (0, 0)
    assert 40 <= pools["changed"] <= 80
    asked_for = pools["changed"] + 2 * pools["deregistered"]
    assert asked_for <= events["heard_of"] <= asked_for + 2, "a pool that comes and one that goes are an event each"
    assert events["received"] == 5 * events["heard_of"] == events["latency"]["count"]
    assert (events["disordered"], events["duplicate"], events["missing"], events["lost"]) == (0, 0, 0, 0)
    assert figures["service"]["event_encodings"] == events["heard_of"], "one for all watchers"
    assert figures["service"]["cpu_us_per_heartbeat"] > 0
    assert figures["service"]["memory_mib"] > 0


@pytest.mark.load
def test_a_fleet_takes_its_pools_out_of_a_service_that_is_not_its_own(service: Service, tmp_path: Path) -> None:
    before = service.samples()["gdsvc_deregistered_total"]
    with fleet(tmp_path, "--url", url_of(service), "--pools", "20", "--watchers", "1", "--seconds", "0.5") as run:
        assert run.wait() == 0, run.told
    assert service.names() == []
    assert service.samples()["gdsvc_deregistered_total"] == before + 20
    assert "\ngood: no pool was taken for dead" in run.said


# ------------------------------------------------------------------------------------------- what it finds wrong


@pytest.mark.load
def test_a_pool_that_vanishes_though_it_beats_is_a_false_expiry_and_ctrl_c_still_gives_the_table(
    service: Service, tmp_path: Path
) -> None:
    with fleet(tmp_path, "--url", url_of(service), "--pools", "20", "--watchers", "2", "--seconds", "60") as run:
        run.wait_until_told("0 of them falsely")
        victim = service.get("/pools").json()["pools"][7]["key"]
        path = "/".join(victim.values())
        with service.connect() as caller:
            assert caller.request("DELETE", f"/pools/{path}").status == 204
        run.wait_until_told("[1-9] of them falsely")
        run.interrupt()
        assert run.wait() == 1
    assert re.search(r"^NOT GOOD: 1 false expiries$", run.said, re.M), run.said
    assert re.search(r"^  watching +2$", run.said, re.M), run.said


@pytest.mark.load
def test_a_watcher_that_is_turned_away_is_told_of(service: Service, tmp_path: Path) -> None:
    flags = ("--pools", "5", "--watchers", str(MAX_WATCHERS + 1), "--seconds", "0.5")
    with fleet(tmp_path, "--url", url_of(service), *flags) as run:
        assert run.wait() == 1
    assert "1 watchers without a stream" in run.said
    assert "answered 429" in run.said


@pytest.mark.load
def test_a_service_that_ends_meanwhile_is_no_good(serve: Serve, tmp_path: Path) -> None:
    service = serve(*SHORT)
    with fleet(tmp_path, "--url", url_of(service), "--pools", "5", "--watchers", "1", "--seconds", "60") as run:
        run.wait_until_told("0 of them falsely")
        service.send_signal(signal.SIGINT)
        assert service.wait() == 0
        run.interrupt()
        assert run.wait() == 1
    assert "NOT GOOD: no list of pools at the end" in run.said


POOLS = 5  # with which revisions begin


def withhold(watcher: int, revision: int, event: bytes) -> list[bytes]:
    return [] if (watcher, revision) == (1, POOLS + 4) else [event]


def repeat(watcher: int, revision: int, event: bytes) -> list[bytes]:
    return [event, event] if (watcher, revision) == (1, POOLS + 4) else [event]


class Swap:
    """Holds one event back until the next has been sent."""

    def __init__(self) -> None:
        self._held = b""

    def __call__(self, watcher: int, revision: int, event: bytes) -> list[bytes]:
        if (watcher, revision) == (1, POOLS + 4):
            self._held = event
            return []
        return [event, self._held] if (watcher, revision) == (1, POOLS + 5) else [event]


@pytest.mark.load
@pytest.mark.parametrize(
    ("lie", "found"),
    [
        (withhold, {"missing": 1}),
        (repeat, {"duplicate": 1}),
        (Swap(), {"disordered": 1, "missing": 1}),
    ],
    ids=["withheld", "repeated", "swapped"],
)
def test_a_service_that_lies_to_its_watchers_is_found_out(tmp_path: Path, lie: Lie, found: dict[str, int]) -> None:
    async def watched() -> int:
        async with await asyncio.start_server(LyingService(lie), "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            plan = ("--pools", str(POOLS), "--watchers", "2", "--changes", "20", "--seconds", "0.5", "--json")
            with fleet(tmp_path, "--url", url, *plan) as run:
                return await asyncio.to_thread(run.wait)

    assert asyncio.run(watched()) == 1
    events = json.loads((tmp_path / "said").read_text())["events"]
    assert {name: events[name] for name in ("disordered", "duplicate", "lost", "missing") if events[name]} == found
    assert events["heard_of"] > POOLS


@pytest.mark.parametrize(
    ("flags", "code", "piece"),
    [
        (("--pools", "0", "--jitter", "2"), 2, "--pools: expected 1 or more; --jitter"),
        (("--url", "localhost"), 2, "expected http:// or https://"),
        (("--pools", "many"), 2, "invalid int"),
        (("--url", "https://127.0.0.1:1", "--ca", "/no/such/file"), 2, "--ca /no/such/file: No such file"),
        (("--url", "http://127.0.0.1:1"), 3, "nothing answers at 127.0.0.1:1: "),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(tmp_path: Path, flags: tuple[str, ...], code: int, piece: str) -> None:
    with fleet(tmp_path, *flags) as run:
        assert run.wait() == code
    assert piece in run.told
    assert "Traceback" not in run.told


def test_what_is_no_discovery_service_is_said_to_be_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        answering = threading.Thread(target=answer)
        answering.start()
        with fleet(tmp_path, "--url", f"http://127.0.0.1:{listener.getsockname()[1]}") as run:
            assert run.wait() == 3
        answering.join()
    assert "is no discovery service" in run.told
    assert "Traceback" not in run.told


def test_help_explains_every_flag_and_exit_code(tmp_path: Path) -> None:
    with fleet(tmp_path, "--help") as run:
        assert run.wait() == 0
    for word in ("--pools N", "--stuck M", "--url URL", "exit codes: 0 good; 1", "size a machine:"):
        assert word in run.said


# --------------------------------------------------------------------------------------------------- large fleets


def told(figures: Any) -> str:
    """What a run measured, in a few lines."""
    beats, events, service, own = (figures[name] for name in ("heartbeats", "events", "service", "generator"))
    return (
        f"heartbeats {beats['per_second']}/s {beats['latency']}, {beats['late']} late, {beats['unanswered']} missing; "
        f"events {events['per_second']}/s {events['latency']}, {events['resyncs']} resyncs;\n"
        f"service {service}; generator {own}"
    )


@pytest.mark.load
@pytest.mark.timeout(240)
def test_fifty_watchers_that_never_read_cost_little_memory_and_the_others_nothing(tmp_path: Path, tell: Tell) -> None:
    flags = ("--pools", "500", "--watchers", "450", "--stuck", "50", "--changes", "200", *MINUTE, "--json")
    with fleet(tmp_path, *flags) as run:
        code = run.wait(200)
    tell(told(run.figures))
    assert code == 0, run.figures
    assert run.figures["pools"]["changed"] > 200 * 60 * 0.9
    assert run.figures["service"]["greatest_growth_mib"] < MEMORY_MIB


@pytest.mark.load
@pytest.mark.timeout(240)
def test_ten_thousand_pools_beat_for_a_minute_and_none_is_taken_for_dead(tmp_path: Path, tell: Tell) -> None:
    with fleet(tmp_path, "--pools", "10000", "--watchers", "1", *MINUTE, "--json") as run:
        code = run.wait(200)
    tell(told(run.figures))
    assert code == 0, run.figures
    assert run.figures["heartbeats"]["per_second"] > 2000 * 0.9
    assert run.figures["pools"]["false_expiries"] == 0


@pytest.mark.load
@pytest.mark.timeout(240)
def test_every_event_arrives_in_order_and_once_at_a_hundred_watchers(tmp_path: Path, tell: Tell) -> None:
    flags = ("--pools", "1000", "--watchers", "100", "--changes", "40", "--turnover", "5", *MINUTE, "--json")
    with fleet(tmp_path, *flags) as run:
        code = run.wait(200)
    tell(told(run.figures))
    assert code == 0, run.figures
    events = run.figures["events"]
    assert events["heard_of"] > 50 * 60 * 0.9
    assert events["received"] == 100 * events["heard_of"]
    assert (events["resyncs"], events["endings"]) == (0, 0)
    assert run.figures["service"]["event_encodings"] == events["heard_of"]
