"""Targets for Prometheus: queries, addresses, labels, completeness; over memory stores and a directory of relays."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gdsvc import model
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Received, Scope
from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.errors import Unavailable
from gdsvc.http.lists import OFF_LOOP_FROM
from gdsvc.http.problems import BadRequest
from gdsvc.http.prometheus import PORTS_KEPT, PrometheusRoutes, Query, address_of, query_of
from gdsvc.model import Lease, PoolKey, PoolListing, PoolLocation, PoolRegistration, RouterReplica
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedDirectory, EncodedList, Filter, Source
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, EncodedEvent

STARTED_AT = "2026-01-01T00:00:00.000Z"
LEASE_SECS = 15
KEY = PoolKey("ohio", "dynamo", "mocker-1")
ID = model.pool_id(KEY)
WHERE = PoolLocation("us-east-2", "us-east-2a", "c1", "dc7")


class CountingExecutor(ThreadPoolExecutor):
    """Counts what it is given."""

    submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.submitted += 1
        return super().submit(*args, **kwargs)


class Parts:
    """The encodings of a list."""

    def __init__(self, encodings: list[bytes]) -> None:
        self._joined = b",".join(encodings)
        self.size = len(self._joined)

    def join(self, head: bytes, tail: bytes) -> bytes:
        return head + self._joined + tail


class RelayDirectory:
    """A complete directory of one pool whose relays are known."""

    def __init__(self, *relays: str) -> None:
        self._encoded = model.encode_listing(PoolListing(KEY, ID, WHERE, "m", relay_identities=relays))

    @property
    def changes(self) -> Fanout[EncodedEvent]:
        raise AssertionError("nobody watches")

    def view(self) -> tuple[int, Completeness]:
        return 1, Completeness.EXACT

    def sources(self) -> tuple[Source, ...]:
        return ()

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        return Parts([self._encoded] if where.models in (None, frozenset("m")) else [])


class Stand:
    """The routes over memory stores in which a lease has passed; `relays` instead of the store of pools."""

    def __init__(self, executor: CountingExecutor) -> None:
        self.time = float(LEASE_SECS)
        clock = LeaseClock(LEASE_SECS, lambda: self.time - LEASE_SECS)
        self.clock = clock
        self.executor = executor
        lease = Lease(5, LEASE_SECS)
        self.pools = MemoryPoolStore(lease, clock, STARTED_AT)
        self.routers = MemoryReplicaStore(lease, clock, STARTED_AT, fixed=[RouterReplica("r", "http://[::1]:9000")])
        self.complete(yes=True)
        self.routes = PrometheusRoutes(self.pools, self.routers, "epoch", executor)

    def complete(self, *, yes: bool) -> None:
        for store in (self.pools, self.routers):
            store._completeness = Completeness.EXACT if yes else Completeness.ESTIMATED

    def show(self, pools: EncodedDirectory) -> None:
        self.routes = PrometheusRoutes(pools, self.routers, "epoch", self.executor)

    async def register(self, name: str, *frontends: str, **members: Any) -> None:
        registration = PoolRegistration(PoolKey("ohio", "dynamo", name), frontends=frontends, **members)
        await self.pools.register(registration)

    async def ask(self, query: str, **headers: str) -> Response:
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return await self.routes.targets(scope(query, fields), no_body)

    async def groups(self, query: str) -> list[dict[str, Any]]:
        response = await self.ask(query)
        assert response.status == 200
        assert dict(response.headers)[b"content-type"] == b"application/json"
        groups: list[dict[str, Any]] = json.loads(response.body)
        return groups

    async def targets(self, query: str) -> list[str]:
        return [target for group in await self.groups(query) for target in group["targets"]]


async def no_body() -> Received:
    raise AssertionError("nothing is read")


def scope(query: str, headers: list[tuple[bytes, bytes]]) -> Scope:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/sd/prometheus",
        "raw_path": b"/sd/prometheus",
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }


@pytest.fixture
def stand() -> Iterator[Stand]:
    with CountingExecutor(1) as executor:
        yield Stand(executor)


# ------------------------------------------------------------------------------------------------------ the query


@pytest.mark.parametrize(
    ("query", "piece"),
    [
        (b"", "targets: expected one of"),
        (b"targets=", "targets: expected one of"),
        (b"targets=pools", "targets: expected one of"),
        (b"targets=Routers", "targets: expected one of"),
        (b"targets=routers&targets=relays", "targets: expected one value"),
        (b"targets=relays", "port: expected the port of the relays"),
        (b"targets=frontends&port=none", "port: expected"),
        (b"targets=relays&port=9100&port=9101", "port: expected one value"),
        (b"targets=routers&incomplete=yes", "incomplete: expected allow"),
        (b"targets=routers&incomplete=", "incomplete: expected allow"),
        *(
            (b"targets=relays&port=" + port, "port: expected")
            for port in (b"", b"0", b"65536", b"-1", b"%2B1", b"1.5", b"http", b"1" * 6, "\u0661".encode(), b"80%00")
        ),
    ],
)
def test_a_query_that_asks_for_nothing_there_is_is_told_what_there_is(query: bytes, piece: str) -> None:
    with pytest.raises(BadRequest, match=piece):
        query_of(query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"targets=frontends", Query("frontends")),
        (b"targets=routers&port=9100&model=m", Query("routers")),  # which routers take no more than GET /routers does
        (b"targets=relays&port=1", Query("relays", 1)),
        (b"targets=relays&port=65535&port=65535&x=y", Query("relays", 65535)),
        (b"targets=frontends&incomplete=allow", Query("frontends", incomplete=True)),
        (
            b"targets=frontends&model=a&model=b&region=eu&site_id=s",
            Query("frontends", where=Filter(frozenset("ab"), frozenset({"eu"}), frozenset("s"))),
        ),
    ],
)
def test_a_query_is_understood(query: bytes, expected: Query) -> None:
    assert query_of(query) == expected


# ------------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://10.0.0.7:8000", ("http", "10.0.0.7:8000")),
        ("http://10.0.0.7", ("http", "10.0.0.7:80")),
        ("https://a.example", ("https", "a.example:443")),
        ("HTTPS://a.example/", ("https", "a.example:443")),
        ("https://a.example:80/", ("https", "a.example:80")),
        ("http://[fd00::1]", ("http", "[fd00::1]:80")),
        ("https://[fd00::1]/", ("https", "[fd00::1]:443")),
        ("http://[::ffff:10.0.0.7]:8000/", ("http", "[::ffff:10.0.0.7]:8000")),
    ],
)
def test_an_address_is_host_and_port(url: str, expected: tuple[str, str]) -> None:
    assert model.base_url_fault(url) is None
    assert address_of(url) == expected


# --------------------------------------------------------------------------------------------------------- groups


async def test_frontends_have_the_labels_of_their_pool(stand: Stand) -> None:
    await stand.register("mocker-1", "http://10.0.0.7:8000", "http://[fd00::1]", location=WHERE, model="Qwen/Qwen3")
    assert await stand.groups("targets=frontends") == [
        {
            "targets": ["10.0.0.7:8000", "[fd00::1]:80"],
            "labels": {
                "__meta_gdsvc_site_id": "ohio",
                "__meta_gdsvc_namespace": "dynamo",
                "__meta_gdsvc_dgd_name": "mocker-1",
                "__meta_gdsvc_pool_id": ID,
                "__meta_gdsvc_model": "Qwen/Qwen3",
                "__meta_gdsvc_region": "us-east-2",
                "__meta_gdsvc_availability_zone": "us-east-2a",
                "__meta_gdsvc_cluster": "c1",
                "__meta_gdsvc_datacenter": "dc7",
                "__meta_gdsvc_complete": "true",
                "__meta_gdsvc_scheme": "http",
            },
        }
    ]


async def test_what_is_not_known_has_no_label(stand: Stand) -> None:
    await stand.register("a", "http://a", model="")
    await stand.register("b", "http://b", location=PoolLocation("eu"))
    names = [
        {name.removeprefix("__meta_gdsvc_") for name in g["labels"]} for g in await stand.groups("targets=frontends")
    ]
    known = {"site_id", "namespace", "dgd_name", "pool_id", "complete", "scheme"}
    assert names == [known, known | {"region"}]


async def test_a_pool_with_both_schemes_is_two_groups_and_https_is_what_prometheus_scrapes_by(stand: Stand) -> None:
    await stand.register("p", "https://a", "http://b", "https://c:8443")
    groups = await stand.groups("targets=frontends")
    assert [group["targets"] for group in groups] == [["a:443", "c:8443"], ["b:80"]]
    assert [group["labels"].get("__scheme__") for group in groups] == ["https", None]
    assert [group["labels"]["__meta_gdsvc_scheme"] for group in groups] == ["https", "http"]


async def test_a_pool_without_frontends_gives_no_target(stand: Stand) -> None:
    await stand.register("p")
    assert await stand.groups("targets=frontends") == []


async def test_groups_come_in_the_order_of_the_list_whatever_the_order_of_registration(stand: Stand) -> None:
    for name in ("c", "a", "b"):
        await stand.register(name, f"http://{name}-2", f"http://{name}-1")
    assert await stand.targets("targets=frontends") == ["a-2:80", "a-1:80", "b-2:80", "b-1:80", "c-2:80", "c-1:80"]


async def test_frontends_are_filtered_as_the_list_is(stand: Stand) -> None:
    await stand.register("a", "http://a", model="m1", location=PoolLocation("eu"))
    await stand.register("b", "http://b", model="m2", location=PoolLocation("us"))
    assert await stand.targets("targets=frontends&model=m1&model=m2") == ["a:80", "b:80"]
    assert await stand.targets("targets=frontends&model=m1&model=m2&region=us") == ["b:80"]
    assert await stand.targets("targets=frontends&site_id=utah") == []


async def test_members_that_we_do_not_know_are_in_nobodys_way(stand: Stand) -> None:
    body = {"key": {"site_id": "s", "namespace": "n", "dgd_name": "p"}, "frontends": ["http://a"], "x": [{"key": 1}]}
    body |= {"location": {"region": "eu", "rack": 3}, "capacity": {"gpu": "h100"}}
    await stand.pools.register(model.decode_registration(json.dumps(body).encode()))
    assert await stand.targets("targets=frontends&region=eu") == ["a:80"]


async def test_names_of_any_script_reach_prometheus_as_they_are(stand: Stand) -> None:
    await stand.register('é"\\,{}=', "http://a", model="模型\n")
    (group,) = await stand.groups("targets=frontends")
    assert group["labels"]["__meta_gdsvc_dgd_name"] == 'é"\\,{}='
    assert group["labels"]["__meta_gdsvc_model"] == "模型\n"


async def test_routers_are_targets_by_their_id(stand: Stand) -> None:
    await stand.routers.register(RouterReplica("a/b", "https://a"))
    labels = {"__meta_gdsvc_complete": "true"}
    assert await stand.groups("targets=routers&model=ignored") == [
        {
            "targets": ["a:443"],
            "labels": {"__meta_gdsvc_router_id": "a/b"}
            | labels
            | {"__meta_gdsvc_scheme": "https", "__scheme__": "https"},
        },
        {
            "targets": ["[::1]:9000"],
            "labels": {"__meta_gdsvc_router_id": "r"} | labels | {"__meta_gdsvc_scheme": "http"},
        },
    ]


async def test_relays_are_their_addresses_and_the_port_that_is_asked_for(stand: Stand) -> None:
    stand.show(RelayDirectory("10.0.0.1", "fd00::1"))
    assert await stand.targets("targets=relays&port=9100") == ["10.0.0.1:9100", "[fd00::1]:9100"]
    assert await stand.targets("targets=relays&port=9101&model=m") == ["10.0.0.1:9101", "[fd00::1]:9101"]
    assert await stand.targets("targets=relays&port=9100&model=x") == []
    (group,) = await stand.groups("targets=relays&port=9100")
    assert group["labels"]["__meta_gdsvc_pool_id"] == ID
    assert "__meta_gdsvc_scheme" not in group["labels"]


async def test_a_pool_whose_relays_are_not_known_gives_no_target(stand: Stand) -> None:
    stand.show(RelayDirectory())
    assert await stand.groups("targets=relays&port=9100") == []


# --------------------------------------------------------------------------------------------------- completeness


@pytest.mark.parametrize("query", ["targets=frontends", "targets=routers", "targets=relays&port=1"])
async def test_an_incomplete_list_is_refused_so_that_prometheus_drops_nothing(stand: Stand, query: str) -> None:
    stand.complete(yes=False)
    with pytest.raises(Unavailable, match="incomplete=allow") as refused:
        await stand.ask(query)
    assert refused.value.retry_after_secs > 0


async def test_who_allows_an_incomplete_list_gets_it_and_is_told(stand: Stand) -> None:
    await stand.register("p", "http://a")
    stand.complete(yes=False)
    for query in ("targets=frontends&incomplete=allow", "targets=routers&incomplete=allow"):
        (group,) = await stand.groups(query)
        assert group["labels"]["__meta_gdsvc_complete"] == "false"


async def test_a_lease_after_the_start_the_list_is_served(stand: Stand) -> None:
    stand.complete(yes=False)
    for beat in range(1, 10 * LEASE_SECS + 1):
        with pytest.raises(Unavailable):
            await stand.ask("targets=routers")
        stand.time = LEASE_SECS + beat / 10
        stand.clock.tick()
    assert await stand.targets("targets=routers") == ["[::1]:9000"]


# --------------------------------------------------------------------------------------------- kept, tagged, bounded


async def test_an_unchanged_list_is_made_once_and_not_sent_again(stand: Stand) -> None:
    await stand.register("p", "http://a")
    first = await stand.ask("targets=frontends")
    assert (await stand.ask("targets=frontends&incomplete=allow")).body is first.body
    etag = dict(first.headers)[b"etag"].decode()
    assert (await stand.ask("targets=frontends", if_none_match=etag)).status == 304
    await stand.register("q", "http://b")
    changed = await stand.ask("targets=frontends", if_none_match=etag)
    assert (changed.status, len(json.loads(changed.body))) == (200, 2)


async def test_tags_tell_queries_apart(stand: Stand) -> None:
    queries = ["targets=frontends", "targets=frontends&model=m", "targets=relays&port=1", "targets=relays&port=2"]
    tags = {dict((await stand.ask(query)).headers)[b"etag"] for query in [*queries, "targets=routers"]}
    assert len(tags) == 5


async def test_ports_that_callers_make_up_do_not_pile_up(stand: Stand) -> None:
    stand.show(RelayDirectory("10.0.0.1"))
    favourite = await stand.ask("targets=relays&port=9100")
    for port in range(1, 10 * PORTS_KEPT):
        await stand.ask(f"targets=relays&port={port}")
        assert (await stand.ask("targets=relays&port=9100")).body is favourite.body
    assert len(stand.routes._relay_lists) == PORTS_KEPT


async def test_a_large_list_is_made_off_the_loop(stand: Stand) -> None:
    await stand.register("p", "http://a")
    await stand.ask("targets=frontends")
    assert stand.executor.submitted == 0
    await stand.register("q", "http://b", capabilities=("x" * OFF_LOOP_FROM,))
    assert await stand.targets("targets=frontends") == ["a:80", "b:80"]
    assert stand.executor.submitted == 1
