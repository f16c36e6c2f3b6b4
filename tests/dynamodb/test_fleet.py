"""A fleet that heartbeats by turns through three replicas, of which one is killed and started again all the time."""

import itertools
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.test_service import storage
from tests.e2e.process import SERVE, Service
from tests.e2e.wire import Closed, Connection

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(240)]

POOLS, HEARTBEAT_SECS, LEASE_SECS, POLL_SECS = 50, 1, 6, 1
LONGEST_ROUND_SECS = LEASE_SECS - 2 * POLL_SECS  # of heartbeats: beyond it a pool may rightly be gone
WATCHED_SECS, KILL_EVERY_SECS = 30.0, 8.0
LOOK_AGAIN_SECS = 0.1  # at what has no event to wait for: the list of another process
FLAGS = (
    *("--heartbeat-interval-secs", str(HEARTBEAT_SECS), "--lease-duration-secs", str(LEASE_SECS)),
    *("--dynamodb-poll-interval-secs", str(POLL_SECS), "--log-level", "warn"),
)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class Fleet:
    """Heartbeats of all pools, a pool after the other, each at the next replica that takes it."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turns = itertools.count()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._round_began_at = time.monotonic()
        self._late_at = -math.inf  # when the last round ended that took too long for every pool to be in time

    @contextmanager
    def beating(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def in_time(self) -> bool:
        """Whether every pool was heard within its lease by all replicas, as far as this side can tell."""
        now = time.monotonic()
        return now - self._round_began_at <= LONGEST_ROUND_SECS and now - self._late_at > LEASE_SECS + 2 * POLL_SECS

    def _run(self) -> None:
        links: dict[int, Connection] = {}
        bodies = [
            {"key": {"site_id": "s", "namespace": "n", "dgd_name": f"{number:03}"}, "model": "m"}
            for number in range(POOLS)
        ]
        while not self._stop.is_set():
            self._round_began_at = time.monotonic()
            for body in bodies:
                self._beat(links, body)
            ended_at = time.monotonic()
            if ended_at - self._round_began_at > LONGEST_ROUND_SECS:
                self._late_at = ended_at
            self._stop.wait(max(0.0, HEARTBEAT_SECS - (ended_at - self._round_began_at)))
        for link in links.values():
            link.socket.close()

    def _beat(self, links: dict[int, Connection], body: dict[str, Any]) -> None:
        for _ in range(2 * len(self._ports)):
            port = self._ports[next(self._turns) % len(self._ports)]
            try:
                link = links.get(port) or links.setdefault(port, Connection(port, patience=3.0))
                if link.post("/pools", body).status == 200:
                    return
            except (OSError, Closed):
                if (broken := links.pop(port, None)) is not None:
                    broken.socket.close()


def _list(port: int) -> tuple[bool, int] | None:
    """Whether it is complete, and how many pools there are; None where the replica is down or not ready."""
    try:
        with Connection(port, patience=3.0) as link:
            reply = link.get("/pools")
    except (OSError, Closed):
        return None
    if reply.status != 200:
        return None
    document = json.loads(reply.body)
    return document["complete"], len(document["pools"])


def test_no_pool_is_ever_missing_from_a_complete_list_while_replicas_are_killed(
    tmp_path: Path, shared_table: str, ministack: str
) -> None:
    ports = [_free_port() for _ in range(3)]
    environ = CREDENTIALS | {"PATH": os.environ["PATH"]}

    def start(port: int) -> Service:
        flags = ("--listen", f"127.0.0.1:{port}", *storage(shared_table, ministack, *FLAGS))
        return Service(tmp_path, *flags, command=SERVE, environ=environ)

    services = [start(port) for port in ports]
    fleet, short, complete = Fleet(ports), list[tuple[int, int]](), 0
    try:
        until = time.monotonic() + 60
        while any(_list(port) is None for port in ports):
            assert time.monotonic() < until
            time.sleep(LOOK_AGAIN_SECS)
        with fleet.beating():
            time.sleep(2 * LEASE_SECS)  # so that lists are complete
            watched_until, kill_at, victim = time.monotonic() + WATCHED_SECS, time.monotonic() + 1.0, 0
            while time.monotonic() < watched_until:
                if time.monotonic() >= kill_at:
                    services[victim].send_signal(signal.SIGKILL)
                    services[victim].wait()
                    services[victim] = start(ports[victim])
                    victim, kill_at = (victim + 1) % 3, time.monotonic() + KILL_EVERY_SECS
                for port in ports:
                    listed = _list(port)
                    if listed is not None and listed[0] and fleet.in_time():
                        complete += 1
                        short += [(port, listed[1])] if listed[1] != POOLS else []
                time.sleep(LOOK_AGAIN_SECS)
        assert complete > 50
        assert short == []
        gone_by = time.monotonic() + LEASE_SECS + 2 * POLL_SECS + 2.0
        while any((listed := _list(port)) is not None and listed[1] for port in ports):
            assert time.monotonic() < gone_by, "a pool is listed longer than a lease and two readings"
            time.sleep(LOOK_AGAIN_SECS)
    finally:
        for service in services:
            service.stop()
