"""What a program that embeds the client has to load."""

import subprocess
import sys

NOT_LOADED = (
    "granian",
    "uvloop",
    "prometheus_client",
    "structlog",
    "zstandard",
    "gdsvc.http",
    "gdsvc.asgi",
    "gdsvc.settings",
)
COMPILED = {"gdsvc._wire"}  # the checks of names, which the wire types themselves are made of


def test_importing_the_client_loads_nothing_of_the_server() -> None:
    program = "import sys, gdsvc.client; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "gdsvc.client.directory" in loaded
    assert not loaded & set(NOT_LOADED)
    assert {name for name in loaded if name.startswith("gdsvc._")} <= COMPILED
