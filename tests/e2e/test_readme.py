"""The session on the README's first screen, run against a real service: what it prints is what the README says."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.process import Serve

README = Path(__file__).parents[2] / "README.md"
LEASE_SECS = 15  # the default, which the session shows
POLL_SECS = 0.1


def _session() -> list[tuple[str, str]]:
    """(command, output) of the README's first console block."""
    block, *_ = re.findall(r"^```console\n(.*?)^```$", README.read_text(), re.M | re.S)
    steps = [step.partition("\n") for step in block.split("$ ")[1:]]
    return [(command, output.strip()) for command, _, output in steps]


@pytest.mark.slow
def test_the_session_prints_what_the_readme_says(serve: Serve) -> None:
    service = serve()
    deadline = time.monotonic() + 3 * LEASE_SECS
    while not service.complete():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECS)
    session = _session()
    assert len(session) == 4
    for command, output in session:
        assert command.startswith("curl -s ")
        here = command.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}")
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=True, timeout=20)
        assert done.stdout.strip() == output, command
