"""How each server under load is started: gdsvc as an operator does, the yardsticks as their own files say."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import Server, StartFailed, free_port, serving

YARDSTICKS = Path(__file__).parent / "yardsticks"

# Where nginx would keep what it does not use here: its own default is writable for root only.
_TEMPORARY = "".join(f"{kind}_temp_path tmp;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


_QUIET = ("--log-level", "warn", "--shutdown-grace-secs", "0")  # no line and no farewell is measured
_GRANIAN = (
    *("--interface", "asginl", "--http", "1", "--no-ws", "--workers", "1"),
    *("--runtime-mode", "st", "--loop", "uvloop", "--no-log"),
)


_SENDING = """
from pathlib import Path

BODY = Path("body").read_bytes()
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
"""


def gdsvc(core: int, *flags: str) -> AbstractContextManager[Server]:
    """The service itself, with memory storage."""
    port = free_port()
    command = [sys.executable, "-m", "gdsvc", "serve", "--listen", f"127.0.0.1:{port}", *_QUIET, *flags]
    return serving(command, port, core)


def granian(core: int) -> AbstractContextManager[Server]:
    """The floor: an application that reads the body and answers a constant."""
    port = free_port()
    command = [sys.executable, "-m", "granian", "bare_asgi:app", *_GRANIAN, "--host", "127.0.0.1", "--port", str(port)]
    return serving(command, port, core, YARDSTICKS)


@contextmanager
def granian_sending(core: int, body: bytes) -> Iterator[Server]:
    """The floor of a large body: an application that answers `body`, held ready."""
    port = free_port()
    with TemporaryDirectory() as name:
        (Path(name) / "sending.py").write_text(_SENDING)
        (Path(name) / "body").write_bytes(body)
        command = [
            sys.executable,
            "-m",
            "granian",
            "sending:app",
            *_GRANIAN,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        with serving(command, port, core, Path(name)) as server:
            yield server


def fastapi(core: int) -> AbstractContextManager[Server]:
    """What an afternoon gives."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "naive_fastapi:app", "--no-access-log", "--port", str(port)]
    return serving(command, port, core, YARDSTICKS)


@contextmanager
def nginx(core: int, body: bytes) -> Iterator[Server]:
    """GET /pools answered with `body` from a file."""
    port = free_port()
    given = (YARDSTICKS / "nginx.conf").read_text()
    config = re.sub(r"listen 127\.0\.0\.1:\d+", f"listen 127.0.0.1:{port}", given)
    config = config.replace("http {", "http { " + _TEMPORARY, 1)
    with TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)  # the worker of a root's nginx is another user
        (home / "static").mkdir(mode=0o755)
        (home / "static" / "list.json").write_bytes(body)
        (home / "nginx.conf").write_text(config)
        with serving(["nginx", "-p", name, "-c", "nginx.conf"], port, core) as server:
            yield server


def register(server: Server, bodies: Sequence[bytes]) -> None:
    """Posts each body once. Raises StartFailed at the first that is refused."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    for body in bodies:
        connection.request("POST", "/pools", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        said = response.read()
        if response.status != 200:
            raise StartFailed(f"a registration was answered {response.status}: {said[:200]!r}")
    connection.close()


def fetch(server: Server, accept_encoding: str) -> tuple[bytes, str]:
    """The list as it travels, and its entity tag."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/pools", headers={"Accept-Encoding": accept_encoding})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return body, response.headers["ETag"]
