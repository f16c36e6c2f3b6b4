"""What one imported slice says: which endpoints are Ready, their addresses as canonical text, their ports and URLs.

Pure functions. Which slices belong together is decided by naming.py, what they give together by slices.py and pools.py.
"""

import socket
from collections import deque
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv6Address
from itertools import chain, repeat

from msgspec import Struct

from gdsvc.backends.mcs.naming import manager_of
from gdsvc.kube import objects
from gdsvc.kube.objects import Endpoint, EndpointSlice
from gdsvc.model import base_url_fault

SUBMARINER = "lighthouse-agent.submariner.io"  # the one implementation known to export a service IP instead of pods
SUBMARINER_HEADLESS = "lighthouse.submariner.io/is-headless"  # label: "false" where it does

TARGETS_TOLD = 8  # a Service may have thousands


class Target(Struct, frozen=True, gc=False):
    """One endpoint: its address and its pod, where one is named. There may be a million: what is rare comes last.

    `pod` is a name as decoded, behind `namespace/` only where that is not the slice's own. `terminating` is for whoever
    asks why: what terminates is not `ready`. `others`: interchangeable with `address` and of its family.
    """

    address: str
    ready: bool
    pod: str | None = None
    terminating: bool = False
    others: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of them, in their order."""
        return (self.address, *self.others)


class Port(Struct, frozen=True, gc=False):
    """A TCP port of all targets of a slice."""

    name: str
    number: int


class SliceView(Struct, frozen=True, gc=False):
    """What is kept of a slice. `service_ip`: its one target stands for pods that are not named.

    `several`: some target has others than its first address.
    """

    name: str
    targets: tuple[Target, ...] = ()
    ports: tuple[Port, ...] = ()
    service_ip: bool = False
    several: bool = False


def view_of(endpoint_slice: EndpointSlice) -> SliceView:
    """What `endpoint_slice` says. An endpoint without an address that can be read is none. Never raises."""
    namespace, endpoints = endpoint_slice.metadata.namespace, endpoint_slice.endpoints or ()
    only = None if endpoint_slice.address_type == "FQDN" else _only_ipv4(endpoints)
    if only is not None:
        targets = [_target(endpoint, address, namespace) for endpoint, address in zip(endpoints, only, strict=True)]
    else:
        read = zip(endpoints, _addresses_of(endpoint_slice), strict=True)
        targets = [_target(endpoint, found[0], namespace, found[1:]) for endpoint, found in read if found]
    return SliceView(
        endpoint_slice.metadata.name,
        tuple(targets),
        tuple(_tcp_ports(endpoint_slice.ports or ())),
        holds_service_ip(endpoint_slice),
        only is None and any(target.others for target in targets),
    )


def holds_service_ip(endpoint_slice: EndpointSlice) -> bool:
    """Whether the slice's one endpoint is a Service's IP; other implementations leave pods unnamed too."""
    labels, endpoints = endpoint_slice.metadata.labels or {}, endpoint_slice.endpoints or ()
    if manager_of(endpoint_slice) != SUBMARINER or len(endpoints) != 1:
        return False
    headless, only = labels.get(SUBMARINER_HEADLESS), endpoints[0]
    unnamed = only.target_ref is None and not only.hostname  # its older versions gave a pod one, if nothing else
    return headless == "false" or (headless is None and unnamed)


def conditions_told(view: SliceView) -> str:
    """One phrase about the slice and the conditions of its targets, the first TARGETS_TOLD of them by address."""
    states = sorted((target.address, _state_of(target)) for target in view.targets)
    told = [f"{address} {state}" for address, state in states[:TARGETS_TOLD]]
    if len(states) > TARGETS_TOLD:
        told.append(f"{len(states) - TARGETS_TOLD} more")
    return f"{view.name}: {', '.join(told) or 'no endpoints'}"


def ip_address(text: str) -> str | None:
    """The canonical text of an IP address, one that maps an IPv4 address as that; None where `text` is none.

    Scoped addresses are none: their scope means nothing on another machine.
    """
    if ":" not in text:  # of four decimal numbers, which is canonical as it stands
        try:
            socket.inet_pton(socket.AF_INET, text)  # an eighth of the time of ipaddress
        except (OSError, ValueError):  # ValueError: it holds NUL, or a lone surrogate
            return None
        return text
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return None
    if address.scope_id is not None:
        return None
    return str(address.ipv4_mapped or address)


def host_name(text: str) -> str | None:
    """A host's name in small letters; None where a URL cannot hold it."""
    return text.lower() if ":" not in text and base_url_fault(f"http://{text}") is None else None


