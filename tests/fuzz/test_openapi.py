"""schemathesis holds the live service to its own /openapi.json: each operation, asked rightly and wrongly.

No check is off. What JSON Schema cannot say of a request is left out by hooks.py, and streams, which do not end, here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import Service
from tests.fuzz.conftest import bounded, examples

PHASES = "examples,coverage,fuzzing,stateful"
SEED = 20  # of the bounded run
HOOKS = Path(__file__).with_name("hooks.py")

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(0)]


def test_the_service_is_what_its_openapi_document_says(service: Service, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{service.port}/openapi.json"]
    options = ["--checks", "all", "--phases", PHASES, "--max-examples", str(max(1, examples() // 20))]
    options += ["--continue-on-failure", "--max-response-time", "2", "--exclude-path-regex", "/watch$"]
    if bounded():
        options += ["--seed", str(SEED)]
    environ = os.environ | {"PYTHONPATH": str(HOOKS.parent), "SCHEMATHESIS_HOOKS": HOOKS.stem, "NO_COLOR": "1"}
    done = subprocess.run(
        command + options,
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "Operations:       13 selected / 15 total" in done.stdout, done.stdout[:2000]
