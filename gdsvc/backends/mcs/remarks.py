"""What is worth telling the operator about slices, each thing once. Decides whether it was said, not how it is said."""

from msgspec import Struct

from gdsvc.backends.mcs.naming import Reason, ServiceKey, manager_of
from gdsvc.kube.objects import EndpointSlice

LIMIT = (
    1000  # different remarks in the life of a process: names come from outside, memory and log do not grow with them
)

QUIET = frozenset({Reason.OWN, Reason.OTHER_STYLE})  # every cluster is full of these


class Remark(Struct, frozen=True, gc=False):
    """`reason` holds of `subject`: a Service, or the controller that writes such slices; `example` is one slice."""

    reason: Reason
    subject: str
    example: str

    def __str__(self) -> str:
        return f"EndpointSlice {self.example} ({self.subject}): {self.reason.value}"


class Once:
    """Tells which remarks are new. One is the same as another if reason and subject are; examples differ."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._said: set[tuple[Reason, str]] = set()
        self._limit = limit

    def first(self, remark: Remark) -> bool:
        """Whether to say `remark`: not if it was said before, nor once the limit is reached."""
        what = remark.reason, remark.subject
        if what in self._said or len(self._said) >= self._limit:
            return False
        self._said.add(what)
        return True


def skipped(endpoint_slice: EndpointSlice, reason: Reason) -> Remark | None:
    """The remark on a slice that is not read: one a controller, since it writes all its slices in one way."""
    if reason in QUIET:
        return None
    return Remark(reason, manager_of(endpoint_slice) or "no controller named", slice_name(endpoint_slice))


def about(service: ServiceKey, reason: Reason, example: str) -> Remark:
    """The remark on a Service whose slices are read; `example` is the name of one of them."""
    return Remark(
        reason, "/".join((service.cluster, service.namespace, service.name)), f"{service.namespace}/{example}"
    )


def slice_name(endpoint_slice: EndpointSlice) -> str:
    """`namespace/name`."""
    return f"{endpoint_slice.metadata.namespace}/{endpoint_slice.metadata.name}"
