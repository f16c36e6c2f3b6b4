"""Prometheus' HTTP service discovery: what the lists hold, as targets to scrape with labels to keep or drop.

Decides addresses, labels and when to refuse: Prometheus goes on scraping what it has when it is refused, and drops
whatever a short list leaves out. The format: https://prometheus.io/docs/prometheus/latest/http_sd/.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from gdsvc import model
from gdsvc.asgi.paths import query_values
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope
from gdsvc.errors import Unavailable
from gdsvc.http.lists import Lists
from gdsvc.http.pools import filter_of
from gdsvc.http.problems import BadRequest
from gdsvc.model import PoolListing, PoolLocation, RouterReplica
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedDirectory, Filter
from gdsvc.pool_discovery.watch import Completeness

RETRY_SECS: Final = 5  # Prometheus comes when it refreshes; other callers keep to it
PORTS_KEPT: Final = 4  # of relays, whose lists are kept; a fleet has one
DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
PARAMETERS: Final = frozenset({"targets", "port", "incomplete"})

Kind: TypeAlias = Literal["frontends", "relays", "routers"]
Labels: TypeAlias = dict[str, str]


class TargetGroup(Struct):
    """Targets, each `host:port`, and the labels that hold for all of them."""

    targets: list[str]
    labels: Labels


class Query(Struct, frozen=True):
    """What is asked for; `port` is that of the relays, whose identities are addresses without one."""

    targets: Kind
    port: int = 0
    where: Filter = EVERYTHING
    incomplete: bool = False


_ITEMS_DECODER = msgspec.json.Decoder(list[Raw])
_LISTING_DECODER = msgspec.json.Decoder(PoolListing)
_ENCODER = msgspec.json.Encoder()

# ------------------------------------------------------------------------------------------------------ the query


def query_of(query_string: bytes) -> Query:
    """The query. What a kind of targets does not take is ignored, but must be right. Raises BadRequest."""
    values = query_values(query_string, PARAMETERS)
    incomplete = "incomplete" in values
    if incomplete and _one(values, "incomplete") != "allow":
        raise BadRequest("incomplete: expected allow, or no such parameter")
    port = _port(_one(values, "port")) if "port" in values else 0
    match _one(values, "targets"):
        case "routers":
            return Query("routers", incomplete=incomplete)
        case "frontends":
            return Query("frontends", 0, filter_of(query_string), incomplete)
        case "relays" if port:
            return Query("relays", port, filter_of(query_string), incomplete)
        case "relays":
            raise BadRequest("port: expected the port of the relays' metrics; their addresses have none")
        case _:
            raise BadRequest("targets: expected one of frontends, relays and routers")


def _one(values: Mapping[str, tuple[str, ...]], name: str) -> str:
    """The one value of a parameter, however often it is given; "" where it is absent. Raises BadRequest."""
    given = values.get(name, ("",))
    if len(set(given)) > 1:
        raise BadRequest(f"{name}: expected one value")
    return given[0]


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise BadRequest("port: expected a number from 1 to 65535")
    return int(text)


# ----------------------------------------------------------------------------------------------------- the groups


def address_of(url: str) -> tuple[str, str]:
    """Scheme and `host:port` of a bare base URL, with the scheme's own port where the URL has none."""
    scheme, _, rest = url.partition("://")
    scheme, rest = scheme.lower(), rest.rstrip("/")
    behind_host = rest.rpartition("]")[2]  # an IPv6 address has colons of its own
    return scheme, rest if ":" in behind_host else f"{rest}:{DEFAULT_PORTS[scheme]}"


def pool_labels(pool: PoolListing, complete: str) -> Labels:
    """What is known of a pool; what is not known has no label. The names behind `__meta_gdsvc_` are the list's."""
    key = pool.key
    labels = {
        "__meta_gdsvc_site_id": key.site_id,
        "__meta_gdsvc_namespace": key.namespace,
        "__meta_gdsvc_dgd_name": key.dgd_name,
        "__meta_gdsvc_pool_id": pool.id,
        "__meta_gdsvc_complete": complete,
    }
    if pool.model:
        labels["__meta_gdsvc_model"] = pool.model
    return labels | _location_labels(pool.location) if pool.location else labels


def _location_labels(location: PoolLocation) -> Labels:
    facts = {
        "__meta_gdsvc_region": location.region,
        "__meta_gdsvc_availability_zone": location.availability_zone,
        "__meta_gdsvc_cluster": location.cluster,
        "__meta_gdsvc_datacenter": location.datacenter,
    }
    return {name: fact for name, fact in facts.items() if fact}


def frontend_groups(pool: PoolListing, complete: str) -> Iterator[TargetGroup]:
    """A group for each scheme that the pool's frontends have."""
    by_scheme: dict[str, list[str]] = {}
    for scheme, address in map(address_of, pool.frontends):
        by_scheme.setdefault(scheme, []).append(address)
    for scheme, addresses in by_scheme.items():
        yield TargetGroup(addresses, pool_labels(pool, complete) | _scheme_labels(scheme))


