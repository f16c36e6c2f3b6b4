"""Judges the tests: each patch here breaks one line, and the tests that it names must turn red.

A patch begins with one sentence that says the rule it breaks, then `Red:` and the tests. It fails to do its work where
it no longer applies, where the tests stay green, and where they could not be run at all. Before that, all the named
tests must be green in a copy that nothing has broken: what is red anyway proves nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
AT_A_TIME = 2
PATIENCE_SECS = 150.0  # for the tests of one patch, a rebuild included
GREEN, RED = 0, 1  # exit codes of pytest; all others say that it could not do its work

_NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "dist")
_HEADER = re.compile(r"\A(?P<rule>.+?)\s+Red: (?P<red>[^\n]+)\n\n", re.DOTALL)
_FIRST_RED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class NotABreak(Exception):
    """The patch cannot be read, or does not apply."""


@dataclass(frozen=True)
class Hunk:
    """What stands in a file, and what is to stand there instead."""

    path: Path
    before: str
    after: str


@dataclass(frozen=True)
class Break:
    """A patch that was read; `red` are paths or ids of tests."""

    name: str
    rule: str
    red: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    @property
    def needs_build(self) -> bool:
        """Whether what it changes is compiled."""
        return any(hunk.path.parts[0] == "pyx" for hunk in self.hunks)


@dataclass(frozen=True)
class Verdict:
    """How one patch did: `seen` is the test that turned red, or what went wrong."""

    name: str
    good: bool
    seen: str
    secs: float


# ------------------------------------------------------------------------------------------------- patches


def read(path: Path) -> Break:
    """The break in a file. Raises NotABreak."""
    text = path.read_text()
    header = _HEADER.match(text)
    if header is None:
        raise NotABreak("it does not begin with a sentence, `Red:` and tests")
    hunks = tuple(_hunks(text[header.end() :]))
    if not hunks:
        raise NotABreak("it changes nothing")
    return Break(path.stem, header["rule"], tuple(header["red"].split()), hunks)


def apply(broken: Break, tree: Path) -> None:
    """Changes the files below `tree`. Raises NotABreak where a place is not there, or there more than once."""
    for hunk in broken.hunks:
        file = tree / hunk.path
        text = file.read_text() if file.exists() else ""
        if (times := text.count(hunk.before)) != 1:
            raise NotABreak(f"what it changes stands {times} times in {hunk.path}")
        file.write_text(text.replace(hunk.before, hunk.after))


def _hunks(diff: str) -> Iterator[Hunk]:
    """Found by what stands there, not by the numbers of lines, which move with every edit above."""
    for file in re.split(r"^diff --git .*\n", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*\n", file, flags=re.MULTILINE)
        target = re.search(r"^\+\+\+ b/(.+)$", head, re.MULTILINE)
        if target is None:
            raise NotABreak("it names no file")
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] for line in lines if not line.startswith("-"))
            yield Hunk(Path(target[1]), before, after)


# ------------------------------------------------------------------------------------------------- judging


def judge(path: Path, root: Path = ROOT) -> Verdict:
    """Applies one patch to a copy of `root` and runs its tests there."""
    started_at = time.monotonic()
    try:
        good, seen = _tried(read(path), root)
    except NotABreak as error:
        good, seen = False, str(error)
    except subprocess.TimeoutExpired:
        good, seen = False, f"its tests took more than {PATIENCE_SECS:g} s"
    return Verdict(path.stem, good, seen, time.monotonic() - started_at)


def control(paths: Sequence[Path], root: Path = ROOT) -> Verdict:
    """Runs all the tests that the patches name where nothing is broken."""
    started_at = time.monotonic()
    named = sorted({test for path in paths for test in _named(path)})
    with tempfile.TemporaryDirectory() as directory:
        code, said = _pytest(_copy(root, directory), named)
    seen = "all green where nothing is broken" if code == GREEN else _last_words(said)
    return Verdict("(no break)", code == GREEN, seen, time.monotonic() - started_at)


def _named(path: Path) -> tuple[str, ...]:
    try:
        return read(path).red
    except NotABreak:  # said where it is judged
        return ()


def _tried(broken: Break, root: Path) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as directory:
        tree = _copy(root, directory)
        apply(broken, tree)
        if broken.needs_build:
            _build(tree)
        code, said = _pytest(tree, broken.red)
    if code == GREEN:
        return False, "its tests stay green"
    red = _FIRST_RED.search(said)
    if code != RED or red is None or red[0].startswith("ERROR"):
        return False, f"its tests could not be run (exit code {code}): {_last_words(said)}"
    return True, red[1]


def _copy(root: Path, directory: str) -> Path:
    """With the compiled modules and what they were built from, so that little is built again."""
    return Path(shutil.copytree(root, Path(directory) / "tree", ignore=_NOT_COPIED))


def _build(tree: Path) -> None:
    code, said = _run(tree, "setup.py", "-q", "build_ext", "--inplace")
    if code:
        raise NotABreak(f"the broken tree cannot be built: {_last_words(said)}")


def _pytest(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    return _run(tree, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no", *tests)


def _run(tree: Path, *arguments: str) -> tuple[int, str]:
    """Python in `tree`, whose modules come before those installed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECS,
        check=False,
    )
    return done.returncode, done.stdout


def _last_words(said: str) -> str:
    return " ".join(said.split())[-300:]


# ------------------------------------------------------------------------------------------------- telling


def main(names: Sequence[str]) -> int:
    """Judges the patches of those names, all where none is given; 1 where one did not do its work."""
    paths = [HERE / f"{name}.patch" for name in names] or sorted(HERE.glob("*.patch"))
    if missing := [path.stem for path in paths if not path.exists()]:
        sys.stderr.write(f"there is no break named {', '.join(missing)}\n")
        return 2
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        first = pool.submit(control, paths)
        verdicts = [*pool.map(judge, paths), first.result()]
    for verdict in verdicts:
        _say(f"{'ok' if verdict.good else 'FAILED':8}{verdict.secs:5.1f} s  {verdict.name:34}  {verdict.seen}")
    failed = sum(not verdict.good for verdict in verdicts)
    _say(f"{len(paths)} deliberate breaks: {f'{failed} failures' if failed else 'each turned a test red'}")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
