"""What a service over a cluster lists, and waiting until it lists what the cluster holds."""

from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.imported import Pools, truth
from tests.cluster.programs import wait_until
from tests.e2e.process import Service


def listed(service: Service) -> Pools:
    """The pools of GET /pools with their relay identities; empty where it has no list yet."""
    reply = service.get("/pools")
    return pools_of(reply.json()) if reply.status == 200 else {}


def pools_of(document: Any) -> Pools:
    """The pools of what GET /pools answers, or a resync says."""
    return {
        (item["key"]["site_id"], item["key"]["namespace"], item["key"]["dgd_name"]): item["relay_identities"]
        for item in document["pools"]
    }


def synced(service: Service) -> None:
    """Until the service has its first list."""
    wait_until(lambda: service.get("/ready").status == 200, lambda: service.log)


def equals_truth(service: Service, cluster: Cluster, patience_secs: float = 30.0) -> None:
    """Until the service lists exactly what the slices of `cluster` show, by an independent reading."""
    expected = truth(cluster.api.slices())
    wait_until(lambda: listed(service) == expected, lambda: (listed(service), expected), patience_secs)


def becomes(service: Service, expected: Pools) -> None:
    """Until the service lists exactly `expected`."""
    wait_until(lambda: listed(service) == expected, lambda: (listed(service), expected, service.log))


def is_complete(service: Service, expected: bool = True) -> None:
    """Until the pool list says that it is complete, or that it is not."""
    wait_until(lambda: service.complete() == expected, lambda: service.log)


def relists(service: Service, cause: str) -> float:
    """How many whole lists it took in for that reason."""
    return service.samples().get(f'gdsvc_relists_total{{cause="{cause}"}}', 0.0)
