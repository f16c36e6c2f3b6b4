"""The README's session of the commands for people, run against a real service: it prints what the README says."""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.people import running, through_a_shell
from tests.e2e.process import POLL_SECS, Serve

README = Path(__file__).parents[2] / "README.md"
VARYING = (  # another one each time
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "INSTANT"),
    (re.compile(r"[0-9.]+ (?:s|min)\b"), "DURATION"),
    (re.compile(r"\d+ registrations of it were heard"), "N registrations of it were heard"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)


def _sessions() -> list[list[tuple[str, str]]]:
    """(command, output) of the README's console blocks about gdsvc."""
    blocks = re.findall(r"^```console\n(\$ (?:gdsvc|cat) .*?)^```$", README.read_text(), re.M | re.S)
    return [[_step(step) for step in block.removeprefix("$ ").split("\n$ ")] for block in blocks]


def _step(step: str) -> tuple[str, str]:
    command, _, output = step.partition("\n")
    return command, output


def _same(text: str) -> str:
    """The text without what is another one each time."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text.strip()


@pytest.mark.slow
def test_the_session_of_the_commands_prints_what_the_readme_says(serve: Serve, tmp_path: Path) -> None:
    service = serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")
    url = f"http://127.0.0.1:{service.port}"
    while not service.complete():
        time.sleep(POLL_SECS)
    [(watch, watched)], session = _sessions()
    with running(*watch.split()[1:], GDSVC_URL=url) as watching:
        watching.wait_for_lines(1)
        _run(session, tmp_path, url)
        watching.wait_for_lines(len(watched.splitlines()))
        assert _same(watching.end(signal.SIGINT).out) == _same(watched)


def _run(session: list[tuple[str, str]], directory: Path, url: str) -> None:
    (cat, content), (register, registered), *rest = session
    (directory / cat.removeprefix("cat ")).write_text(content)
    arguments = register.removesuffix(" &").replace("pool.json", str(directory / "pool.json")).split()[1:]
    with running(*arguments, GDSVC_URL=url) as registering:
        assert _same("".join(registering.wait_for_lines(1))) == _same(registered)
        for command, output in rest:
            if command == "kill %1":
                assert registering.end(signal.SIGTERM).code == 0
            else:
                assert _same(through_a_shell(command, directory, GDSVC_URL=url).out) == _same(output), command
