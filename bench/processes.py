"""Processes under measurement: started on one core, accounted from /proc, stopped by pid whatever happens.

Every server leads a process group of its own, so that its threads and children are counted and stopped with it.
"""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

ROOT = Path(__file__).parent.parent  # children run here, so that `bench` can be imported
START_SECS = 30.0  # a FastAPI application imports for seconds on a busy machine
STOP_SECS = 5.0  # then SIGKILL

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PGRP, _TIMES = 2, slice(11, 15)  # of /proc/PID/stat behind the name: utime, stime and those of reaped children
_SCHEDULED = 2  # Linux's clock of a process that counts as the scheduler does; its number is made of the complement's


class StartFailed(Exception):
    """A server did not answer; the message ends with what it said."""


class ChildFailed(Exception):
    """A measuring child did not end well; the message ends with what it said."""


class Cores(Struct, frozen=True):
    """The core that what is measured runs on, and the core of everything else. Equal where there is only one."""

    server: int
    driver: int


def two_cores() -> Cores:
    """The first and the last core that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    return Cores(cores[0], cores[-1])


class Server(Struct, frozen=True):
    """A running server: the group it leads, and its port on 127.0.0.1."""

    group: int
    port: int


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def cpu_seconds(group: int) -> float:
    """User and system time of all processes of a group: every thread, and the children that were waited for."""
    ticks = sum(sum(map(int, fields[_TIMES])) for _, fields in _members(group))
    return ticks / _TICKS_A_SECOND


def resident_bytes(group: int) -> int:
    """The resident sets of all processes of a group; what they share counts for each."""
    kibibytes = 0
    for pid, _ in _members(group):
        with suppress(FileNotFoundError, ProcessLookupError):
            found = re.search(r"^VmRSS:\s*(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            kibibytes += int(found[1]) if found else 0
    return kibibytes * 1024


def _members(group: int) -> Iterator[tuple[int, list[str]]]:
    """Each process of a group: its id, and the fields of its /proc/PID/stat behind the name."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[_PGRP]) == group:
                yield int(path.parent.name), fields


def run_seconds(pid: int) -> float:
    """The same of one process, to the nanosecond: for rounds of which a tick of 10 ms is too much.

    All its threads, those included that have ended; the children that it waited for are left out. Raises OSError where
    there is no such process.
    """
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def group_run_seconds(group: int) -> float:
    """As run_seconds, of all processes of a group."""
    seconds = 0.0
    for pid, _ in _members(group):
        with suppress(OSError):  # it has ended
            seconds += run_seconds(pid)
    return seconds


@contextmanager
def serving(command: Sequence[str], port: int, core: int, cwd: Path = ROOT) -> Iterator[Server]:
    """Runs a server on `core` and stops it. Entered once `port` accepts. Raises StartFailed."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        try:
            _wait_until_open(process, port, said)
            yield Server(process.pid, port)
        finally:
            _stop(process)


def _wait_until_open(process: "subprocess.Popen[bytes]", port: int, said: IO[bytes]) -> None:
    give_up_at = time.monotonic() + START_SECS
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    said.seek(0)
    last_words = said.read().decode(errors="replace").strip()[-500:]
    raise StartFailed(f"{process.args!r} does not listen on port {port}: {last_words}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """The group, not only its leader: a worker may outlive its master."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECS)


def output_of(command: Sequence[str], core: int, interrupted_after: float | None = None) -> str:
    """What a child on `core` prints; `interrupted_after` seconds it is sent SIGINT. Raises ChildFailed."""
    with _child(command, core) as child:
        if interrupted_after is not None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(interrupted_after)
            child.send_signal(signal.SIGINT)
        return _output(child)


def outputs_of(*children: tuple[Sequence[str], int]) -> list[str]:
    """What children print that run at one time, each on its core. They print little. Raises ChildFailed."""
    with ExitStack() as stack:
        running = [stack.enter_context(_child(command, core)) for command, core in children]
        return [_output(child) for child in running]


@contextmanager
def _child(command: Sequence[str], core: int) -> Iterator["subprocess.Popen[str]"]:
    """A child that does not outlive the block."""
    pinned = ["taskset", "-c", str(core), *command]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(pinned, cwd=ROOT, stdin=nothing, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _output(child: "subprocess.Popen[str]") -> str:
    printed, complained = child.communicate()
    if child.returncode != 0:
        raise ChildFailed(f"{child.args!r} ended with {child.returncode}: {complained.strip()[-500:]}")
    return printed
