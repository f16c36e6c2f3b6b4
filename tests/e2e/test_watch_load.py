"""Many watchers, slow ones and vanished ones, beside a fleet that beats: what they cost, and that nobody pays it.

Readers are threads that count bytes: what single watchers hear is the matter of other tests.
"""

import contextlib
import os
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdsvc.http.snapshots import HELD_BYTES
from tests.e2e.memory import KEPT, Memory
from tests.e2e.pipeline import register_all
from tests.e2e.process import POLL_SECS, Serve, Service, Tell
from tests.e2e.test_crowds import assert_a_fleet_lives, crowd, many_files
from tests.e2e.test_watch import wait_for
from tests.e2e.watcher import Watcher
from tests.e2e.wire import pool, registration, request_bytes

__all__ = ["many_files"]  # the fixture

LONG = ("--lease-duration-secs", "1000")
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")
KEEP_ALIVE_SECS = 15.0

pytestmark = [pytest.mark.load, pytest.mark.timeout(300), pytest.mark.usefixtures("many_files")]


class Readers:
    """So many watchers, read by one thread; of each it keeps the last bytes and how many ids it was sent."""

    def __init__(self, port: int, count: int) -> None:
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        self.ids = [0] * count
        self.resyncs = [0] * count
        self.tails = [b""] * count
        self._stop = False
        self._selector = selectors.DefaultSelector()
        for position, connection in enumerate(self.sockets):
            connection.sendall(request_bytes("GET", "/pools/watch"))
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, position)
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Readers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()
        self._selector.close()
        for connection in self.sockets:
            connection.close()

    def _read(self) -> None:
        while not self._stop:
            for key, _ in self._selector.select(0.1):
                received = key.fileobj.recv(1 << 18)  # type: ignore[union-attr]
                assert received, "a reader that reads is not closed"
                position = key.data
                overlap = self.tails[position]
                seen = overlap + received
                self.ids[position] += seen.count(b"\nid: ") - overlap.count(b"\nid: ")
                self.resyncs[position] += seen.count(b"event: resync") - overlap.count(b"event: resync")
                self.tails[position] = seen[-400:]

    def are_at(self, revision: int) -> bool:
        return all(b"-%d\n" % revision in tail for tail in self.tails)


def change(service: Service, rate: float, seconds: float) -> None:
    """So many changes a second over one connection."""
    number = 0
    with service.connect() as connection:
        started_at = time.monotonic()
        while (passed := time.monotonic() - started_at) < seconds:
            while number < passed * rate:
                connection.send(registration(f"changing-{number % 50}", model=f"m{number}", capabilities=["x" * 200]))
                assert connection.read().status == 200
                number += 1
            time.sleep(POLL_SECS)


def test_50_of_500_watchers_that_never_read_cost_little_memory_and_no_revision(serve: Serve, tell: Tell) -> None:
    service = serve(*LONG)
    change(service, 1000, 0.1)
    with contextlib.ExitStack() as stack, Readers(service.port, 450) as readers:
        for _ in range(50):
            stuck = stack.enter_context(service.connect())
            stuck.send(request_bytes("GET", "/pools/watch"))
        wait_for(service, "gdsvc_watchers", 500)
        first = int(service.samples()["gdsvc_revision"])
        memory = Memory(service)
        change(service, 200, 60.0)
        changes = int(service.samples()["gdsvc_revision"]) - first
        deadline = time.monotonic() + 30
        while not readers.are_at(first + changes) and time.monotonic() < deadline:
            time.sleep(POLL_SECS)
        assert readers.are_at(first + changes)
        assert set(readers.resyncs) == {1}, "nobody who reads fell behind"
        assert set(readers.ids) == {changes + 1}
        samples = service.samples()
        tell(
            f"500 watchers, 50 of which never read, {changes} changes in 60 s: memory grew by "
            f"{memory.peak_growth() / 1e6:.1f} MB, {samples['gdsvc_watchers']:.0f} are left"
        )
        assert memory.peak_growth() < 50e6


def test_views_that_are_not_read_are_bounded_and_keep_nobody_from_the_list(serve: Serve, tell: Tell) -> None:
    service = serve(*LONG)
    register_all(service.port, [registration(f"{number}", capabilities=["x" * 700]) for number in range(20_000)])
    size = len(service.get("/pools").body)
    memory = Memory(service)
    with contextlib.ExitStack() as stack:
        for number in range(50):  # each starts at a revision of its own
            stack.enter_context(service.connect()).send(request_bytes("GET", "/pools/watch"))
            service.post("/pools", pool(f"{number}", model="changed"))
        wait_for(service, "gdsvc_watchers", 50)
        asked_at = time.monotonic()
        with Watcher(service.port) as watcher:
            assert len(watcher.next().json()["pools"]) == 20_000
        took, grew = time.monotonic() - asked_at, memory.peak_growth() / 1e6
        tell(
            f"50 readers of a list of {size / 1e6:.0f} MB do not read: memory grew by {grew:.0f} MB, "
            f"and another had the list after {took:.1f} s"
        )
        assert memory.peak_growth() < HELD_BYTES + 2 * size + KEPT, "not a view for each of them"
    wait_for(service, "gdsvc_watchers", 0)


