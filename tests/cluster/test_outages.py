"""The API server or etcd go away under a running service: the view stays, and ends equal to the server's truth."""

import sys
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.impatient_views import STALE_AFTER_SECS
from tests.cluster.imported import relays, truth
from tests.cluster.programs import stopped
from tests.cluster.watching import equals_truth, is_complete, listed, pools_of, relists, synced
from tests.e2e.process import Serve
from tests.e2e.watcher import Watcher
from tests.event_stream import Event

pytestmark = pytest.mark.cluster

POOLS = 50
IMPATIENT = (sys.executable, "-W", "error", str(Path(__file__).with_name("impatient_views.py")))


def filled(cluster: Cluster) -> None:
    cluster.api.put_all(relays(number) for number in range(POOLS))


def change(cluster: Cluster) -> None:
    """Some pools leave, some change, some come."""
    for number in range(0, POOLS, 5):
        cluster.api.delete(relays(number))
    cluster.api.put_all(relays(number, "10.9.9.9") for number in range(1, POOLS, 5))
    cluster.api.put_all(relays(number) for number in range(POOLS, POOLS + 10))


CHANGES = {"removed": POOLS // 5, "upserted": POOLS // 5 + 10}


def counted(events: list[Event]) -> dict[str, int]:
    return {name: sum(event.name == name for event in events) for name in sorted({event.name for event in events})}


def test_slices_that_change_while_the_server_is_away_are_told_without_a_resync(cluster: Cluster, serve: Serve) -> None:
    filled(cluster)
    service = serve()
    synced(service)
    equals_truth(service, cluster)
    before = listed(service)
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        with stopped(cluster.server):
            change(cluster)
            assert listed(service) == before  # what is not known to be gone stays
            assert service.complete()
        equals_truth(service, cluster)
        assert service.complete()
        assert counted([watcher.next() for _ in range(sum(CHANGES.values()))]) == CHANGES
        cluster.api.put(relays(999))
        assert watcher.next().json()["key"]["dgd_name"] == "pool-00999"


def test_a_server_that_dies_again_and_again_under_changes_leaves_no_ghost(cluster: Cluster, serve: Serve) -> None:
    filled(cluster)
    for turn in range(3):
        cluster.api.put(relays(100 + turn))
    service = serve()
    synced(service)
    for turn in range(3):
        cluster.api.put_all(relays(number, f"10.8.{turn}.1") for number in range(turn, POOLS, 3))
        with stopped(cluster.server):
            cluster.api.put_all(relays(number, f"10.8.{turn}.2") for number in range(turn, POOLS, 7))
            cluster.api.delete(relays(100 + turn))
    equals_truth(service, cluster)
    assert service.complete()
    assert service.samples()['gdsvc_watch_errors_total{kind="connection"}'] >= 1


def test_a_revision_compacted_away_meanwhile_is_a_relist_and_no_resync(cluster: Cluster, serve: Serve) -> None:
    filled(cluster)
    service = serve()
    synced(service)
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        with stopped(cluster.server):
            change(cluster)
            cluster.etcd.compact(cluster.api.put(relays(999)))
        equals_truth(service, cluster)
        assert relists(service, "expired") == 1
        assert counted([watcher.next() for _ in range(sum(CHANGES.values()) + 1)]) == CHANGES | {
            "upserted": CHANGES["upserted"] + 1
        }


def test_a_long_outage_is_told_by_a_resync_at_its_start_and_at_its_end(cluster: Cluster, serve: Serve) -> None:
    filled(cluster)
    service = serve(command=IMPATIENT)
    synced(service)
    before = listed(service)
    with Watcher(service.port) as watcher:
        assert watcher.next().json()["complete"]
        killing_at = time.monotonic()  # the service may hear of the end before kill() has returned
        cluster.server.kill()
        change(cluster)
        event = watcher.next()
        assert event.name == "resync"
        assert time.monotonic() - killing_at >= STALE_AFTER_SECS
        assert not event.json()["complete"]
        assert [source["name"] for source in event.json()["sources"]] == ["endpointslices"]
        assert listed(service) == before
        assert service.get("/ready").status == 200
        assert service.samples()['gdsvc_source_complete{source="endpointslices"}'] == 0
        cluster.server.start()
        is_complete(service)
        last = watcher.next()
        while last.name != "resync":  # changes that were told before the view was exact again
            last = watcher.next()
    assert last.json()["complete"]
    assert "sources" not in last.json()
    assert pools_of(last.json()) == truth(cluster.api.slices())


def test_etcd_and_every_server_gone_for_a_while_costs_no_pool(cluster: Cluster, serve: Serve) -> None:
    filled(cluster)
    service = serve()
    synced(service)
    before = listed(service)
    cluster.etcd.kill()
    with Watcher(service.port) as watcher:
        assert watcher.next().name == "resync"
        cluster.server.kill()
        assert not watcher.comments_within(2.0)  # no keep-alive yet, and nothing else either
        assert not watcher.events
        assert listed(service) == before
        cluster.etcd.start()
        cluster.server.start()
        change(cluster)
        equals_truth(service, cluster)
        assert counted([watcher.next() for _ in range(sum(CHANGES.values()))]) == CHANGES
    assert service.complete()


def test_a_service_that_starts_while_the_server_is_away_is_not_ready_until_it_is_back(
    cluster: Cluster, serve: Serve
) -> None:
    filled(cluster)
    cluster.server.kill()
    service = serve()
    reply = service.get("/ready")
    assert reply.status == 503
    assert service.get("/pools").status == 503
    cluster.server.start()
    synced(service)
    equals_truth(service, cluster)
