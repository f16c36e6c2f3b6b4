"""Router replicas as imported slices show them: the Ready endpoints of the router's Service in every cluster. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from gdsvc.backends.mcs.endpoints import SliceView, Target, port_named, url
from gdsvc.backends.mcs.naming import Reason, ServiceKey
from gdsvc.backends.mcs.remarks import Remark, about
from gdsvc.model import RouterReplica, text_fault


class RouterService(Struct, frozen=True):
    """The router's Service, of this name in every cluster that exports it, and the name of its TCP port."""

    namespace: str
    name: str
    port_name: str

    def covers(self, service: ServiceKey) -> bool:
        """Whether replicas are behind `service`."""
        return service.name == self.name and service.namespace == self.namespace


class RouterTable:
    """The replicas of all clusters. `update` takes one cluster's Service, whose views have changed."""

    def __init__(self, router: RouterService) -> None:
        self._router = router
        self._clusters: dict[str, tuple[RouterReplica, ...]] = {}

    def update(self, service: ServiceKey, views: Iterable[SliceView]) -> list[Remark]:
        """Takes in what the slices of `service` say now; any other Service than the router's changes nothing."""
        if not self._router.covers(service):
            return []
        replicas, remarks = router_replicas(service, views, self._router.port_name)
        if replicas:
            self._clusters[service.cluster] = replicas
        else:
            self._clusters.pop(service.cluster, None)
        return remarks

    def replicas(self) -> dict[str, RouterReplica]:
        """Every replica by its id, sorted; where clusters give one id to two, the first of them by URL."""
        found: dict[str, RouterReplica] = {}
        for replica in sorted(replica for replicas in self._clusters.values() for replica in replicas):
            found.setdefault(replica.id, replica)
        return found


def router_replicas(
    service: ServiceKey, views: Iterable[SliceView], port_name: str
) -> tuple[tuple[RouterReplica, ...], list[Remark]]:
    """The Ready endpoints of one cluster's Service, one replica a pod, sorted; and what there is to say of the slices.

    A slice without the named port gives nothing and is remarked on.
    """
    remarks: list[Remark] = []
    found: dict[str, tuple[bool, str, int]] = {}  # by id, the best: IPv4 before IPv6, then the first by address
    for view in views:
        port = port_named(view, port_name)
        if port is None:
            remarks.append(about(service, Reason.NO_PORT, view.name))
            continue
        for target in view.targets:
            if target.ready:
                address = target.address
                name, candidate = replica_id(service, target), (":" in address, address, port)
                found[name] = min(found.get(name, candidate), candidate)
    replicas = (RouterReplica(name, url(address, port)) for name, (_, address, port) in found.items())
    return tuple(sorted(replicas)), remarks


def replica_id(service: ServiceKey, target: Target) -> str:
    """`<cluster>/<namespace>/<pod>`, or the address where no pod is named or the name would be too long for an id."""
    if target.pod is not None:
        pod = target.pod if "/" in target.pod else f"{service.namespace}/{target.pod}"
        name = f"{service.cluster}/{pod}"
        if text_fault(name) is None:
            return name
    return target.address
