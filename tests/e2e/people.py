"""The commands for people as processes of their own: with their output in a pipe, or on a terminal of their own."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from gdsvc.commands.run import run

GDSVC = (sys.executable, "-W", "error", "-m", "gdsvc")
PATIENCE = 20.0
POLL_SECS = 0.01
STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Variables that change what the commands do or look like; the rest is inherited.
_NOT_INHERITED = re.compile(r"GDSVC_|PYTHON|DYN_LOG|NO_COLOR$|FORCE_COLOR$|COLORTERM$|TTY_|COLUMNS$|LINES$|TERM$")


class Ended(NamedTuple):
    """What a command left behind. On a terminal `out` is all that was shown there, and `err` is empty."""

    code: int
    out: str
    err: str


def environment(**added: str) -> dict[str, str]:
    """The variables of a command: what is inherited, and `added`."""
    return {name: value for name, value in os.environ.items() if not _NOT_INHERITED.match(name)} | added


def gdsvc(*arguments: str, stdin: bytes | None = None, **variables: str) -> Ended:
    """Runs a command to its end, its output in pipes."""
    done = subprocess.run(
        [*GDSVC, *arguments],
        env=environment(**variables),
        input=stdin if stdin is not None else b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        start_new_session=True,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


Gdsvc = Callable[..., Ended]  # the fixture `gdsvc`: arguments, and variables by keyword


def in_this_process(capsys: pytest.CaptureFixture[str]) -> Gdsvc:
    """Commands in the process of the tests: real servers and sockets all the same, at a tenth of the time."""

    def command(name: str, *arguments: str, **variables: str) -> Ended:
        code = run(name, arguments, variables)
        return Ended(code, *capsys.readouterr())

    return command


def at_once(*commands: Sequence[str]) -> list[Ended]:
    """Runs several commands side by side to their ends."""
    with ThreadPoolExecutor(len(commands)) as executor:
        return list(executor.map(lambda arguments: gdsvc(*arguments), commands))


def on_terminal(*arguments: str, columns: int = 120, **variables: str) -> Ended:
    """Runs a command to its end on a terminal of `columns`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [*GDSVC, *arguments],
        env=environment(**{"TERM": "xterm-256color", **variables}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = _read_all(ours)
        code = process.wait(PATIENCE)
    return Ended(code, shown.decode().replace("\r\n", "\n"), "")


def _read_all(descriptor: int) -> bytes:
    """What a terminal shows until its last program is gone, which Linux tells by EIO."""
    parts: list[bytes] = []
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts)


class Running:
    """A command that goes on until it is told to end. Its two outputs are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=_collect, args=(stream, lines), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, said: Callable[[], bool]) -> None:
        """Returns once `said()` is true of what came so far."""
        deadline = time.monotonic() + PATIENCE
        while not said():
            assert time.monotonic() < deadline, (self.out, self.err)
            assert self._process.poll() is None or said(), (self._process.poll(), self.out, self.err)
            time.sleep(POLL_SECS)

    def wait_for_lines(self, count: int) -> list[str]:
        """The lines on standard output, once there are `count`."""
        self.wait_for(lambda: len(self.out) >= count)
        return self.out

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def catches(self, number: signal.Signals) -> bool:
        """Whether the command has a handler for the signal."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (caught,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", status, re.M)
        return bool(int(caught, 16) >> (number - 1) & 1)

    def end(self, number: signal.Signals | None = signal.SIGINT) -> Ended:
        """Sends the signal, if any, and waits for the end."""
        if number is not None:
            self._process.send_signal(number)
        code = self._process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return Ended(code, "".join(self.out), "".join(self.err))


@contextlib.contextmanager
def running(*arguments: str, **variables: str) -> Iterator[Running]:
    """A command that is killed at the end where it still runs."""
    with subprocess.Popen(
        [*GDSVC, *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


@contextlib.contextmanager
def unread(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that writes to a pipe which nobody reads meanwhile, killed at the end where it still runs."""
    with subprocess.Popen([*GDSVC, *arguments], env=environment(), stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_full(pipe: int) -> None:
    """Returns once the pipe whose reading end this is takes no more."""
    deadline = time.monotonic() + PATIENCE
    waiting = array("i", [0])
    while waiting[0] < fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):
        assert time.monotonic() < deadline, waiting
        time.sleep(POLL_SECS)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)


def through_a_shell(line: str, directory: Path, **variables: str) -> Ended:
    """Runs a line of bash, in which `gdsvc` is the command; the exit code is that of gdsvc, `PIPESTATUS[0]`."""
    program = directory / "gdsvc"
    program.write_text(f'#!/bin/sh\nexec {" ".join(GDSVC)} "$@"\n')
    program.chmod(0o755)
    script = f'PATH="{directory}:$PATH"; {line}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        start_new_session=True,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def _collect(stream: Iterable[bytes], lines: list[str]) -> None:
    for line in stream:
        lines.append(line.decode())  # noqa: PERF401 - read by the test meanwhile, line by line
