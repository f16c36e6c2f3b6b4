"""The service as a process of its own: started, asked, signalled and stopped by its pid; its log is read and judged."""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.wire import PATIENCE, Connection, Reply

# Warnings as errors: a ResourceWarning in a finalizer cannot be raised, but is written to stderr with its traceback.
SERVE = (sys.executable, "-W", "error", "-m", "gdsvc", "serve")
HASTY = (sys.executable, "-W", "error", str(Path(__file__).with_name("hasty_service.py")))
HURRIED = (sys.executable, "-W", "error", str(Path(__file__).with_name("hurried_service.py")))
NOT_INHERITED = ("GDSVC_", "DYN_LOG", "PYTHON")  # variables that would change what the tests start
POLL_SECS = 0.005
_FAULTS = re.compile(r"Traceback|Warning:|Exception ignored|panicked at|never awaited|was destroyed but")


class Service:
    """A running service. `started_at` and all other instants are of time.monotonic, which processes share."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        command: Sequence[str] = SERVE,
        environ: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.log_path = directory / f"service-{time.monotonic_ns()}.log"
        self.port = 0
        self._tls = tls
        arguments = [*command, *flags]
        if "--listen" not in flags:
            arguments += ["--listen", "127.0.0.1:0"]
        with self.log_path.open("wb") as log:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                arguments,
                env=_environ(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._process.poll()

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log's lines, which are JSON unless the test chose another format."""
        return [json.loads(line) for line in self.log.splitlines()]

    def wait_until_live(self) -> None:
        """Returns once the service has said its port and GET /live is answered; sets `port`."""
        deadline = time.monotonic() + PATIENCE
        while not (match := re.search(r'listening.*?"?\bport"?[=:]\s*"?(\d+)', self.log)):
            assert self.exit_code is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(POLL_SECS)
        self.port = int(match[1])
        assert self.get("/live").status == 200

    def connect(self) -> Connection:
        return Connection(self.port, tls=self._tls)

    def get(self, target: str, **headers: str) -> Reply:
        """GET on a connection of its own."""
        with self.connect() as connection:
            return connection.get(target, **headers)

    def post(self, target: str, document: object) -> Reply:
        """POST on a connection of its own."""
        with self.connect() as connection:
            return connection.post(target, document)

    def names(self) -> list[str]:
        """The dgd_names that GET /pools lists, in its order."""
        return [item["key"]["dgd_name"] for item in self.get("/pools").json()["pools"]]

    def complete(self) -> bool:
        """Whether GET /pools says that it is complete."""
        complete = self.get("/pools").json()["complete"]
        assert isinstance(complete, bool)
        return complete

    def samples(self) -> dict[str, float]:
        """The samples of GET /metrics by name and labels: `name` or `name{label="value"}`, labels sorted."""
        reply = self.get("/metrics")
        assert reply.status == 200, reply
        return {
            _sample_name(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(reply.body.decode())
            for sample in family.samples
        }

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def stop(self) -> int:
        """Ends the process whatever its state; the exit code. SIGINT is the signal that stops without a notice."""
        if self.exit_code is None:
            self.send_signal(signal.SIGCONT)
            self.send_signal(signal.SIGINT)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.send_signal(signal.SIGKILL)
        return self.wait()

    def faults(self) -> list[str]:
        """The log's lines that no run may leave behind: tracebacks and Python's warnings."""
        return [line for line in self.log.splitlines() if _FAULTS.search(line)]


Serve = Callable[..., Service]  # the fixture `serve`: as `running`, less the directory
Tell = Callable[[str], None]  # the fixture `tell`


@contextlib.contextmanager
def running(
    directory: Path,
    *flags: str,
    command: Sequence[str] = SERVE,
    environ: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Service]:
    """A live service, stopped on leaving. Fails where its log holds a traceback or a warning, or it stops uncleanly."""
    service = Service(directory, *flags, command=command, environ=environ, tls=tls)
    try:
        service.wait_until_live()
        yield service
    finally:
        stopped_by_test = service.exit_code is not None
        exit_code = service.stop()
    assert not service.faults(), service.log
    assert exit_code == 0 or stopped_by_test, service.log


def run_to_end(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A program that is expected to end by itself: its exit code and output."""
    return subprocess.run(
        arguments,
        env=_environ(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        start_new_session=True,
    )


def _environ(added: Mapping[str, str] | None) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    return inherited | dict(added or {})


def _sample_name(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name
