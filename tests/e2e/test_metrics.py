"""What operators see from outside: /metrics in both formats and bounded, connections counted, logs quiet."""

import json
import os
import pty
import random
import re
import signal
import string
import subprocess
import time
from collections.abc import Iterable

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.process import POLL_SECS, SERVE, Serve, Service
from tests.e2e.wire import PATIENCE, Connection, pool

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
ODD = 1000  # requests with random paths and methods
ROUTES_AND_METHODS = 10 * 8  # labels known in advance: routes and "other", methods and "other"


def settled_connections(service: Service, expected: int) -> float:
    """gdsvc_connections, once it is `expected` or patience ends: closing is seen a moment later."""
    deadline = time.monotonic() + PATIENCE
    while (count := service.samples()["gdsvc_connections"]) != expected and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    return count


def test_metrics_parse_as_prometheus_text_and_as_openmetrics(serve: Serve) -> None:
    service = serve()
    service.post("/pools", pool("a"))
    plain = service.get("/metrics")
    assert (plain.header("content-type") or "").startswith("text/plain")
    opened = service.get("/metrics", Accept=OPENMETRICS)
    assert (opened.header("content-type") or "").startswith("application/openmetrics-text")
    names = {family.name for family in text_string_to_metric_families(plain.body.decode())}
    families = openmetrics.text_string_to_metric_families(opened.body.decode())  # type: ignore[no-untyped-call]
    assert {family.name for family in families} == names
    assert {"gdsvc_pools", "gdsvc_expired", "gdsvc_stalled_seconds", "gdsvc_http_request_duration_seconds"} <= names
    assert {"process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds"} <= names


def test_counters_tell_what_happened_and_never_fall(serve: Serve) -> None:
    service = serve()
    before = service.samples()
    for model in ("x", "x", "y"):
        service.post("/pools", pool("counted", model=model))
    service.post("/pools", b"{")
    after = service.samples()
    outcomes = {name: after[f'gdsvc_registrations_total{{outcome="{name}"}}'] for name in ("new", "changed", "renewed")}
    assert outcomes == {"new": 1, "changed": 1, "renewed": 1}
    assert after['gdsvc_registrations_total{outcome="rejected"}'] == 1
    assert after['gdsvc_http_requests_total{method="POST",route="/pools",status="200"}'] == 3
    assert after['gdsvc_http_requests_total{method="POST",route="/pools",status="400"}'] == 1
    assert after["gdsvc_pools"] == 1
    counters = [name for name in before if re.search(r"_total\b|_bucket\b|_count\b|_sum\b", name)]
    assert len(counters) > 10
    assert not [name for name in counters if after.get(name, -1) < before[name]]


def _odd_request(rng: random.Random) -> tuple[str, str]:
    letters = string.ascii_letters + string.digits + "-._~%/?&="
    path = "/" + "".join(rng.choices(letters, k=rng.randint(0, 60)))
    invented = "".join(rng.choices(string.ascii_uppercase, k=9))
    method = rng.choice(["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", invented])
    prefix = rng.choice(["", "/pools", "/pools/a/b", "/routers", "/metrics"])
    return method, prefix + path


def _statuses(service: Service, requests: Iterable[tuple[str, str]]) -> set[int]:
    """Those of the answers, on as few connections as the service allows."""
    seen: set[int] = set()
    connection = service.connect()
    for method, target in requests:
        reply = connection.request(method, target)
        seen.add(reply.status)
        if reply.header("connection") == "close":
            connection.close()
            connection = service.connect()
    connection.close()
    return seen


def test_odd_requests_leave_the_series_bounded(serve: Serve) -> None:
    service = serve()
    service.samples()
    rng = random.Random(20)  # the same thousand each time
    answers = _statuses(service, [_odd_request(rng) for _ in range(ODD)])
    samples = service.samples()
    counted = {name: value for name, value in samples.items() if name.startswith("gdsvc_http_requests_total")}
    assert sum(counted.values()) >= ODD
    assert len(counted) <= len(answers | {200}) * ROUTES_AND_METHODS
    routes = {match[1] for name in samples if (match := re.search(r'route="([^"]*)"', name))}
    assert len(routes) <= 10
    assert len(samples) < 700
    assert 500 not in answers


def test_idle_connections_are_counted(serve: Serve) -> None:
    service = serve()
    assert settled_connections(service, 1) == 1  # the one that asks
    idle = [Connection(service.port) for _ in range(30)]
    for connection in idle[:10]:
        assert connection.get("/live").status == 200  # kept alive after a request; the others never sent one
    assert settled_connections(service, 31) == 31
    for connection in idle:
        connection.close()
    assert settled_connections(service, 1) == 1
    assert service.samples()["gdsvc_connection_slots"] >= 100


def test_a_registration_is_one_line_of_json_and_renewals_are_none(serve: Serve) -> None:
    service = serve()
    lines = len(service.events)
    with service.connect() as connection:
        for _ in range(50):
            for spelling in (pool("quiet", model="x"), {"model": "x", **pool("quiet")}):
                assert connection.post("/pools", spelling).status == 200
        connection.post("/pools", pool("loud"))
    told = wait_for_events(service, lines + 2)[lines:]
    assert [event["event"] for event in told] == ["pool.registered", "pool.registered"]
    assert "ohio/dynamo/quiet" in json.dumps(told[0])
    assert all({"ts", "level", "event"} <= event.keys() for event in told)


def wait_for_events(service: Service, count: int) -> list[dict[str, object]]:
    """The log once it has `count` lines; changes are told a moment after they happened."""
    deadline = time.monotonic() + PATIENCE
    while len(service.events) < count and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    return service.events


def test_the_console_format_is_for_people(serve: Serve) -> None:
    service = serve("--log-format", "console")
    service.post("/pools", pool("read by people"))
    deadline = time.monotonic() + PATIENCE
    while "pool.registered" not in service.log and time.monotonic() < deadline:
        time.sleep(POLL_SECS)
    line = service.log.splitlines()[-1]
    assert not line.startswith("{")
    assert "pool.registered" in line
    assert "ohio/dynamo/read by people" in line


def test_on_a_terminal_the_format_is_for_people() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SERVE, "--listen", "127.0.0.1:0"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        shown = b""
        while b"listening" not in shown:
            shown += os.read(ours, 1 << 16)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        os.close(ours)
    assert not shown.lstrip().startswith(b"{")
