"""Builds etcd and the API server once, into a cache outside the repository; decides when a build is still good.

A build is named by its sources, its module's checksums and Go's version, so that any change of these is a new one.
As a program, `python -m tests.cluster.binaries`, it builds and no more, before any test waits for it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
OLDEST_GO = (1, 26)  # what the modules' go.mod files ask for
BUILD_SECS = 1800  # on a new machine the two take about 9 CPU-minutes, and the modules are downloaded first
MODULES = {"etcd": "go.etcd.io/etcd/server/v3", "server": "."}  # folder here -> package to build


class NoBuild(Exception):
    """The binaries cannot be had; the text says what to do."""


class Binaries(NamedTuple):
    """Where the programs are."""

    etcd: Path
    server: Path


def built() -> Binaries:
    """Both programs, built where the cache lacks them. Raises NoBuild."""
    return Binaries(*(_one(module, package) for module, package in MODULES.items()))


def main() -> int:
    """Says where both programs are, or in a sentence why they cannot be had; the exit code."""
    try:
        sys.stdout.writelines(f"{program}\n" for program in built())
    except NoBuild as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def cache() -> Path:
    """`$GDSVC_CLUSTER_CACHE`, else `~/.cache/gdsvc-tests`."""
    chosen = os.environ.get("GDSVC_CLUSTER_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "gdsvc-tests"


def key(module: Path, version: str) -> str:
    """Names a build of the Go module in the folder `module` by what it is made of."""
    digest = hashlib.sha256(version.encode())
    for path in sorted(path for path in module.iterdir() if path.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def go_version() -> str:
    """What `go version` says. Raises NoBuild where there is no Go, or only one too old for the modules."""
    go = shutil.which("go")
    if go is None:
        raise NoBuild("the tests marked cluster build an API server with Go: install Go, or put it on the PATH")
    said = _output(go, "version")
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        raise NoBuild(f"the tests marked cluster need Go {OLDEST_GO[0]}.{OLDEST_GO[1]} or later, this is: {said}")
    return said


def _one(module: str, package: str) -> Path:
    target = cache() / f"{module}-{key(HERE / module, go_version())}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{module}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run waits for the first one's build
        if not target.exists():
            _build(HERE / module, package, target)
    return target


def _build(module: Path, package: str, target: Path) -> None:
    """Built aside, then renamed: a build that is broken off leaves nothing that looks whole."""
    with tempfile.TemporaryDirectory(dir=target.parent) as aside:
        made = Path(aside) / target.name
        # A path of our own in the binary, or a stamp of the commit, would only make equal builds differ.
        options = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")
        _output("go", "build", *options, "-o", str(made), package, cwd=module)
        made.rename(target)


def _output(*command: str, cwd: Path | None = None) -> str:
    environ = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=BUILD_SECS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoBuild(f"{' '.join(command)}: not done after {BUILD_SECS} s") from error
    if done.returncode:
        raise NoBuild(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