def relay_groups(pool: PoolListing, complete: str, port: int) -> Iterator[TargetGroup]:
    """The pool's relays, where any are known."""
    addresses = [f"[{relay}]:{port}" if ":" in relay else f"{relay}:{port}" for relay in pool.relay_identities]
    if addresses:
        yield TargetGroup(addresses, pool_labels(pool, complete))


def router_group(router: RouterReplica, complete: str) -> TargetGroup:
    """One replica."""
    scheme, address = address_of(router.url)
    labels = {"__meta_gdsvc_router_id": router.id, "__meta_gdsvc_complete": complete}
    return TargetGroup([address], labels | _scheme_labels(scheme))


def _scheme_labels(scheme: str) -> Labels:
    """`__scheme__` is what Prometheus scrapes by; a job's own `scheme` holds where it is absent."""
    labels = {"__meta_gdsvc_scheme": scheme}
    return labels | {"__scheme__": scheme} if scheme == "https" else labels


Groups: TypeAlias = Callable[[bytes, str], Iterable[TargetGroup]]  # (encoded member, "true" or "false": complete)


def _listing(encoded: bytes) -> PoolListing:
    """A listing without its unknown members; in one typed pass where there are none below the top."""
    try:
        return _LISTING_DECODER.decode(encoded)
    except msgspec.ValidationError:
        return model.decode_listing(encoded)


def _of_frontends(encoded: bytes, complete: str) -> Iterable[TargetGroup]:
    return frontend_groups(_listing(encoded), complete)


def _of_relays(port: int) -> Groups:
    return lambda encoded, complete: relay_groups(_listing(encoded), complete, port)


def _of_routers(encoded: bytes, complete: str) -> Iterable[TargetGroup]:
    return (router_group(model.decode_router(encoded), complete),)


# ------------------------------------------------------------------------------------------------------- the face


class TargetLists(Lists):
    """The lists of one directory as target groups: made, kept, tagged and compressed as all lists are."""

    def __init__(self, directory: EncodedDirectory, epoch: str, executor: ThreadPoolExecutor, groups: Groups) -> None:
        super().__init__(directory, "targets", epoch, executor)
        self._groups = groups

    def _document(self, where: Filter, completeness: Completeness) -> tuple[int, Callable[[], bytes]]:
        parts = self._directory.encoded(where)
        complete = "true" if completeness is Completeness.EXACT else "false"
        return parts.size, lambda: self._write(parts.join(b"[", b"]"), complete)

    def _write(self, members: bytes, complete: str) -> bytes:
        """In many small steps, between which other threads get their turn."""
        groups = (group for raw in _ITEMS_DECODER.decode(members) for group in self._groups(bytes(raw), complete))
        return b"[" + b",".join(map(_ENCODER.encode, groups)) + b"]"


class PrometheusRoutes:
    """Handlers over the directories of pools and of router replicas; `epoch` tells this process from others."""

    def __init__(
        self, pools: EncodedDirectory, routers: EncodedDirectory, epoch: str, executor: ThreadPoolExecutor
    ) -> None:
        self._pools = pools
        self._routers = routers
        self._epoch = epoch
        self._executor = executor
        self._frontend_lists = TargetLists(pools, f"{epoch}-frontends", executor, _of_frontends)
        self._router_lists = TargetLists(routers, f"{epoch}-routers", executor, _of_routers)
        self._relay_lists: OrderedDict[int, TargetLists] = OrderedDict()  # by port; the one used last is the last

    async def targets(self, scope: Scope, receive: Receive) -> Response:
        """GET /sd/prometheus. An incomplete list is refused with 503 unless it is asked for by `incomplete=allow`."""
        del receive
        query = query_of(scope["query_string"])
        _, completeness = (self._routers if query.targets == "routers" else self._pools).view()
        if completeness is Completeness.ESTIMATED and not query.incomplete:
            reason = "the list is not complete: keep the targets you have, or ask with incomplete=allow"
            raise Unavailable(reason, RETRY_SECS)
        return await self._lists(query).respond(scope, query.where)

    def _lists(self, query: Query) -> TargetLists:
        match query.targets:
            case "frontends":
                return self._frontend_lists
            case "routers":
                return self._router_lists
            case "relays":
                return self._lists_of_relays(query.port)

    def _lists_of_relays(self, port: int) -> TargetLists:
        lists = self._relay_lists.get(port)
        if lists is None:
            lists = TargetLists(self._pools, f"{self._epoch}-relays-{port}", self._executor, _of_relays(port))
            self._relay_lists[port] = lists
            if len(self._relay_lists) > PORTS_KEPT:
                self._relay_lists.popitem(last=False)
        self._relay_lists.move_to_end(port)
        return lists
