"""Drives a server with wrk: one thread, 64 connections, no pipelining, on the driver's core."""

import re
from pathlib import Path

from msgspec import Struct

from bench.processes import Server, cpu_seconds, output_of

CONNECTIONS = 64
LONGEST = "-d60s"  # wrk counts in whole seconds; a round ends by an interrupt, upon which wrk reports
POST = Path(__file__).parent / "post.lua"

_ANSWERED = re.compile(r"^\s*(\d+) requests in ", re.MULTILINE)
_REFUSED = re.compile(r"^\s*Non-2xx or 3xx responses: (\d+)", re.MULTILINE)
_SOCKET_ERRORS = re.compile(r"^\s*Socket errors: (.*)", re.MULTILINE)


class LoadFailed(Exception):
    """A round that measured something else than what it was meant to."""


class Load(Struct, frozen=True):
    """What to ask for: GET `path` with `headers` or, where `bodies` names a file of them, POST; how many at a time."""

    headers: tuple[str, ...] = ()
    bodies: Path | None = None
    path: str = "/pools"
    connections: int = CONNECTIONS


def cpu_per_request(server: Server, load: Load, core: int, seconds: float) -> float:
    """Microseconds of CPU that `server` spends on one answered request, over one round of wrk. Raises LoadFailed."""
    before = cpu_seconds(server.group)
    made = driven(server, load, core, seconds)
    spent = cpu_seconds(server.group) - before
    return spent / made * 1e6


def driven(server: Server, load: Load, core: int, seconds: float) -> int:
    """The requests that were answered in one round of wrk. Raises LoadFailed."""
    return answered(output_of(_command(server, load), core, interrupted_after=seconds))


def answered(said: str) -> int:
    """The requests that wrk says were answered well. Raises LoadFailed where any was not, or none was made."""
    total = _ANSWERED.search(said)
    if total is None or int(total[1]) == 0:
        raise LoadFailed(f"wrk made no request: {said[-300:]}")
    if refused := _REFUSED.search(said):
        raise LoadFailed(f"{refused[1]} of {total[1]} requests were refused")
    if errors := _SOCKET_ERRORS.search(said):
        raise LoadFailed(f"socket errors: {errors[1]}")
    return int(total[1])


def _command(server: Server, load: Load) -> list[str]:
    command = ["wrk", "-t1", f"-c{load.connections}", LONGEST]
    for header in load.headers:
        command += ["-H", header]
    if load.bodies is not None:
        command += ["-s", str(POST)]
    command.append(f"http://127.0.0.1:{server.port}{load.path}")
    if load.bodies is not None:
        command += ["--", str(load.bodies)]
    return command
