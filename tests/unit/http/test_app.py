"""The ASGI callable with all its routes, over memory stores: one request in, one response out, no sockets."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import Struct

from gdsvc import metrics
from gdsvc._meter import RequestMeter
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Received, Scope, Sent
from gdsvc.backends.memory import MemoryPoolStore, MemoryReplicaStore
from gdsvc.errors import Unavailable
from gdsvc.http.app import LARGE_BYTES, App, Route, RouteTable
from gdsvc.http.health import HealthRoutes
from gdsvc.http.lists import Lists
from gdsvc.http.openapi import OpenApiRoute
from gdsvc.http.pools import PoolRoutes, removal
from gdsvc.http.prometheus import PrometheusRoutes
from gdsvc.http.routers import RouterRoutes
from gdsvc.http.routes import PATHS, route_table
from gdsvc.http.watch import Feed, Watchers
from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica
from gdsvc.pool_discovery.lease_clock import LeaseClock

STARTED_AT = "2026-01-01T00:00:00.000Z"
LIMIT = 4096
KEY = {"site_id": "s", "namespace": "n", "dgd_name": "p"}
BODY = json.dumps({"key": KEY, "model": "m"}).encode()
LEASE = {"heartbeat_interval_secs": 5, "lease_duration_secs": 15}


class Answer(Struct):
    """What a caller saw."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The message of a problem body, whose shape is checked."""
        (name, problem), *others = self.json.items()
        assert (name, others) == ("error", [])
        assert problem.keys() <= {"message", "field"}
        assert isinstance(problem["message"], str)
        return problem["message"]


