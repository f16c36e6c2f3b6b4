"""etcd and the API server as processes: started on ports of their own, killed, started again, ended by their pid."""

import json
import random
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.cluster.api import Api

PATIENCE_SECS = 30.0  # that a program may take to answer on a busy machine
POLL_SECS = 0.02
PORTS = range(20_000, 32_000)  # below those that the system gives to outgoing connections, so none is taken in between


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that stays free while its program is away."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """As many, each another one."""
    found: list[int] = []
    for port in random.sample(PORTS, 200):
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no port is free")


def wait_until(true: Callable[[], bool], why: Callable[[], object], patience_secs: float = PATIENCE_SECS) -> None:
    """Looks again until it is so; fails with `why()` where it does not come to pass."""
    deadline = time.monotonic() + patience_secs
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(POLL_SECS)


class Program(ABC):
    """One process of `command`. Its log is kept beside its data."""

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._command = command
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Does not wait until it answers."""
        self._launch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # it has nothing to lose, and its own way of stopping takes seconds

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        return self._log_path.read_text(errors="replace")[-4000:]

    @abstractmethod
    def answers(self) -> bool:
        """Whether it does its work."""

    def start(self) -> None:
        """Returns once it answers."""
        self._launch()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Fails where it ends first."""
        wait_until(self._answers_or_died, lambda: self.log)

    def _launch(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _answers_or_died(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        return self.answers()

    def kill(self) -> None:
        """Ends it at once, as a machine that loses its power does. Nothing where it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(PATIENCE_SECS)


class Etcd(Program):
    """One member, all of whose data is in `folder`; `flags` are those that not every version knows."""

    def __init__(self, binary: Path, folder: Path, *flags: str) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{free_port()}"
        command = (
            str(binary), "--name=only", f"--data-dir={folder / 'data'}", *flags,
            f"--listen-client-urls={self.url}", f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=only={peer}",
        )  # fmt: skip
        super().__init__(command, folder / "log")

    def answers(self) -> bool:
        """Whether it is healthy."""
        try:
            with urlopen(f"{self.url}/health", timeout=2.0) as reply:
                return bool(json.load(reply)["health"] in ("true", True))
        except (URLError, OSError):
            return False

    def compact(self, revision: int) -> None:
        """Forgets every change before `revision`."""
        body = json.dumps({"revision": revision, "physical": True}).encode()
        with urlopen(Request(f"{self.url}/v3/kv/compaction", body), timeout=10.0) as reply:
            reply.read()


class ApiServer(Program):
    """One API server over the etcd at `etcd_url`; its certificate, in `folder`, outlives a restart."""

    def __init__(self, binary: Path, folder: Path, etcd_url: str, *flags: str) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.certificate = folder / "apiserver.crt"
        command = (
            str(binary), f"--etcd-servers={etcd_url}", "--etcd-prefix=/registry", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", f"--cert-dir={folder}", *flags,
        )  # fmt: skip
        super().__init__(command, folder / "log")

    def answers(self) -> bool:
        """Whether it says that it is ready."""
        if not self.certificate.exists():
            return False
        try:
            with Api(self.port, self.certificate) as api:
                return api.ready()
        except OSError:
            return False


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    """Killed for the length of the block."""
    program.kill()
    yield
    program.start()
