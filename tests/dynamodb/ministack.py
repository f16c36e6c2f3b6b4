"""A DynamoDB on loopback: ministack, in a virtual environment of its own, made once and kept outside the repository.

Its dependencies and ours do not go together, so it is never installed beside us. `MINISTACK` names the program where
there is one already.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REQUIREMENT = "ministack>=1.5.33,<1.6"
START_SECS = 60.0
# What the AWS client of the tests and of the services that they start is to use: never what this machine has.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def program() -> Path:
    """The program, installed where it is not."""
    if given := os.environ.get("MINISTACK"):
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdsvc-tests"
    cache.mkdir(parents=True, exist_ok=True)
    room = cache / f"ministack-1.5-py{sys.version_info.major}.{sys.version_info.minor}"
    found = room / "bin" / "ministack"
    with (cache / "ministack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it
        if not found.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", room], check=True)
            subprocess.run([room / "bin" / "python", "-m", "pip", "install", "-q", REQUIREMENT], check=True)
    return found


@contextmanager
def running() -> Iterator[str]:
    """Its endpoint; ends it by its own pid."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "dynamodb,dynamodbstreams",
    }
    process = subprocess.Popen(
        [program()], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait(process, endpoint)
        yield endpoint
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", endpoint: str) -> None:
    until = time.monotonic() + START_SECS
    while time.monotonic() < until:
        assert process.poll() is None, "ministack ended by itself"
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2):
                return
        except OSError:
            time.sleep(0.05)  # another program comes up: nothing tells when
    raise AssertionError("ministack did not come up")
