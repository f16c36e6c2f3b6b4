"""New virtual environments and what runs in them: nothing of the one that runs the tests is used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_BEHIND = shutil.ignore_patterns(
    ".git",
    ".venv*",
    "build",
    "dist",
    "*.egg-info",
    "*.so",
    "*.c",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    ".coverage*",
)
NOT_INHERITED = ("PYTHON", "PIP_", "VIRTUAL_ENV", "GDSVC_", "COV")  # would let this environment leak into the new one
PIP_KEPT = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_CACHE_DIR")


def copy_of_sources(target: Path) -> Path:
    """The repository as a clone has it, without anything built."""
    shutil.copytree(ROOT, target, ignore=LEFT_BEHIND)
    return target


def run(*arguments: str | Path, cwd: Path) -> str:
    """Standard output of a program that ends well; the failure shows both streams."""
    environ = {
        name: value for name, value in os.environ.items() if name in PIP_KEPT or not name.startswith(NOT_INHERITED)
    }
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


class Venv:
    """A new virtual environment of the running Python, holding pip alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        run(sys.executable, "-m", "venv", path, cwd=path.parent)

    def program(self, name: str) -> Path:
        return self.path / "bin" / name

    def install(self, *requirements: str | Path, cwd: Path) -> None:
        run(self.program("pip"), "install", "--quiet", "--disable-pip-version-check", *requirements, cwd=cwd)

    def python(self, code: str, *arguments: str | Path, cwd: Path) -> str:
        return run(self.program("python"), "-c", code, *arguments, cwd=cwd)

    def packages(self) -> set[str]:
        """Names of the installed distributions, in lower case."""
        code = "import importlib.metadata as m; print(*(d.name for d in m.distributions()), sep='\\n')"
        return {name.lower() for name in self.python(code, cwd=self.path).split()}
