"""What a number was measured on and with: processor, versions, commit; and which tools are not there."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from bench.processes import ROOT

# tool or module -> how to get it
HOW_TO_GET: Mapping[str, str] = {
    "wrk": "apt-get install wrk",
    "nginx": "apt-get install nginx-light",
    "haproxy": "apt-get install haproxy",
    "valgrind": "apt-get install valgrind",
    "taskset": "apt-get install util-linux",
    "fastapi": "pip install -e '.[bench]'",
    "uvicorn": "pip install -e '.[bench]'",
    "httptools": "pip install -e '.[bench]'",
}
_PACKAGES = (
    "granian",
    "uvloop",
    "aiohttp",
    "msgspec",
    "kubernetes-asyncio",
    "aiobotocore",
    "xxhash",
    "blake3",
    "fastapi",
    "pydantic",
    "uvicorn",
    "httptools",
)
_PROGRAMS = {
    "wrk": ["wrk", "-v"],
    "nginx": ["nginx", "-v"],
    "haproxy": ["haproxy", "-v"],
    "valgrind": ["valgrind", "--version"],
}
_MODULES = frozenset({"fastapi", "uvicorn", "httptools"})
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def find_also_in_sbin() -> None:
    """Where Debian puts nginx, which is on no ordinary user's path."""
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin"


def missing(needs: Iterable[str]) -> list[str]:
    """Those of `needs` that are not there, each with what installs it."""
    return [f"{name} is missing ({HOW_TO_GET[name]})" for name in sorted(set(needs)) if not _is_there(name)]


def _is_there(name: str) -> bool:
    return (find_spec(name) if name in _MODULES else shutil.which(name)) is not None


def commit() -> str:
    """The commit of the tree, with `-dirty` where what is built from differs; `unknown` outside a clone."""
    head = _said(["git", "rev-parse", "--short=10", "HEAD"]).strip()
    if not head:
        return "unknown"
    changed = _said(["git", "status", "--porcelain", "--", "gdsvc", "pyx", "setup.py"]).strip()
    return head + ("-dirty" if changed else "")


def description() -> list[str]:
    """One line each: when and of what, on which machine, with which versions."""
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit()}",
        f"{_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the end; "
        f"{platform.system()} {platform.release()}",
        f"{platform.python_implementation()} {platform.python_version()}; {', '.join(_versions())}",
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _versions() -> list[str]:
    found: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            print(f"{name} is not installed", file=sys.stderr)
    for name, command in _PROGRAMS.items():
        if shutil.which(name) and (number := _VERSION.search(_said(command))):
            found.append(f"{name} {number[0]}")
    return found


def _said(command: list[str]) -> str:
    """What a program says of itself, on either stream; nothing where it fails to run."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout + done.stderr if command[0] != "git" or done.returncode == 0 else ""
