"""`python -m bench.frontend` as it is called: what it measures, what it says of what it cannot, what it refuses."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = (sys.executable, "-W", "error", "-m", "bench.frontend")
BESIDE = {"haproxy": "haproxy", "nginx": "nginx", "granian": "wrk", "control": "wrk"}  # yardstick -> its program


def run(*flags: str, secs: float = 50) -> "subprocess.CompletedProcess[str]":
    """A run that has ended by itself. It leads no session, so what it starts must be stopped by itself too."""
    return subprocess.run([*BENCH, *flags], cwd=ROOT, capture_output=True, text=True, timeout=secs, check=False)


def is_there(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is not None


def rows(text: str) -> dict[str, str]:
    """The row of each figure, by its name."""
    return {match[1]: match[0] for match in re.finditer(r"^\| `(.+?)` \|.*$", text, re.MULTILINE)}


def test_selection_is_measured_with_nothing_but_python(tmp_path: Path) -> None:
    out = tmp_path / "frontend-COMMIT.md"
    done = run("--quick", "--only", "selection/round-robin-10", "--out", str(out))
    assert done.returncode == (0 if is_there("taskset") else 1), done.stderr
    (written,) = tmp_path.iterdir()
    assert written.read_text() == done.stdout
    assert re.fullmatch(r"frontend-([0-9a-f]{10}(-dirty)?|unknown)\.md", written.name)
    assert set(rows(done.stdout)) == {"selection/round-robin-10", "selection/round-robin-1000"}


@pytest.mark.parametrize(
    ("flags", "piece"),
    [(("--only", "tea"), "no figure begins with 'tea'"), (("--visits", "0"), "1 or more"), (("--slow",), "--slow")],
)
def test_what_cannot_be_measured_is_said_in_a_line(flags: tuple[str, ...], piece: str) -> None:
    done = run(*flags)
    assert done.returncode == 2
    assert piece in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_figure_and_what_is_needed() -> None:
    done = run("--help")
    assert done.returncode == 0
    for piece in (
        "paced/haproxy",
        "idle/haproxy",
        "selection/least-in-flight-1000",
        "apt-get install",
        "exit codes: 0",
    ):
        assert piece in done.stdout


@pytest.mark.load
@pytest.mark.timeout(180)
def test_a_quick_look_measures_every_figure_whose_tools_are_there_and_names_the_others() -> None:
    done = run("--quick", secs=170)
    assert "Traceback" not in done.stderr
    lacking: list[str] = []
    for name, row in rows(done.stdout).items():
        scenario, _, yardstick = name.partition("/")
        needed = {"idle": "taskset", "selection": "taskset"}.get(scenario, BESIDE.get(yardstick, ""))
        if is_there(needed) and (needed == "taskset" or is_there("wrk")):
            assert "not measured" not in row, done.stderr
        else:
            assert re.search(r"not measured: .*is missing \(apt-get install ", row), row
            lacking.append(name)
    assert len(rows(done.stdout)) == 19
    assert done.returncode == (1 if lacking else 0), done.stderr
