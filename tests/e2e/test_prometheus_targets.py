"""GET /sd/prometheus of the real service: what Prometheus checks of an answer, and when it is refused."""

import gzip
import time
from collections.abc import Iterator

import pytest

from tests.e2e.process import POLL_SECS, Serve, Service, running
from tests.e2e.wire import PATIENCE, Connection, pool

LEASE_SECS = 2
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", str(LEASE_SECS))
ROUTERS = ("--router", "r-0=https://[fd00::1]", "--router", "r-1=http://10.0.0.1:9000")
FRONTENDS = "/sd/prometheus?targets=frontends"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("prometheus"), *SHORT, *ROUTERS) as service:
        deadline = time.monotonic() + PATIENCE
        while not service.complete():
            assert time.monotonic() < deadline
            time.sleep(POLL_SECS)
        yield service


@pytest.fixture
def caller(service: Service) -> Iterator[Connection]:
    with service.connect() as connection:
        yield connection


def test_before_a_lease_has_passed_targets_are_refused_and_given_to_who_allows_it(serve: Serve) -> None:
    service = serve()
    service.post("/pools", pool("early", frontends=["http://10.0.0.7:8000"]))
    refused = service.get(FRONTENDS)
    assert refused.status == 503
    assert int(refused.header("retry-after") or 0) > 0
    assert "incomplete=allow" in refused.json()["error"]["message"]
    (group,) = service.get(FRONTENDS + "&incomplete=allow").json()
    assert group["targets"] == ["10.0.0.7:8000"]
    assert group["labels"]["__meta_gdsvc_complete"] == "false"


def test_targets_come_and_go_with_their_pools(caller: Connection) -> None:
    caller.post("/pools", pool("p", model="qwen", frontends=["http://10.0.0.7", "https://[fd00::7]:8443"]))
    reply = caller.get(FRONTENDS)
    assert (reply.status, reply.header("content-type")) == (200, "application/json")
    assert [group["targets"] for group in reply.json()] == [["10.0.0.7:80"], ["[fd00::7]:8443"]]
    assert [group["labels"].get("__scheme__") for group in reply.json()] == [None, "https"]
    assert caller.get(FRONTENDS + "&model=qwen").json() == reply.json()
    assert caller.get(FRONTENDS + "&model=llama").json() == []
    assert caller.request("DELETE", "/pools/ohio/dynamo/p").status == 204
    assert caller.get(FRONTENDS).json() == []


def test_routers_are_targets(caller: Connection) -> None:
    groups = caller.get("/sd/prometheus?targets=routers").json()
    assert [group["targets"] for group in groups] == [["[fd00::1]:443"], ["10.0.0.1:9000"]]
    assert [group["labels"]["__meta_gdsvc_router_id"] for group in groups] == ["r-0", "r-1"]


def test_what_is_held_already_is_not_sent_again_and_head_has_no_body(caller: Connection) -> None:
    reply = caller.get("/sd/prometheus?targets=routers")
    etag = reply.header("etag")
    assert etag is not None
    unchanged = caller.get("/sd/prometheus?targets=routers", If_None_Match=etag)
    assert (unchanged.status, unchanged.body, unchanged.header("etag")) == (304, b"", etag)
    head = caller.request("HEAD", "/sd/prometheus?targets=routers")
    assert (head.status, head.header("content-length")) == (200, str(len(reply.body)))


def test_a_large_answer_is_compressed_for_who_takes_it(caller: Connection) -> None:
    caller.post("/pools", pool("large", frontends=[f"http://10.0.0.7:{port}" for port in range(1000, 1200)]))
    packed = caller.get(FRONTENDS, Accept_Encoding="gzip")
    assert packed.header("content-encoding") == "gzip"
    assert gzip.decompress(packed.body) == caller.get(FRONTENDS).body
    assert caller.request("DELETE", "/pools/ohio/dynamo/large").status == 204


@pytest.mark.parametrize("query", ["", "?targets=pools", "?targets=relays", "?targets=relays&port=99999"])
def test_a_query_that_cannot_be_answered_is_400_and_says_why(caller: Connection, query: str) -> None:
    reply = caller.get("/sd/prometheus" + query)
    assert reply.status == 400
    assert "expected" in reply.json()["error"]["message"]


def test_other_methods_are_refused(caller: Connection) -> None:
    reply = caller.request("POST", "/sd/prometheus?targets=routers", b"{}")
    assert (reply.status, reply.header("allow")) == (405, "GET, HEAD")
