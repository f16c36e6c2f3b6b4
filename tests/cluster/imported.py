"""EndpointSlices as importing controllers write them, and a slow and obvious reading of what all of them together give.

The reading is for the standard style and the default suffix alone; it shares no line with the service.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from tests.cluster.api import Document

NAMESPACE = "relay"
RELAYS = "-pool-relay"

Pools = dict[tuple[str, str, str], list[str]]  # site, namespace and DGD name: the relay identities


def endpoint(address: str, **conditions: bool) -> Document:
    """Ready unless `conditions` say otherwise."""
    return {"addresses": [address], "conditions": {"ready": True, **conditions}}


def _slice(name: str, endpoints: Sequence[Document | str], family: str, port: str, **metadata: Any) -> Document:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "addressType": family,
        "endpoints": [endpoint(each) if isinstance(each, str) else each for each in endpoints],
        "ports": [{"name": port, "port": 8000, "protocol": "TCP"}],
    }


def standard(
    name: str, service: str, *endpoints: Document | str, cluster: str = "east", family: str = "IPv4", port: str = "http"
) -> Document:
    """A slice of the MCS API's labels."""
    labels = {
        "multicluster.kubernetes.io/service-name": service,
        "multicluster.kubernetes.io/source-cluster": cluster,
        "endpointslice.kubernetes.io/managed-by": "importer.example.test",
    }
    return _slice(name, endpoints, family, port, labels=labels)


def karmada(service: str, *endpoints: Document | str, cluster: str = "east", family: str = "IPv4") -> Document:
    """A slice of a ServiceImport, as it is in the control plane of Karmada."""
    labels = {
        "kubernetes.io/service-name": f"derived-{service}",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io",
    }
    annotations = {"work.karmada.io/namespace": f"karmada-es-{cluster}"}
    name = f"imported-{cluster}-{service}-{'x7k2f' if family == 'IPv4' else 'q9d4m'}"
    return _slice(name, endpoints, family, "http", labels=labels, annotations=annotations)


def dispatched(service: str, *endpoints: Document | str, cluster: str = "east") -> Document:
    """A slice of a MultiClusterService."""
    labels = {
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
    }
    annotations = {"endpointslice.karmada.io/provision-cluster": cluster}
    return _slice(f"{cluster}-{service}-x7k2f", endpoints, "IPv4", "http", labels=labels, annotations=annotations)


def relays(number: int, *addresses: str) -> Document:
    """The one slice of the pool `pool-<number>`, by default with one Ready PoolRelay."""
    name = f"pool-{number:05}"
    return standard(f"{name}-s", f"{name}{RELAYS}", *(addresses or (f"10.{number >> 8 & 255}.{number & 255}.1",)))


def lease(name: str) -> Document:
    """An object of another kind: it moves the revision, and no slice."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def truth(slices: Iterable[Document]) -> Pools:
    """The pools that these slices show, each with the sorted addresses of its Ready PoolRelays."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for document in slices:
        labels = document["metadata"]["labels"]
        service = labels["multicluster.kubernetes.io/service-name"]
        if not service.endswith(RELAYS):
            continue
        site = labels["multicluster.kubernetes.io/source-cluster"]
        pool = (site, document["metadata"]["namespace"], service.removesuffix(RELAYS))
        for each in document["endpoints"]:
            if each["conditions"]["ready"]:
                found.setdefault(pool, set()).update(str(ipaddress.ip_address(text)) for text in each["addresses"])
    return {pool: sorted(addresses) for pool, addresses in sorted(found.items())}
