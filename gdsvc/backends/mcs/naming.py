"""Which Service of which cluster an imported EndpointSlice belongs to, in the style of the mode.

Reads labels, annotations and the slice's name; never its endpoints. A slice that is not read has a Reason, as data:
what is said of it, and how often, is decided by remarks.py.
"""

import re
from enum import Enum
from typing import assert_never

from msgspec import Struct

from gdsvc.kube.objects import EndpointSlice
from gdsvc.model import text_fault

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MCS_SERVICE_NAME = "multicluster.kubernetes.io/service-name"
MCS_SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
KARMADA_PROVISION_CLUSTER = "endpointslice.karmada.io/provision-cluster"  # annotation of dispatched slices
KARMADA_WORK_NAMESPACE = "work.karmada.io/namespace"  # annotation: the execution space that the slice went through

OWN_CONTROLLER = "endpointslice-controller.k8s.io"
KARMADA_IMPORT = "endpointslice-controller.karmada.io"  # ServiceExport and ServiceImport
KARMADA_DISPATCH = "endpointslice-dispatch-controller.karmada.io"  # MultiClusterService

EXECUTION_SPACE = "karmada-es-"  # and the name of the cluster
DERIVED = "derived-"  # before the name of an imported Service
IMPORTED = "imported-"  # before the cluster in the name of an imported slice

LONGEST_LABEL = 63  # characters of a label's value, and of a Service's name
LONGEST_KARMADA_SERVICE = LONGEST_LABEL - len(DERIVED)  # 55

_GENERATED = re.compile(r"[a-z0-9]{5}")  # what Kubernetes puts behind a Service's name to name a slice


class Mode(Enum):
    """Which implementation's names are read: `--pool-discovery`."""

    KARMADA = "karmada"
    MCS = "mcs"


class Reason(Enum):
    """Why a slice is not read, or gives less than it seems to; the value finishes a sentence about it."""

    OWN = "it is of the cluster's own Service, not imported"
    OTHER_STYLE = "it is not of the style that this mode reads"
    NO_SERVICE_NAME = "it names a source cluster but no Service of it, as global services do; export the Service"
    NO_SOURCE_CLUSTER = "nothing on it names the cluster that it comes from"
    NOT_DERIVED = "its Service is not named as imported ones are"
    BAD_NAME = "its cluster, namespace or Service has a name that no pool can have"
    SERVICE_IP = "it holds a service IP and no pods, so its relay identities will match no relay"
    NO_PORT = "none of its TCP ports has the name asked for"


class ServiceKey(Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """One exported Service: the cluster that exports it, its namespace, its own name."""

    cluster: str
    namespace: str
    name: str


def place(endpoint_slice: EndpointSlice, mode: Mode) -> ServiceKey | Reason:
    """The Service that `endpoint_slice` belongs to, or why it is skipped. Never raises."""
    match mode:
        case Mode.MCS:
            found = _standard(endpoint_slice)
        case Mode.KARMADA:
            found = _karmada(endpoint_slice)
        case _:
            assert_never(mode)
    if isinstance(found, Reason):
        return found
    cluster, service = found
    namespace = endpoint_slice.metadata.namespace or ""
    if text_fault(cluster) or text_fault(namespace) or text_fault(service):
        return Reason.BAD_NAME
    return ServiceKey(cluster, namespace, service)


def manager_of(endpoint_slice: EndpointSlice) -> str:
    """The controller that says it writes the slice; empty where none does."""
    return _label(endpoint_slice, MANAGED_BY)


def service_name_fault(service: str, mode: Mode) -> str | None:
    """Why no slice of a Service named `service` can ever be imported in this mode; None where one can."""
    longest = LONGEST_KARMADA_SERVICE if mode is Mode.KARMADA else LONGEST_LABEL
    if len(service) <= longest:
        return None
    why = f": {DERIVED} and the name must fit {LONGEST_LABEL}" if mode is Mode.KARMADA else ""
    return f"expected a Service name of at most {longest} characters, got {len(service)}{why}"


def _standard(endpoint_slice: EndpointSlice) -> tuple[str, str] | Reason:
    """Cluster and Service by the labels of the MCS API."""
    cluster, service = _label(endpoint_slice, MCS_SOURCE_CLUSTER), _label(endpoint_slice, MCS_SERVICE_NAME)
    if manager_of(endpoint_slice) == OWN_CONTROLLER:  # which copies a Service's labels, so it may carry these
        return Reason.OWN
    if cluster and service:
        return cluster, service
    if cluster:
        return Reason.NO_SERVICE_NAME
    return Reason.NO_SOURCE_CLUSTER if service else Reason.OTHER_STYLE


def _karmada(endpoint_slice: EndpointSlice) -> tuple[str, str] | Reason:
    """Cluster and Service in whichever of Karmada's two styles wrote the slice."""
    service = _label(endpoint_slice, SERVICE_NAME)
    manager = manager_of(endpoint_slice)
    if manager == KARMADA_DISPATCH:
        return _provided(service, _annotation(endpoint_slice, KARMADA_PROVISION_CLUSTER))
    if manager == KARMADA_IMPORT:
        return _derived(service, endpoint_slice)
    return Reason.OWN if manager == OWN_CONTROLLER else Reason.OTHER_STYLE


def _provided(service: str, cluster: str) -> tuple[str, str] | Reason:
    if not service:
        return Reason.NO_SERVICE_NAME
    return (cluster, service) if cluster else Reason.NO_SOURCE_CLUSTER


def _derived(label: str, endpoint_slice: EndpointSlice) -> tuple[str, str] | Reason:
    service = label.removeprefix(DERIVED)
    if service == label or not service:
        return Reason.NOT_DERIVED
    space = _annotation(endpoint_slice, KARMADA_WORK_NAMESPACE)
    announced = space.removeprefix(EXECUTION_SPACE) if space.startswith(EXECUTION_SPACE) else ""
    cluster = exporter_in_name(endpoint_slice.metadata.name or "", service, announced) or announced
    return (cluster, service) if cluster else Reason.NO_SOURCE_CLUSTER


def exporter_in_name(slice_name: str, service: str, announced: str = "") -> str | None:
    """The cluster in `imported-<cluster>-<service>-…`; None where the name is not so made.

    In a member cluster Karmada rewrites the annotation that named the source, so only the name is left, and where the
    two differ the name wins. A cluster's name may hold `-` and even the Service's name, which leaves several ways to
    read it. What Kubernetes generates ends in five characters without a `-`: then the last way is right. For names
    made by hand, the way that agrees with `announced`, the annotation's cluster, is taken, else the last.
    """
    if not slice_name.startswith(IMPORTED):
        return None
    rest = slice_name.removeprefix(IMPORTED)
    last = rest.rfind(f"-{service}-")
    if last > 0 and _GENERATED.fullmatch(rest, last + len(service) + 2):
        return rest[:last]
    after = rest[len(announced) :]
    if announced and rest.startswith(announced) and f"{after}-".startswith(f"-{service}-"):
        return announced
    if last > 0:
        return rest[:last]
    whole = rest.removesuffix(f"-{service}")  # a slice that has the very name of its Service
    return whole if whole and whole != rest else None


def _label(endpoint_slice: EndpointSlice, name: str) -> str:
    """A label's value; empty where it is absent, which means the same here."""
    labels = endpoint_slice.metadata.labels
    return labels.get(name, "") if labels else ""


def _annotation(endpoint_slice: EndpointSlice, name: str) -> str:
    annotations = endpoint_slice.metadata.annotations
    return annotations.get(name, "") if annotations else ""