def test_as_many_watchers_as_allowed_and_1000_idle_connections_never_delay_a_heartbeat(serve: Serve) -> None:
    service = serve(*SHORT, "--max-watchers", "1000")
    with Readers(service.port, 1000), crowd(service, 1000, request_bytes("GET", "/live")) as idle:
        for connection in idle:
            assert connection.read().status == 200
        wait_for(service, "gdsvc_watchers", 1000)
        refused = service.get("/pools/watch")
        assert (refused.status, refused.header("retry-after")) == (429, "5")
        assert_a_fleet_lives(service, "beside-watchers", 5)


def test_a_silent_stream_of_a_service_as_it_is_shipped_says_its_id_every_fifteen_seconds(serve: Serve) -> None:
    service = serve(*LONG)
    with Watcher(service.port) as watcher:
        watcher.next()
        (first, second) = watcher.comments_within(2 * KEEP_ALIVE_SECS + 2.0)
        assert KEEP_ALIVE_SECS - 2.0 < first <= KEEP_ALIVE_SECS + 0.5
        assert KEEP_ALIVE_SECS - 2.0 < second - first <= KEEP_ALIVE_SECS + 0.5
        assert watcher.parser.ids == [watcher.last_id] * 3


def open_files(service: Service) -> int:
    return len(list(Path(f"/proc/{service.pid}/fd").iterdir()))


def test_watchers_that_come_and_go_leave_nothing_behind(serve: Serve, tell: Tell) -> None:
    service = serve(*LONG)
    service.post("/pools", pool("p"))

    def come_and_go(count: int) -> None:
        for number in range(count):
            with Watcher(service.port, f"/pools/watch?model=m{number % 100}") as watcher:
                watcher.next()
                if number % 2:
                    watcher.reset()
        wait_for(service, "gdsvc_watchers", 0)

    come_and_go(500)
    files = open_files(service)
    memory = Memory(service)
    started_at = time.monotonic()
    come_and_go(5000)
    took = time.monotonic() - started_at
    tell(f"5,000 watchers came and went in {took:.1f} s: memory grew by {memory.growth() / 1e6:.1f} MB")
    assert memory.growth() < 5e6
    assert open_files(service) <= files + 5
    assert service.samples()['gdsvc_watchers_closed_total{cause="failed"}'] == 0


# --------------------------------------------------------------------------------------------- peers that vanish

HERE, THERE = "198.51.100.1", "198.51.100.2"  # addresses for documentation: nobody has them
WATCH_THERE = (
    f"import socket, sys; s = socket.create_connection(('{HERE}', int(sys.argv[1])));"
    "s.sendall(b'GET /pools/watch HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n');"
    "[sys.stdout.write(repr(s.recv(65536)) + '\\n') or sys.stdout.flush() for _ in iter(int, 1)]"
)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """The pid of a process in a network of its own, joined to ours by two interfaces: we are HERE, it is THERE."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("needs root, and `ip` and `unshare`")
    try:
        run("unshare", "--net", "true")
        run("ip", "link", "add", "gdsvc-here", "type", "veth", "peer", "name", "gdsvc-there")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine makes no networks: {error.stderr.decode()}")
    network = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        while Path(f"/proc/{network.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(POLL_SECS)
        run("ip", "link", "set", "gdsvc-there", "netns", str(network.pid))
        run("ip", "addr", "add", f"{HERE}/30", "dev", "gdsvc-here")
        run("ip", "link", "set", "gdsvc-here", "up")
        there(network.pid, "ip", "addr", "add", f"{THERE}/30", "dev", "gdsvc-there")
        there(network.pid, "ip", "link", "set", "gdsvc-there", "up")
        yield network.pid
    finally:
        network.kill()
        network.wait()
        subprocess.run(["ip", "link", "del", "gdsvc-here"], capture_output=True, check=False, timeout=20)


def there(pid: int, *command: str) -> None:
    run("nsenter", "--target", str(pid), "--net", *command)


@pytest.mark.parametrize("changes", [False, True], ids=["silence", "changes"])
def test_a_watcher_that_vanished_is_freed_within_two_signs_of_life(
    serve: Serve, elsewhere: int, tell: Tell, changes: bool
) -> None:
    service = serve(*LONG, "--listen", "0.0.0.0:0")
    watching = [
        subprocess.Popen(
            ["nsenter", "--target", str(elsewhere), "--net", sys.executable, "-c", WATCH_THERE, str(service.port)],
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    try:
        for process in watching:
            assert process.stdout is not None
            assert any(b"event: resync" in part for part in process.stdout)  # the head may come alone
        wait_for(service, "gdsvc_watchers", 3)
        there(elsewhere, "ip", "link", "set", "gdsvc-there", "down")  # no end, no reset: only silence
        vanished_at = time.monotonic()
        while service.samples()["gdsvc_watchers"]:
            assert time.monotonic() - vanished_at < 2 * KEEP_ALIVE_SECS + 1.0
            if changes:
                service.post("/pools", pool("p", model=f"{time.monotonic()}"))
            time.sleep(0.1)
        tell(f"freed {time.monotonic() - vanished_at:.1f} s after they vanished")
    finally:
        for process in watching:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
