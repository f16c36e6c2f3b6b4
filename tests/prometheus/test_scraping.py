"""What deploy/prometheus.yml promises: a real Prometheus scrapes what gdsvc lists, and lets go of what has left."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import Service, running
from tests.e2e.wire import Closed, Connection, pool
from tests.prometheus.scraper import Exporter, exporting, scraping, wait_until

CONFIG = Path(__file__).parents[2] / "deploy" / "prometheus.yml"
HEARTBEAT_SECS, LEASE_SECS = 1, 4
SHORT = ("--heartbeat-interval-secs", str(HEARTBEAT_SECS), "--lease-duration-secs", str(LEASE_SECS))
FAST = "\nglobal:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"
NAMES = ("a", "b", "c")
LEASE_AFTER_SECS = 25  # of the service that comes back: time to see what Prometheus makes of being refused
SCRAPES = 8  # one a second
REFUSALS = 16  # by two jobs that ask once a second: Prometheus takes new targets over every 5 s

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]


def config(service: Service) -> str:
    """The file as it is shipped, less its patience."""
    text = CONFIG.read_text()
    assert "gdsvc.example:8080" in text
    assert "refresh_interval: 30s" in text
    text = text.replace("gdsvc.example:8080", f"127.0.0.1:{service.port}")
    return text.replace("refresh_interval: 30s", "refresh_interval: 1s") + FAST


class Relay(threading.Thread):
    """Registers one pool again and again, with whatever service listens there, until it is stopped."""

    def __init__(self, port: int, name: str, frontend: str) -> None:
        super().__init__()
        self._port = port
        self._facts = pool(name, model="qwen/" + name, location={"region": "eu"}, frontends=[frontend])
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECS / 4):
            with contextlib.suppress(OSError, Closed), Connection(self._port) as connection:
                connection.post("/pools", self._facts)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@contextlib.contextmanager
def beating(port: int, exporters: dict[str, Exporter]) -> Iterator[dict[str, Relay]]:
    """A relay for each pool, stopped when the block ends."""
    relays = {name: Relay(port, name, exporter.url) for name, exporter in exporters.items()}
    for relay in relays.values():
        relay.start()
    try:
        yield relays
    finally:
        for relay in relays.values():
            relay.stop()


@pytest.fixture
def exporters() -> Iterator[dict[str, Exporter]]:
    """Three frontends, the last of them on IPv6 where there is any."""
    hosts = ["127.0.0.1", "127.0.0.1", "::1" if _has_ipv6() else "127.0.0.1"]
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(exporting(host)) for name, host in zip(NAMES, hosts, strict=True)}


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def addresses(exporters: dict[str, Exporter]) -> set[str]:
    return {exporter.url.removeprefix("http://") for exporter in exporters.values()}


def test_prometheus_scrapes_what_is_listed_and_lets_go_of_what_has_left(
    tmp_path: Path, exporters: dict[str, Exporter]
) -> None:
    router = exporters["a"].url
    with (
        running(tmp_path, *SHORT, "--router", f"r-0={router}") as service,
        beating(service.port, exporters) as relays,
        scraping(config(service), tmp_path) as prometheus,
    ):
        busy = "frontend_busy{job='frontends'}"
        wait_until(lambda: len(prometheus.query(busy)) == len(NAMES), lambda: prometheus.query("up"))
        samples = prometheus.query(busy)
        assert {value for _, value in samples} == {7.0}
        assert {labels["instance"] for labels, _ in samples} == addresses(exporters)
        assert {(labels["pool"], labels["model"]) for labels, _ in samples} == {(n, f"qwen/{n}") for n in NAMES}
        assert {(labels["site"], labels["namespace"], labels["region"]) for labels, _ in samples} == {
            ("ohio", "dynamo", "eu")
        }
        wait_until(lambda: len(prometheus.query("up == 1")) == len(NAMES) + 2, lambda: prometheus.query("up"))
        assert [labels["instance"] for labels, _ in prometheus.query("up{router='r-0'}")] == [router[len("http://") :]]
        assert prometheus.query("gdsvc_pools") != []

        relays["b"].stop()
        with service.connect() as caller:
            assert caller.request("DELETE", "/pools/ohio/dynamo/b").status == 204
        left = addresses({name: exporter for name, exporter in exporters.items() if name != "b"})
        wait_until(lambda: prometheus.targets("frontends") == left, lambda: prometheus.targets("frontends"))
        wait_until(lambda: len(prometheus.query(busy)) == len(left), lambda: prometheus.query(busy))
        dropped, kept = exporters["b"].scrapes, exporters["c"].scrapes
        wait_until(lambda: exporters["c"].scrapes >= kept + 3, lambda: exporters["c"].scrapes)
        assert exporters["b"].scrapes == dropped


def test_a_restart_of_the_service_drops_no_target(tmp_path: Path, exporters: dict[str, Exporter]) -> None:
    everyone = addresses(exporters)
    first_back = {"a": exporters["a"]}
    with contextlib.ExitStack() as before:
        service = before.enter_context(running(tmp_path, *SHORT))
        before.enter_context(beating(service.port, exporters))
        with scraping(config(service), tmp_path) as prometheus:
            wait_until(lambda: prometheus.targets("frontends") == everyone, lambda: prometheus.targets("frontends"))
            before.close()
            again = ("--listen", f"127.0.0.1:{service.port}", "--lease-duration-secs", str(LEASE_AFTER_SECS))
            with running(tmp_path, *again) as service, beating(service.port, first_back):
                refused = prometheus.refused_refreshes()
                wait_until(lambda: service.names() == ["a"], service.names)
                wait_until(lambda: prometheus.refused_refreshes() >= refused + REFUSALS, prometheus.refused_refreshes)
                assert not service.complete()
                assert prometheus.targets("frontends") == everyone

                with beating(service.port, {name: exporters[name] for name in "bc"}):
                    wait_until(service.complete, service.names)
                    listed_at = exporters["a"].scrapes
                    wait_until(lambda: exporters["a"].scrapes >= listed_at + SCRAPES, lambda: exporters["a"].scrapes)
                    assert prometheus.targets("frontends") == everyone
