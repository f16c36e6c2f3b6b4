"""Starting with a KUBECONFIG that is of no use: one line, exit code 1, no secret."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.clusters import TOKEN, kubeconfig
from tests.e2e.process import run_to_end

SERVE = (sys.executable, "-W", "error", "-m", "gdsvc", "serve", "--listen", "127.0.0.1:0", "--pool-discovery", "mcs")
GOOD = kubeconfig("http://127.0.0.1:1")
FILES = {"broken": f"users: [{{token: {TOKEN}", "no such context": json.dumps(GOOD | {"current-context": "elsewhere"})}


def _refused(environ: dict[str, str]) -> str:
    """The one line that a start with these variables writes beside the log."""
    ended = run_to_end(*SERVE, environ=environ)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert TOKEN not in ended.stderr + ended.stdout
    (line,) = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    return line


def test_a_kubeconfig_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    for fault, content in FILES.items():
        (tmp_path / fault).write_text(content)
    environs = [{"KUBECONFIG": str(tmp_path / fault)} for fault in (*FILES, "absent")]
    with ThreadPoolExecutor(len(environs)) as at_once:  # each start takes a second
        lines = list(at_once.map(_refused, environs))
    assert [line for line in lines if "KUBECONFIG" not in line] == []


def test_outside_a_cluster_a_kubeconfig_is_needed() -> None:
    nowhere = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
    assert "service account" in _refused(nowhere)
