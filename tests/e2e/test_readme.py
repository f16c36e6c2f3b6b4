"""The sessions in the README, run against a real service: what they print is what the README says."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.process import HURRIED, Serve, Service

README = Path(__file__).parents[2] / "README.md"
LEASE_SECS = 15  # the default, which the sessions show; less by the hurried service's clock
POLL_SECS = 0.1
CURL_SECS = 20
VARYING = (  # another one each time
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "INSTANT"),
    (re.compile(r"(?<=id: )[0-9a-f]{16}-\d+"), "EPOCH-REVISION"),
    (re.compile(r"(?<=retry: )\d+"), "MILLISECONDS"),
)


def _blocks() -> list[list[tuple[str, str]]]:
    """(command, output) of the README's console blocks of curl."""
    blocks = re.findall(r"^```console\n(\$ curl -s.*?)^```$", README.read_text(), re.M | re.S)
    return [[_step(step) for step in block.split("$ ")[1:]] for block in blocks]


def _step(step: str) -> tuple[str, str]:
    command, _, output = step.partition("\n")
    assert command.startswith("curl -s")
    return command, output.strip()


def _same(text: str) -> str:
    """The text without what is another one each time."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text.strip()


def _started(service: Service, command: str) -> subprocess.Popen[str]:
    here = command.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}")
    return subprocess.Popen(["bash", "-c", f"exec {here}"], stdout=subprocess.PIPE, text=True)


def _printed(service: Service, command: str) -> str:
    with _started(service, command) as curl:
        output, _ = curl.communicate(timeout=CURL_SECS)
        return output


@pytest.mark.slow
def test_the_sessions_print_what_the_readme_says(serve: Serve) -> None:
    service = serve(command=HURRIED)
    deadline = time.monotonic() + 3 * LEASE_SECS
    while not service.complete():
        assert time.monotonic() < deadline
        time.sleep(POLL_SECS)
    session, [(watch, watched)], [(explain, explained)] = _blocks()
    assert len(session) == 4
    with _started(service, watch) as watching:
        while service.samples()["gdsvc_watchers"] < 1:
            assert time.monotonic() < deadline + CURL_SECS
            time.sleep(POLL_SECS)
        for command, output in session:
            assert _printed(service, command).strip() == output, command
        assert _same(_printed(service, explain)) == _same(explained)
        service.stop()  # which ends the watch
        output, _ = watching.communicate(timeout=CURL_SECS)
    assert _same(output) == _same(watched)
