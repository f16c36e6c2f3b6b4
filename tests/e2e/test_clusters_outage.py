"""The API server away, closing at once, or back without slices: what callers are told meanwhile. The clock is short."""

import time

from tests.e2e.clusters import FAST, TOKEN, Cluster, eventually, imported, pod
from tests.e2e.process import Serve, Service
from tests.e2e.watcher import Watcher
from tests.kube.api_server import close_at_once

FLAGS = ("--pool-discovery", "mcs", "--registrations", "off")
STALE_AFTER_SECS = 2.0  # 60 s by the fast service's clock
MINUTE = 2.0  # the same


def _started(serve: Serve, east: Cluster) -> Service:
    east.put(imported("gw-pool-relay", pod("10.0.0.1")))
    service = serve(*FLAGS, environ=east.environ, command=FAST)
    eventually(service.names)
    return service


def test_a_killed_api_server_leaves_the_lists_and_every_watcher_is_told(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east)
    with Watcher(service.port) as pools, Watcher(service.port, "/routers/watch") as routers:
        assert pools.next().json()["complete"] is routers.next().json()["complete"] is True
        killed_at = time.monotonic()
        east.kill()
        stale = pools.next()
        assert time.monotonic() - killed_at >= STALE_AFTER_SECS
        assert (stale.name, stale.json()["complete"], len(stale.json()["pools"])) == ("resync", False, 1)
        assert routers.next().json()["complete"] is False
        assert [source["name"] for source in service.get("/pools").json()["sources"]] == ["endpointslices"]
        assert service.get("/ready").status == 200
        assert "stale" in service.get("/health").json()["directories"]["pools"]["sources"][0]["detail"]
        samples = service.samples()
        assert samples['gdsvc_source_complete{source="endpointslices"}'] == 0
        assert samples['gdsvc_watch_errors_total{kind="connection"}'] > 0
        assert samples['gdsvc_source_silent_seconds{source="endpointslices"}'] >= STALE_AFTER_SECS
        east.revive()
        east.put(imported("gw-pool-relay", pod("10.0.0.2")))
        while not (event := pools.next()).json().get("complete"):
            pass
        assert event.name == "resync"
        assert routers.next().json()["complete"] is True
        eventually(lambda: "sources" not in service.get("/pools").json())
        eventually(lambda: service.get("/pools").json()["pools"][0]["relay_identities"] == ["10.0.0.2"])
    assert TOKEN not in service.log


def test_a_server_that_closes_every_watch_is_asked_less_than_once_a_second(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east)
    east.tell(lambda api: setattr(api, "always", close_at_once))
    east.tell(lambda api: api.requests.clear())
    east.tell(lambda api: api.end_watches())
    time.sleep(MINUTE)  # the measurement itself
    assert 2 < len(east.tell(lambda api: list(api.requests))) < 60
    assert service.names() == ["gw"]


def test_an_empty_relist_is_told_and_warned_of(serve: Serve, east: Cluster) -> None:
    service = _started(serve, east)
    with Watcher(service.port) as watcher:
        assert len(watcher.next().json()["pools"]) == 1
        east.kill()
        east.api.objects.clear()
        east.api.revision += 1
        east.revive()
        while (event := watcher.next()).name != "resync" or event.json()["pools"]:
            pass
    assert "mcs.empty_list" in service.log