class Service:
    """The whole HTTP face over memory stores with a lease of 15 s."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.time = 0.0
        self.reasons: tuple[str, ...] = ()
        clock = LeaseClock(15, lambda: self.time)
        lease = Lease(5, 15)
        self.pools = MemoryPoolStore(lease, clock, STARTED_AT, max_pools=3)
        self.routers = MemoryReplicaStore(lease, clock, STARTED_AT, fixed=[RouterReplica("fixed", "http://r")])
        self.meter = RequestMeter([*PATHS, "other"])
        pool_lists = Lists(self.pools, "pools", "epoch", executor)
        watchers = Watchers(2)
        pool_feed = Feed(self.pools.changes, pool_lists, removal, watchers)
        self.pool_routes = PoolRoutes(self.pools, self.pools, pool_lists, pool_feed, Bodies(LIMIT))
        health = HealthRoutes(
            "1.2.3",
            STARTED_AT,
            lambda: self.reasons,
            {"pools": self.pools, "routers": self.routers},
            metrics.registry([], self.meter),
        )
        router_lists = Lists(self.routers, "routers", "epoch", executor)
        router_feed = Feed(self.routers.changes, router_lists, removal, watchers)
        router_routes = RouterRoutes(self.routers, router_lists, router_feed, Bodies(LIMIT))
        prometheus = PrometheusRoutes(self.pools, self.routers, "epoch", executor)
        self.table = route_table(self.pool_routes, router_routes, health, OpenApiRoute("1.2.3"), prometheus)
        self.app = App(self.table, self.meter)

    async def request(self, method: str, target: str, body: bytes | None = None, **others: Any) -> Answer:
        """One request."""
        return await request(self.app, method, target, body, **others)


async def request(
    app: App,
    method: str,
    target: str,
    body: bytes | None = None,
    *,
    headers: dict[str, str] | None = None,
    messages: list[Received] | None = None,
) -> Answer:
    """One request; `messages` instead of what a body of known length gives."""
    sent: list[Sent] = []
    fields = {"host": "a"} | ({} if body is None else {"content-length": str(len(body))}) | (headers or {})
    waiting: list[Received] = messages or [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive() -> Received:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Sent) -> None:
        sent.append(message)

    raw_path, _, query = target.encode().partition(b"?")
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw_path.decode(),
        "raw_path": raw_path,
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in fields.items() if value],
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }
    await app(scope, receive, send)
    start, *rest = sent
    assert start["type"] == "http.response.start"
    names = [name.decode() for name, _ in start["headers"]]
    assert len(names) == len(set(names))
    answered = b"".join(message["body"] for message in rest if message["type"] == "http.response.body")
    return Answer(start["status"], {n.decode(): v.decode() for n, v in start["headers"]}, answered)


@pytest.fixture
def service() -> Iterator[Service]:
    with ThreadPoolExecutor(1) as executor:
        yield Service(executor)


# ------------------------------------------------------------------------------------------------- registrations


async def test_a_registration_is_granted_a_lease_and_listed(service: Service) -> None:
    for _ in range(3):
        assert (await service.request("POST", "/pools", BODY)).json == LEASE
    listed = (await service.request("GET", "/pools")).json
    assert listed["complete"] is False
    assert [pool["key"] for pool in listed["pools"]] == [KEY]
    assert service.pools.index.renewed == 2


@pytest.mark.parametrize(
    ("body", "status", "field", "piece"),
    [
        (b"", 400, None, "empty"),
        (b"{", 400, None, "no JSON"),
        (b'{"key":1e999}', 400, None, "no JSON"),
        (b"[" * 33 + b"]" * 33, 400, None, "32 levels"),
        (b"[]", 422, "$", "expected `object`"),
        (b"{}", 422, "$.key", "missing"),
        (b'{"key":{"site_id":"s","namespace":"","dgd_name":"p"}}', 422, "$.key.namespace", "non-empty"),
        (BODY[:-1] + b',"frontends":["http://a/b"]}', 422, "$.frontends[0]", "bare base URL"),
    ],
)
async def test_a_bad_body_is_told_what_is_wrong_with_it(
    service: Service, body: bytes, status: int, field: str | None, piece: str
) -> None:
    answer = await service.request("POST", "/pools", body)
    assert answer.status == status
    assert piece in answer.error
    assert answer.json["error"].get("field") == field
    assert service.pool_routes.rejected == 1
    assert len(service.pools.index) == 0


@pytest.mark.parametrize(
    ("content_type", "status"),
    [("", 200), ("application/json", 200), ("Application/JSON; charset=utf-8", 200), ("application/x+json", 200)]
    + [(wrong, 415) for wrong in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json")],
)
async def test_a_body_of_another_type_than_json_is_refused(service: Service, content_type: str, status: int) -> None:
    answer = await service.request("POST", "/pools", BODY, headers={"content-type": content_type})
    assert answer.status == status
    if status == 415:
        assert "application/json" in answer.error
        assert answer.headers["connection"] == "close", "the body was not read"


@pytest.mark.parametrize("path", ["/pools", "/routers"])
@pytest.mark.parametrize(("size", "status"), [(LIMIT, 422), (LIMIT + 1, 413)])
async def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(
    service: Service, path: str, size: int, status: int
) -> None:
    body = b"{}" + b" " * (size - 2)
    stated = await service.request("POST", path, body)
    chunked = await service.request(
        "POST",
        path,
        headers={"transfer-encoding": "chunked"},
        messages=[
            {"type": "http.request", "body": body[:1000], "more_body": True},
            {"type": "http.request", "body": body[1000:], "more_body": False},
        ],
    )
    assert (stated.status, chunked.status) == (status, status)
    if status == 413:
        assert str(LIMIT) in stated.error


async def test_a_body_that_ends_early_is_a_bad_request_and_registers_nothing(service: Service) -> None:
    answer = await service.request(
        "POST",
        "/pools",
        headers={"content-length": str(len(BODY))},
        messages=[{"type": "http.request", "body": BODY[:10], "more_body": True}, {"type": "http.disconnect"}],
    )
    assert (answer.status, answer.headers["connection"], len(service.pools.index)) == (400, "close", 0)
    assert "before it was complete" in answer.error


async def test_more_pools_than_allowed_are_told_to_come_back(service: Service) -> None:
    for number in range(4):
        body = json.dumps({"key": {**KEY, "dgd_name": str(number)}}).encode()
        answer = await service.request("POST", "/pools", body)
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert "--max-pools" in answer.error
    assert service.pool_routes.rejected == 1


async def test_a_pool_is_taken_out_by_its_names(service: Service) -> None:
    await service.request("POST", "/pools", BODY)
    answer = await service.request("DELETE", "/pools/s/n/p")
    assert (answer.status, answer.body, answer.headers) == (204, b"", {})
    again = await service.request("DELETE", "/pools/s/n/p")
    assert (again.status, again.error) == (404, "no such pool is registered")


async def test_names_in_a_path_are_split_before_they_are_decoded(service: Service) -> None:
    names = {"site_id": "a/b", "namespace": "é ü", "dgd_name": "100%"}
    await service.request("POST", "/pools", json.dumps({"key": names}).encode())
    assert (await service.request("DELETE", "/pools/a/b/%C3%A9%20%C3%BC/100%25")).status == 404
    assert (await service.request("DELETE", "/pools/a%2Fb/%C3%A9%20%C3%BC/100%25")).status == 204


@pytest.mark.parametrize("path", ["/pools/s/n/%00", "/pools/s//p", "/pools/s/n/%20p", "/pools/s/n/" + "x" * 254])
async def test_names_that_no_pool_can_have_are_not_found(service: Service, path: str) -> None:
    assert (await service.request("DELETE", path)).status == 404


# --------------------------------------------------------------------------------------------------------- lists


async def test_lists_are_filtered_by_the_query_and_unknown_parameters_are_ignored(service: Service) -> None:
    for name, model in (("a", "m1"), ("b", "m2"), ("c", "m/3 x")):
        await service.pools.register(PoolRegistration(PoolKey("s", "n", name), model=model))

    async def names(query: str) -> list[str]:
        return [pool["key"]["dgd_name"] for pool in (await service.request("GET", "/pools" + query)).json["pools"]]

    assert await names("?x=1&limit=1") == ["a", "b", "c"]
    assert await names("?model=m1&model=m2") == ["a", "b"]
    assert await names("?model=m%2F3+x") == ["c"]
    assert await names("?model=m1&site_id=t") == []
    assert await names("?site_id=s&site_id=t") == ["a", "b", "c"]
    assert await names("?model=") == []
    assert await names("?region=eu") == []


async def test_an_unchanged_list_is_not_sent_again(service: Service) -> None:
    first = await service.request("GET", "/pools")
    again = await service.request("GET", "/pools", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers == {"etag": first.headers["etag"], "vary": "accept-encoding"}


@pytest.mark.parametrize("path", ["/pools", "/routers", "/live", "/ready", "/health", "/metrics", "/openapi.json"])
async def test_head_is_get_without_the_body(service: Service, path: str) -> None:
    get, head = await service.request("GET", path), await service.request("HEAD", path)
    assert (get.status, head.status, head.body) == (200, 200, b"")
    assert head.headers.keys() == get.headers.keys()
    if path != "/metrics":  # whose body has changed meanwhile
        assert head.headers == get.headers
        assert int(head.headers["content-length"]) == len(get.body) > 0


# ------------------------------------------------------------------------------------------------------- routers


async def test_a_router_registers_itself_beside_the_fixed_one(service: Service) -> None:
    body = b'{"id":"a/b","url":"http://[::1]:9000"}'
    for _ in range(2):
        assert (await service.request("POST", "/routers", body)).json == LEASE
    assert (await service.request("GET", "/routers")).json["routers"] == [
        {"id": "a/b", "url": "http://[::1]:9000"},
        {"id": "fixed", "url": "http://r"},
    ]
    assert (await service.request("DELETE", "/routers/a%2Fb")).status == 204
    assert (await service.request("DELETE", "/routers/a%2Fb")).status == 404


async def test_the_fixed_router_is_a_conflict(service: Service) -> None:
    post = await service.request("POST", "/routers", b'{"id":"fixed","url":"http://r"}')
    delete = await service.request("DELETE", "/routers/fixed")
    assert (post.status, delete.status, "--router" in post.error) == (409, 409, True)


# -------------------------------------------------------------------------------------------------------- routes


async def test_every_route_refuses_other_methods_and_names_its_own(service: Service) -> None:
    methods = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "BREW", "get"}
    for route in service.table.routes:
        allowed = set(route.allow.split(", "))
        assert allowed <= methods
        assert ("HEAD" in allowed) is ("GET" in allowed)
        for method in methods - allowed:
            answer = await service.request(method, route.path.replace("{", "").replace("}", ""))
            assert (answer.status, answer.headers["allow"]) == (405, route.allow)
            assert method == "HEAD" or route.allow in answer.error


NOWHERE = ["/", "", "/pool", "/pools/", "//pools", "/pools/a", "/pools/a/b", "/pools/a/b/c/d", "/POOLS", "/live/"]
NOWHERE += ["/pools/%zz/b/c", "/pools/%ff/b/c", "*", "http://a/pools", "/routers/a/b", "/pools/./n/p/.."]


@pytest.mark.parametrize("path", NOWHERE)
async def test_what_is_no_route_is_not_found(service: Service, path: str) -> None:
    for method in ("GET", "DELETE"):
        answer = await service.request(method, path)
        assert (answer.status, answer.error) == (404, "there is nothing at this path")


async def test_an_escaped_path_is_the_same_route(service: Service) -> None:
    assert (await service.request("GET", "/%70ools")).json["pools"] == []


@pytest.mark.parametrize("host", ["", "a, b"])
async def test_a_request_names_one_host(service: Service, host: str) -> None:
    answer = await service.request("GET", "/pools", headers={"host": host})
    assert (answer.status, "Host" in answer.error) == (400, True)


async def test_a_body_behind_a_refusal_is_dropped_and_the_connection_closed(service: Service) -> None:
    for method, path, status in (("POST", "/nowhere", 404), ("PUT", "/pools", 405)):
        answer = await service.request(method, path, b"x" * 1000)
        assert (answer.status, answer.headers.get("connection")) == (status, "close")
        assert (await service.request(method, path)).headers.get("connection") is None


# ------------------------------------------------------------------------------------------------ probes, metrics


async def test_ready_follows_its_reasons_and_live_does_not(service: Service) -> None:
    assert (await service.request("GET", "/ready")).json == {"ready": True, "reasons": []}
    service.reasons = ("shutting down",)
    ready = await service.request("GET", "/ready")
    assert (ready.status, ready.json) == (503, {"ready": False, "reasons": ["shutting down"]})
    assert (await service.request("GET", "/live")).json == {"live": True}


async def test_health_tells_of_each_directory_and_source(service: Service) -> None:
    health = (await service.request("GET", "/health")).json
    assert (health["version"], health["started_at"], health["ready"]) == ("1.2.3", STARTED_AT, True)
    assert health["directories"].keys() == {"pools", "routers"}
    (source,) = health["directories"]["pools"]["sources"]
    assert (source["name"], source["complete"], source["as_of"]) == ("pool-registrations", False, STARTED_AT)


async def test_metrics_come_in_the_format_that_is_asked_for(service: Service) -> None:
    assert (await service.request("GET", "/metrics")).headers["content-type"].startswith("text/plain")
    asked = await service.request("GET", "/metrics", headers={"accept": "application/openmetrics-text"})
    assert asked.headers["content-type"].startswith("application/openmetrics-text")
    assert asked.body.endswith(b"# EOF\n")


async def test_requests_are_counted_by_route_never_by_path(service: Service) -> None:
    await service.request("GET", "/pools?model=x")
    await service.request("POST", "/pools", b"{}")
    await service.request("DELETE", "/pools/a/b/c")
    await service.request("BREW", "/made/up")
    assert service.meter.counts() == [
        ("/pools", "GET", "200", 1),
        ("/pools", "POST", "422", 1),
        ("/pools/{site_id}/{namespace}/{dgd_name}", "DELETE", "404", 1),
        ("other", "other", "404", 1),
    ]


async def test_way_is_made_for_large_bodies_alone() -> None:
    made: list[int] = []

    def handler(length: int) -> Any:
        async def handle(*arguments: object) -> Response:
            return Response(200, bytes(length))

        return handle

    routes = [Route(f"/{length}", {"GET": handler(length)}) for length in (LARGE_BYTES - 1, LARGE_BYTES)]
    app = App(RouteTable(routes), RequestMeter(["a", "b", "other"]), lambda: made.append(1))
    assert len((await request(app, "GET", f"/{LARGE_BYTES - 1}")).body) == LARGE_BYTES - 1
    assert made == []
    assert len((await request(app, "GET", f"/{LARGE_BYTES}")).body) == LARGE_BYTES
    assert made == [1]


# --------------------------------------------------------------------------------------------------------- faults


async def test_a_fault_of_ours_is_a_500_that_tells_nothing_and_is_counted() -> None:
    async def breaks(*arguments: object) -> Any:
        raise RuntimeError("secret")

    async def unavailable(*arguments: object) -> Any:
        raise Unavailable("the store does not answer", 3)

    meter = RequestMeter(["/breaks", "other"])
    app = App(RouteTable([Route("/breaks", {"GET": breaks, "POST": unavailable})]), meter)
    answer = await request(app, "GET", "/breaks")
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert answer.error == "internal error; it has been logged"
    later = await request(app, "POST", "/breaks")
    assert (later.status, later.headers["retry-after"]) == (503, "3")
    assert meter.counts() == [("/breaks", "GET", "500", 1), ("/breaks", "POST", "503", 1)]
