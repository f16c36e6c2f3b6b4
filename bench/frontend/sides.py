"""How each side is started before one stub upstream: gdsvc as an operator does, haproxy as the yardstick says."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from bench import servers
from bench.frontend.figures import GDSVC, GDSVC_AGAIN, GRANIAN, HAPROXY, NGINX
from bench.load import LoadFailed
from bench.processes import Server, free_port, serving

PROXY_CONF: Final = Path(__file__).parent / "nginx-proxy.conf"

# The yardstick asks for 20,000 connections, which take more files than a machine may give: fewer are enough here.
_LENIENT: Final = "global\n  no strict-limits\n"
_UPSTREAM: Final = "127.0.0.1:18090"
_LISTENING: Final = re.compile(r"\b(bind|listen) 127\.0\.0\.1:\d+")

Side = Callable[[int, int], AbstractContextManager[Server]]  # of the core that it runs on, and the upstream's port


class Stub(Struct, frozen=True):
    """The stub upstream while it runs."""

    server: Server

    def become(self, kind: str) -> None:
        """Answers as `stub.KINDS` has it from now on, and counts anew. Raises LoadFailed."""
        self._ask(kind)

    def answered(self) -> float:
        """The requests since, with the shares of those that are not at their end. Raises LoadFailed."""
        return float(self._ask("answered"))

    def _ask(self, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            connection.request("GET", f"/{path}")
            response = connection.getresponse()
            said = response.read()
        except (OSError, HTTPException) as error:
            raise LoadFailed(f"the stub upstream does not answer: {error!r}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise LoadFailed(f"the stub upstream answers {response.status} to {path}")
        return said


@contextmanager
def stub(core: int) -> Iterator[Stub]:
    """The upstream of all sides. Raises StartFailed."""
    port = free_port()
    with serving([sys.executable, "-m", "bench.frontend.stub", str(port)], port, core) as server:
        yield Stub(server)


def gdsvc(core: int, upstream: int) -> AbstractContextManager[Server]:
    """The Global Frontend with one static pool, and nothing else set that could cost or save."""
    port = free_port()
    command = [sys.executable, "-m", "gdsvc", "frontend", "--listen", f"127.0.0.1:{port}"]
    command += ["--pool", f"a=http://127.0.0.1:{upstream}", "--log-level", "warn", "--shutdown-grace-secs", "0"]
    return serving(command, port, core)


@contextmanager
def haproxy(core: int, upstream: int) -> Iterator[Server]:
    """The yardstick, on ports that are free."""
    port = free_port()
    with TemporaryDirectory() as name:
        config, lenient = Path(name) / "haproxy.cfg", Path(name) / "lenient.cfg"
        config.write_text(at_ports((servers.YARDSTICKS / "haproxy.cfg").read_text(), port, upstream))
        lenient.write_text(_LENIENT)
        with serving(["haproxy", "-f", str(config), "-f", str(lenient)], port, core) as server:
            yield server


@contextmanager
def nginx(core: int, upstream: int) -> Iterator[Server]:
    """As a proxy, by a file of ours."""
    port = free_port()
    with TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)  # the worker of a root's nginx is another user
        (home / "nginx.conf").write_text(at_ports(PROXY_CONF.read_text(), port, upstream))
        with serving(["nginx", "-p", name, "-c", "nginx.conf"], port, core) as server:
            yield server


def granian(core: int, upstream: int) -> AbstractContextManager[Server]:
    """The floor of our server, which asks no upstream: reads the body and answers a constant."""
    del upstream
    return servers.granian(core)


def at_ports(config: str, port: int, upstream: int) -> str:
    """The same configuration, but for where it listens and where the stub does."""
    return _LISTENING.sub(rf"\1 127.0.0.1:{port}", config).replace(_UPSTREAM, f"127.0.0.1:{upstream}")


SIDES: Final[Mapping[str, Side]] = {
    GDSVC: gdsvc,
    GDSVC_AGAIN: gdsvc,
    HAPROXY: haproxy,
    NGINX: nginx,
    GRANIAN: granian,
}
