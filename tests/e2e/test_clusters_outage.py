"""The API server away, closing at once, expiring, talking nonsense, or back without slices: what callers are told.

The clock is short. The tests share a server and a service over it, which each of them finds at rest.
"""

import time
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from tests.e2e.clusters import FAST, TOKEN, Cluster, cluster, eventually, imported, pod
from tests.e2e.process import Service, running
from tests.e2e.watcher import Watcher
from tests.kube.api_server import close_at_once
from tests.unit.kube.events import error

FLAGS = ("--pool-discovery", "mcs", "--registrations", "off")
STALE_AFTER_SECS = 2.0  # 60 s by the fast service's clock
MINUTE = 2.0  # the same
EXPIRED = 'gdsvc_relists_total{cause="expired"}'
CONNECTION_ERRORS = 'gdsvc_watch_errors_total{kind="connection"}'
EXACT = 'gdsvc_source_complete{source="endpointslices"}'
HOSTILE = (
    b"<html>bad gateway</html>",
    b'{"type":"ADDED","object":{"metadata":',
    b'{"type":"ERROR","object":{}}',
    b'{"type":"ERROR","object":"gone"}',
    b'{"type":"ADDED","object":{"metadata":{"name":1}}}',
    b'{"type":"NOVEL","object":{}}',
    b"[" * 5000,
    b"\xff\xfe\0",
    b"null",
    error(500),
)

_changes = count(1)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The server, with the slices of the pool `gw`."""
    with cluster(tmp_path_factory.mktemp("outage")) as made:
        _change(made)
        yield made


@pytest.fixture(scope="module")
def shared(api: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service; no log line of any test may hold the token."""
    with running(tmp_path_factory.mktemp("service"), *FLAGS, environ=api.environ, command=FAST) as service:
        yield service
        assert TOKEN not in service.log


@pytest.fixture
def service(shared: Service, api: Cluster) -> Service:
    """Exact, listing `gw` alone, and watching: the change that it hears of ends all rows of errors and all waits."""
    api.tell(lambda server: setattr(server, "always", None))
    for name in [name for name in api.api.objects if name != "east-gw-pool-relay"]:
        api.delete(name)
    address = _change(api)
    eventually(lambda: shared.get("/pools").status == 200 and _relays(shared) == {"gw": [address]})
    eventually(lambda: shared.complete() and _watching(api))
    return shared


def _change(api: Cluster) -> str:
    """Gives `gw` an address that it never had; the address."""
    address = f"10.0.0.{next(_changes)}"
    api.put(imported("gw-pool-relay", pod(address)))
    return address


def _relays(service: Service) -> dict[str, list[str]]:
    return {item["key"]["dgd_name"]: item["relay_identities"] for item in service.get("/pools").json()["pools"]}


def _lists(service: Service, count: int) -> bool:
    return len(service.names()) == count


def _errors(service: Service) -> float:
    """Errors of the watch, of every kind."""
    return sum(value for name, value in service.samples().items() if "watch_errors_total{" in name)


def _watching(api: Cluster) -> bool:
    return api.tell(lambda server: bool(server.watchers))


def test_a_killed_api_server_leaves_the_lists_and_every_watcher_is_told(service: Service, api: Cluster) -> None:
    errors_before = service.samples()[CONNECTION_ERRORS]
    with Watcher(service.port) as pools, Watcher(service.port, "/routers/watch") as routers:
        assert pools.next().json()["complete"] is routers.next().json()["complete"] is True
        killed_at = time.monotonic()
        api.kill()
        stale = pools.next()
        assert time.monotonic() - killed_at >= STALE_AFTER_SECS
        assert (stale.name, stale.json()["complete"], len(stale.json()["pools"])) == ("resync", False, 1)
        assert routers.next().json()["complete"] is False
        assert [source["name"] for source in service.get("/pools").json()["sources"]] == ["endpointslices"]
        assert service.get("/ready").status == 200
        assert "stale" in service.get("/health").json()["directories"]["pools"]["sources"][0]["detail"]
        samples = service.samples()
        assert samples[EXACT] == 0
        assert samples[CONNECTION_ERRORS] > errors_before
        assert samples['gdsvc_source_silent_seconds{source="endpointslices"}'] >= STALE_AFTER_SECS
        api.revive()
        address = _change(api)
        while not (event := pools.next()).json().get("complete"):
            pass
        assert event.name == "resync"
        assert routers.next().json()["complete"] is True
        eventually(lambda: "sources" not in service.get("/pools").json())
        eventually(lambda: _relays(service) == {"gw": [address]})


def test_a_server_that_closes_every_watch_is_asked_less_than_once_a_second(service: Service, api: Cluster) -> None:
    api.tell(lambda server: setattr(server, "always", close_at_once))
    api.tell(lambda server: server.requests.clear())
    api.tell(lambda server: server.end_watches())
    time.sleep(MINUTE)  # the measurement itself
    assert 2 < len(api.tell(lambda server: list(server.requests))) < 60
    assert list(_relays(service)) == ["gw"]


def test_an_empty_relist_is_told_and_warned_of(service: Service, api: Cluster) -> None:
    warnings_before = service.log.count("mcs.empty_list")
    with Watcher(service.port) as watcher:
        assert len(watcher.next().json()["pools"]) == 1
        api.kill()
        api.api.objects.clear()
        api.api.revision += 1
        api.revive()
        while (event := watcher.next()).name != "resync" or event.json()["pools"]:
            pass
    assert service.log.count("mcs.empty_list") == warnings_before + 1


def test_410_in_a_watch_leads_to_one_new_list_that_is_counted(service: Service, api: Cluster) -> None:
    api.put(imported("late-pool-relay", pod("10.0.1.1")))
    eventually(lambda: list(_relays(service)) == ["gw", "late"])
    relists_before = service.samples()[EXPIRED]
    api.tell(lambda server: server.requests.clear())
    api.tell(lambda server: server.delete("east-late-pool-relay", told=False))
    api.say(error(410, "Expired", "too old resource version"))
    eventually(lambda: list(_relays(service)) == ["gw"])
    samples = service.samples()
    assert samples[EXPIRED] == relists_before + 1
    assert samples[EXACT] == 1
    (request,) = api.tell(lambda server: list(server.requests))
    assert (request.kind, "resourceVersion" in request.query) == ("stream", False)


def test_no_payload_ends_the_watch(service: Service, api: Cluster) -> None:
    errors_before = _errors(service)
    for number, line in enumerate(HOSTILE):
        eventually(lambda: _watching(api))
        api.say(line)
        api.put(imported(f"p{number:02}-pool-relay", pod("10.0.1.1")))
        eventually(partial(_lists, service, 1 + number + 1))
    assert _errors(service) >= errors_before + 5
