"""Two replicas over one API server that throttles, is slow, cuts connections, is gone and comes back, all in a row."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gdsvc import model
from gdsvc.backends.kubernetes.leases import MEMBER_LABEL
from gdsvc.model import PoolKey
from tests.cluster.cluster import Cluster
from tests.cluster.faulty_api import FaultyApi, faulty_api
from tests.cluster.test_leases import FLAGS, leases_of
from tests.cluster.watching import synced
from tests.e2e import store_faults
from tests.e2e.process import Serve, Service, Tell
from tests.e2e.store_faults import Write

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

SLOW, CUT = 0.1, 0.1  # shares of the writes, while there is trouble
POOLS = {model.pool_id(PoolKey("ohio", "dynamo", name)): name for name in (*store_faults.ALIVE, *store_faults.QUIET)}


class LeaseFaults:
    """What the proxy does before the API server of `cluster`."""

    def __init__(self, proxy: FaultyApi, cluster: Cluster) -> None:
        self._proxy = proxy
        self._cluster = cluster

    def trouble(self, throttled: float) -> None:
        self._proxy.throttled, self._proxy.slow, self._proxy.cut = throttled, SLOW, CUT

    def leave(self) -> None:
        self._proxy.leave()

    def come_back(self) -> None:
        self._proxy.throttled = self._proxy.slow = self._proxy.cut = 0.0
        self._proxy.gone = False

    def writes(self) -> Sequence[Write]:
        return [write._replace(pool=POOLS[write.pool]) for write in self._proxy.writes if write.pool in POOLS]

    def held(self) -> Mapping[str, str]:
        leases = [
            lease for lease in leases_of(self._cluster.api) if lease["metadata"]["labels"][MEMBER_LABEL] == "pool"
        ]
        return {POOLS[lease["metadata"]["name"]]: lease["spec"]["renewTime"] for lease in leases}


def test_trouble_an_outage_and_its_end_make_nothing_flap_and_no_answered_heartbeat_is_lost(
    cluster: Cluster, serve: Serve, tmp_path: Path, tell: Tell
) -> None:
    with faulty_api(cluster.server, tmp_path) as (proxy, kubeconfig):

        def start() -> Service:
            environ = {"KUBECONFIG": str(kubeconfig)}
            service = serve(*FLAGS[:6], *store_faults.FLAGS, command=store_faults.COMMAND, environ=environ)
            synced(service)
            return service

        store_faults.run(start, LeaseFaults(proxy, cluster), tell)
