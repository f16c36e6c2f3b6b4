"""A fleet behind a balancer, of whose replicas one is killed and started again all the time, over Leases."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.e2e.process import Tell
from tests.fleets.fleet import Store, endure, fleet

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400), pytest.mark.loops("uvloop")]

FLAGS = ("--registration-storage", "kubernetes", "--kubernetes-namespace", "gdsvc")
# A third of those over a table: each heartbeat is a write to etcd, of which the watches tell every replica.
POOLS = 100
LOOKS_EVERY_SECS = 1.0  # that its watch still tells


async def test_a_fleet_is_listed_truly_while_its_replicas_are_killed(
    tmp_path: Path, cluster: Cluster, tell: Tell
) -> None:
    environ = {"KUBECONFIG": str(cluster.kubeconfig)}
    store = Store(POOLS, FLAGS, environ, LOOKS_EVERY_SECS, b'"kubernetes.leases_not_seen"', b'"kubernetes.leases_seen"')
    async with fleet(tmp_path, store) as made:
        await endure(made)
    tell(made.told)
    assert made.judge.faults == []
    assert made.lacking() == {}
