"""Credentials of a container endpoint that is slow, and whose credentials soon end."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.test_service import pool, storage
from tests.e2e.clusters import eventually
from tests.e2e.process import Serve, Service

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(120)]

LATENCY_SECS, LIFE_SECS, WATCHED_SECS = 1.5, 12.0, 20.0
SECRET = "secret-that-no-log-may-hold"


@contextmanager
def container_endpoint() -> Iterator[tuple[str, list[float]]]:
    """Its URL, and when it was asked."""
    asked: list[float] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(time.monotonic())
            time.sleep(LATENCY_SECS)  # what is tested: keys that are slow to come
            ends_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECS)
            said = {"AccessKeyId": "AKID", "SecretAccessKey": SECRET, "Token": SECRET}
            body = json.dumps(said | {"Expiration": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked may have stopped meanwhile
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_no_heartbeat_waits_for_credentials_that_soon_end(serve: Serve, shared_table: str, ministack: str) -> None:
    keyless = {name: value for name, value in CREDENTIALS.items() if "KEY" not in name}
    with container_endpoint() as (url, asked):
        environ = keyless | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}
        flags = ("--heartbeat-interval-secs", "2", "--lease-duration-secs", "6", "--dynamodb-poll-interval-secs", "1")
        service = serve(*storage(shared_table, ministack, *flags), "--log-level", "debug", environ=environ)
        eventually(lambda: service.get("/ready").status == 200)
        assert service.post("/pools", pool("m")).status == 200
        before = _errors(service)
        worst, until = 0.0, time.monotonic() + WATCHED_SECS
        while time.monotonic() < until:
            began_at = time.monotonic()
            assert service.post("/pools", pool("m")).status == 200
            worst = max(worst, time.monotonic() - began_at)
            time.sleep(0.05)  # heartbeats all the time, but no load
        assert len(asked) >= 3, "they were renewed meanwhile"
        assert worst < 0.5
        assert _errors(service) == before, "but for those of the first, for which calls had to wait"
        assert SECRET not in service.log


def _errors(service: Service) -> dict[str, float]:
    return {name: count for name, count in service.samples().items() if name.startswith("gdsvc_store_errors")}
