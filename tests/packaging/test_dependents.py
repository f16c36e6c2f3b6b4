"""A project that depends on gdsvc, installed as a developer does: mypy and pyright see its types, and refuse misuse."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.venvs import ROOT, Venv, copy_of_sources, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

Fault = tuple[str, int, str]  # file, line, rule
PYRIGHT_CONFIG = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "reportPrivateUsage": False}


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """An editable install beside the type checkers."""
    sources = copy_of_sources(tmp_path_factory.mktemp("editable") / "gdsvc")
    venv = Venv(tmp_path_factory.mktemp("checkers") / "venv")
    venv.install("mypy>=1.15", "pyright[nodejs]>=1.1.400", cwd=sources)
    venv.install("--editable", ".", "--config-settings", "editable_mode=compat", cwd=sources)
    return venv


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = shutil.copytree(ROOT / "tests/typing/dependent", tmp_path / "dependent")
    (place / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_CONFIG))
    return place


def _expected(project: Path, position: int) -> set[Fault]:
    """What the comments of the project expect of mypy (0) or of pyright (1)."""
    found = set()
    for path in project.glob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if rules := re.findall(r"!([\w-]+)", line.partition("  # ")[2]):
                found.add((path.name, number, rules[position]))
    return found


def _told(venv: Venv, project: Path, *command: str) -> str:
    program, *arguments = command
    done = subprocess.run(
        [venv.program(program), *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy_sees_the_types_and_refuses_misuse(checkers: Venv, project: Path) -> None:
    told = _told(checkers, project, "mypy", "--strict", "--no-error-summary", ".")
    faults = re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", told, re.M)
    assert {(name, int(line), rule) for name, line, rule in faults} == _expected(project, 0), told


def test_pyright_sees_the_types_and_refuses_misuse(checkers: Venv, project: Path) -> None:
    told = json.loads(
        _told(checkers, project, "pyright", "--outputjson", "--pythonpath", str(checkers.program("python")))
    )
    faults = {
        (Path(fault["file"]).name, fault["range"]["start"]["line"] + 1, fault["rule"])
        for fault in told["generalDiagnostics"]
        if fault["severity"] == "error" and not fault["rule"].startswith("reportUnknown")  # what follows from another
    }
    assert faults == _expected(project, 1), faults


def test_the_right_half_of_the_project_also_runs(checkers: Venv, project: Path) -> None:
    code = "import asyncio, right; print(asyncio.run(right.names(right.directory())))"
    assert run(checkers.program("python"), "-c", code, cwd=project) == "['mocker-1']\n"
