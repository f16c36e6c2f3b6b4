"""EndpointSlices for the tests, decoded from JSON as the watch layer decodes them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gdsvc.backends.mcs.naming import ServiceKey
from gdsvc.kube import objects
from gdsvc.kube.objects import EndpointSlice

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MCS_SERVICE = "multicluster.kubernetes.io/service-name"
MCS_CLUSTER = "multicluster.kubernetes.io/source-cluster"
WORK_NAMESPACE = "work.karmada.io/namespace"
PROVISION_CLUSTER = "endpointslice.karmada.io/provision-cluster"

KARMADA_IMPORT = "endpointslice-controller.karmada.io"
KARMADA_DISPATCH = "endpointslice-dispatch-controller.karmada.io"
OWN = "endpointslice-controller.k8s.io"

PORT = {"name": "http", "port": 8000, "protocol": "TCP"}


def decoded(document: Any) -> EndpointSlice:
    return objects.ENDPOINT_SLICE.decode(json.dumps(document))


def endpoint(
    *addresses: str,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    pod: str | None = None,
) -> dict[str, Any]:
    """An endpoint; a condition that is None is not written at all."""
    states = {"ready": ready, "serving": serving, "terminating": terminating}
    document: dict[str, Any] = {
        "addresses": addresses,
        "conditions": {name: state for name, state in states.items() if state is not None},
    }
    return document | ({"targetRef": {"kind": "Pod", "name": pod, "namespace": "relay"}} if pod else {})


def made(
    name: str = "s",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    endpoints: Sequence[Any] | None = (),
    ports: Sequence[Any] | None = (PORT,),
    namespace: str = "relay",
    family: str = "IPv4",
) -> EndpointSlice:
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return decoded({"metadata": metadata, "addressType": family, "endpoints": endpoints, "ports": ports})


def standard(
    name: str = "s", service: str = "pool-gw", cluster: str = "east", manager: str = "example.test", **members: Any
) -> EndpointSlice:
    """An imported slice by the labels of the MCS API."""
    labels = {MCS_SERVICE: service, MCS_CLUSTER: cluster, MANAGED_BY: manager}
    return made(name, labels=labels, **members)


def holding(name: str, *addresses: str, service: str = "pool-gw", **members: Any) -> EndpointSlice:
    """A standard slice whose endpoints, one an address, are Ready."""
    return standard(name, service, endpoints=[endpoint(address) for address in addresses], **members)


def karmada_import(name: str, label: str, announced: str | None, **members: Any) -> EndpointSlice:
    """A slice of a ServiceImport; `announced` is the cluster in the annotation."""
    annotations = {WORK_NAMESPACE: f"karmada-es-{announced}"} if announced is not None else None
    return made(name, labels={SERVICE_NAME: label, MANAGED_BY: KARMADA_IMPORT}, annotations=annotations, **members)


def dispatched(service: str, cluster: str | None, **members: Any) -> EndpointSlice:
    """A slice of a MultiClusterService."""
    annotations = {PROVISION_CLUSTER: cluster, WORK_NAMESPACE: "karmada-es-importer"} if cluster else None
    return made(
        f"{cluster}-{service}-7k2fx",
        labels={SERVICE_NAME: service, MANAGED_BY: KARMADA_DISPATCH},
        annotations=annotations,
        **members,
    )


def service_of(name: str = "pool-gw", cluster: str = "east") -> ServiceKey:
    return ServiceKey(cluster, "relay", name)