def url(address: str, port: int) -> str:
    """The bare base URL of an address in canonical text."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def port_named(view: SliceView, name: str) -> int | None:
    """The number of the TCP port of that name."""
    return next((port.number for port in view.ports if port.name == name), None)


def port_named_or_only(view: SliceView, name: str) -> int | None:
    """The number of the TCP port of that name, else of the only one there is."""
    named = port_named(view, name)
    if named is None and len(view.ports) == 1:
        return view.ports[0].number
    return named


def ready_addresses(views: Iterable[SliceView]) -> tuple[str, ...]:
    """Every address of every Ready target, sorted. A target is Ready if any of the slices says so."""
    found: list[str] = []
    for view in views:
        found += [target.address for target in view.targets if target.ready]
        if view.several:
            found += chain.from_iterable(target.others for target in view.targets if target.ready)
    return tuple(sorted(dict.fromkeys(found)))  # which keeps their order: parts of it may be sorted already


def ready_urls(views: Iterable[SliceView], port_name: str) -> tuple[str, ...]:
    """The URL of every Ready target, sorted: at its first address, at the port named or the only port of its slice."""
    found: set[str] = set()
    for view in views:
        port = port_named_or_only(view, port_name)
        if port is not None:
            found.update(url(target.address, port) for target in view.targets if target.ready)
    return tuple(sorted(found))


def _only_ipv4(endpoints: Iterable[Endpoint]) -> list[str] | None:
    """The address of each, where each has just one, of IPv4, as controllers write them: canonical as it stands."""
    try:
        texts = [text for endpoint in endpoints for (text,) in (endpoint.addresses or [],)]
        deque(map(socket.inet_pton, repeat(socket.AF_INET), texts), maxlen=0)  # no turn of the interpreter for each
    except (OSError, ValueError):  # ValueError: none or several, or a text as in ip_address
        return None
    return texts


def _addresses_of(endpoint_slice: EndpointSlice) -> list[tuple[str, ...]]:
    """Of each endpoint: canonical, each once, in their order, less those that cannot be read."""
    canonical = host_name if endpoint_slice.address_type == "FQDN" else ip_address
    return [
        tuple(dict.fromkeys(known for text in endpoint.addresses or () if (known := canonical(text))))
        for endpoint in endpoint_slice.endpoints or ()
    ]


def _state_of(target: Target) -> str:
    if target.ready:
        return "Ready"
    return "terminating" if target.terminating else "not Ready"


def _target(endpoint: Endpoint, address: str, namespace: str, others: tuple[str, ...] = ()) -> Target:
    """Ready unless said not to be, and never while terminating; `serving` plays no part.

    Runs for every endpoint of every cluster, so it asks no other function.
    """
    state, reference = endpoint.conditions, endpoint.target_ref
    terminating = state is not None and state.terminating is True
    ready = state is None or (state.ready is not False and not terminating)
    if reference is None or reference.kind != "Pod" or not reference.name:
        pod = None
    elif reference.namespace == namespace or not reference.namespace:
        pod = reference.name
    else:
        pod = f"{reference.namespace}/{reference.name}"
    return Target(address, ready, pod, terminating, others)


def _tcp_ports(ports: Iterable[objects.Port]) -> Iterable[Port]:
    for port in ports:
        if port.protocol in (None, "", "TCP") and port.port is not None and 1 <= port.port <= 65535:
            yield Port(port.name or "", port.port)
