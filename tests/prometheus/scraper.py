"""A real Prometheus on loopback, and the small servers that it scrapes."""

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

PATIENCE = 40.0  # a first scrape takes seconds on a busy machine
POLL_SECS = 0.1
Labels = Mapping[str, str]


def wait_until(true: Callable[[], bool], why: Callable[[], object]) -> None:
    """Fails with `why()` where it is not so within PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(POLL_SECS)


class Exporter(ThreadingHTTPServer):
    """A frontend as far as Prometheus sees it: answers /metrics, and counts how often it did."""

    daemon_threads = True

    def __init__(self, host: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.scrapes = 0
        super().__init__((host, 0), _Metrics)

    @property
    def url(self) -> str:
        host, port, *_ = self.server_address
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Exporter)
        self.server.scrapes += 1
        body = b"# TYPE frontend_busy gauge\nfrontend_busy 7\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base's
        del format, args


@contextlib.contextmanager
def exporting(host: str) -> Iterator[Exporter]:
    """An exporter that serves until the block ends."""
    with Exporter(host) as exporter:
        thread = threading.Thread(target=exporter.serve_forever, args=(POLL_SECS,))
        thread.start()
        try:
            yield exporter
        finally:
            exporter.shutdown()
            thread.join()


class Prometheus:
    """A running Prometheus, asked over its HTTP API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> list[tuple[Labels, float]]:
        """The samples of an instant query."""
        result = self._get("/api/v1/query?query=" + quote(expression))["data"]["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def targets(self, job: str) -> set[str]:
        """The instances of a job that are scraped now."""
        active = self._get("/api/v1/targets?state=active")["data"]["activeTargets"]
        return {target["labels"]["instance"] for target in active if target["labels"]["job"] == job}

    def refused_refreshes(self) -> float:
        """How often it asked for targets in vain."""
        with urlopen(self._url + "/metrics", timeout=PATIENCE) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("prometheus_sd_http_failures_total"))

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError), urlopen(self._url + "/-/ready", timeout=PATIENCE) as reply:
            return int(reply.status) == 200
        return False

    def _get(self, target: str) -> Any:
        with urlopen(self._url + target, timeout=PATIENCE) as reply:
            return json.load(reply)


@contextlib.contextmanager
def scraping(config: str, directory: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, ready when the block begins."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.fail("there is no prometheus here: install Debian's package of that name")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    config_path, log_path = directory / "prometheus.yml", directory / "prometheus.log"
    config_path.write_text(config)
    flags = [f"--config.file={config_path}", f"--storage.tsdb.path={directory / 'data'}"]
    flags += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with log_path.open("wb") as log:
        process = subprocess.Popen([program, *flags], cwd=directory, stdout=log, stderr=log, start_new_session=True)
        prometheus = Prometheus(port)
        try:
            wait_until(lambda: process.poll() is not None or prometheus.is_ready(), log_path.read_text)
            assert process.poll() is None, log_path.read_text()
            yield prometheus
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
