"""What GET /pools and GET /routers answer: entity tags, codings, filters, members kept, routers and their leases."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.e2e.process import Service, running
from tests.e2e.wire import Connection, pool

MANY = 30  # pools of the filter tests, enough for a list of more than a kilobyte
FIXED_ROUTERS = {"ohio-0": "http://10.0.0.7:8000", "ohio-1": "https://[fd00::7]:8443"}
HOUR = ("--heartbeat-interval-secs", "5", "--lease-duration-secs", "3600")  # nothing ends while these tests run


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    routers = [flag for name, url in FIXED_ROUTERS.items() for flag in ("--router", f"{name}={url}")]
    with running(tmp_path_factory.mktemp("lists"), *HOUR, *routers) as service:
        for number in range(MANY):
            # models and regions of coprime counts: every pair of them is there
            document = {
                "key": {"site_id": f"site-{number % 5}", "namespace": "dynamo", "dgd_name": f"listed-{number:02}"},
                "model": f"model/{number % 3}" if number % 3 else None,
                "location": {"region": f"region {number % 2}"},
            }
            assert service.post("/pools", document).status == 200
        yield service


@pytest.fixture
def caller(service: Service) -> Iterator[Connection]:
    with service.connect() as connection:
        yield connection


def listed(connection: Connection, query: str) -> list[int]:
    """The numbers of the filter tests' pools that a query lists."""
    names = [item["key"]["dgd_name"] for item in connection.get(f"/pools{query}").json()["pools"]]
    return sorted(int(name.removeprefix("listed-")) for name in names if name.startswith("listed-"))


# --------------------------------------------------------------------------------------------------- entity tags


def test_an_unchanged_list_keeps_its_strong_tag(caller: Connection) -> None:
    first, second = caller.get("/pools"), caller.get("/pools")
    etag = first.header("etag")
    assert etag is not None
    assert etag.startswith('"')
    assert etag.endswith('"')
    assert (second.header("etag"), second.body) == (etag, first.body)


def test_a_changed_list_has_another_tag(service: Service, caller: Connection) -> None:
    before = caller.get("/pools").header("etag")
    service.post("/pools", pool("tagged", capacity={"live_workers": 1}))
    new = caller.get("/pools").header("etag")
    service.post("/pools", pool("tagged", capacity={"live_workers": 2}))
    changed = caller.get("/pools").header("etag")
    caller.request("DELETE", "/pools/ohio/dynamo/tagged")
    assert len({before, new, changed, caller.get("/pools").header("etag")}) == 4


@pytest.mark.parametrize("spelling", ["{0}", "W/{0}", '"other", {0}', '"other" ,W/"x",W/{0}', "*", ' {0} , "other"'])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("target", ["/pools", "/routers", "/pools?model=model/1"])
def test_a_list_that_the_caller_has_is_304(caller: Connection, target: str, method: str, spelling: str) -> None:
    etag = caller.get(target).header("etag")
    reply = caller.request(method, target, headers={"If-None-Match": spelling.format(etag)})
    assert (reply.status, reply.body) == (304, b"")
    assert reply.header("etag") == etag
    assert reply.header("vary") == "accept-encoding"
    assert caller.get("/live").status == 200


@pytest.mark.parametrize("spelling", ['"other"', "other", 'W/"other"', '"{1}', "{1}", '"{1} "', '"*"'])
def test_a_list_that_the_caller_has_not_is_sent(caller: Connection, spelling: str) -> None:
    etag = caller.get("/pools").header("etag") or ""
    reply = caller.get("/pools", If_None_Match=spelling.format(etag, etag.strip('"')))
    assert reply.status == 200
    assert reply.json()["pools"]


def test_a_304_carries_the_tag_of_the_coding_that_was_asked_for(caller: Connection) -> None:
    zipped = caller.get("/pools", Accept_Encoding="gzip").header("etag")
    plain = caller.get("/pools").header("etag")
    assert zipped != plain
    assert caller.get("/pools", Accept_Encoding="gzip", If_None_Match=f"{zipped}").status == 304
    assert caller.get("/pools", If_None_Match=f"{zipped}").status == 200
    assert caller.get("/pools", Accept_Encoding="gzip", If_None_Match=f"{plain}, {zipped}").header("etag") == zipped


def test_tags_tell_filters_codings_and_processes_apart(service: Service, tmp_path: Path) -> None:
    queries = ["", "?model=a", "?model=b", "?region=a", "?model=a&region=a", "?model=", "?model=a&model=b"]
    tags = {service.get(f"/pools{query}").header("etag") for query in queries}
    tags |= {service.get("/pools", Accept_Encoding=coding).header("etag") for coding in ("gzip", "zstd")}
    assert len(tags) == len(queries) + 2
    with running(tmp_path, *HOUR) as other:
        epoch = (other.get("/pools").header("etag") or "").split("-")[0]
    assert epoch not in {(tag or "").split("-")[0] for tag in tags}


# ------------------------------------------------------------------------------------------------------- codings


@pytest.mark.parametrize("target", ["/pools", "/pools?region=region%201"])
def test_codings_decompress_to_the_plain_list(caller: Connection, target: str) -> None:
    plain = caller.get(target)
    zipped = caller.get(target, Accept_Encoding="gzip")
    zstd = caller.get(target, Accept_Encoding="gzip, deflate, br, zstd")
    assert [reply.header("content-encoding") for reply in (plain, zipped, zstd)] == [None, "gzip", "zstd"]
    assert gzip.decompress(zipped.body) == plain.body
    assert zstandard.ZstdDecompressor().decompress(zstd.body) == plain.body
    assert max(len(zipped.body), len(zstd.body)) < len(plain.body)
    assert {reply.header("vary") for reply in (plain, zipped, zstd)} == {"accept-encoding"}


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0", "identity, gzip;q=0.5", "", "nonsense;q=x"])
def test_a_coding_that_is_not_wanted_is_not_used(caller: Connection, accepted: str) -> None:
    reply = caller.get("/pools", Accept_Encoding=accepted)
    assert reply.header("content-encoding") is None
    assert reply.json()["pools"]


def test_a_short_list_is_not_compressed(caller: Connection) -> None:
    reply = caller.get("/pools?model=none", Accept_Encoding="gzip")
    assert reply.header("content-encoding") is None
    assert reply.json()["pools"] == []
    assert reply.header("vary") == "accept-encoding"


# ------------------------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", range(MANY)),
        ("?model=model/1", range(1, MANY, 3)),
        ("?model=model%2F1&model=model/2", [number for number in range(MANY) if number % 3]),
        ("?region=region+1", range(1, MANY, 2)),
        ("?region=region%201&model=model/1", range(1, MANY, 6)),
        ("?site_id=site-4&site_id=site-0&region=region+0", [0, 4, 10, 14, 20, 24]),
        ("?site_id=site-4&model=model/1&region=region+0", [4]),
        ("?site_id=site-4&unknown=7&&=&site_id", range(4, MANY, 5)),
        ("?Model=model/1", range(MANY)),
        ("?model=", []),
        ("?model", []),
        ("?model=%ff", []),
        ("?model=%zz", []),
        ("?model=model/1;model/2", []),
    ],
)
def test_filters_are_anded_across_names_and_ored_within_one(
    caller: Connection, query: str, expected: range | list[int]
) -> None:
    assert listed(caller, query) == list(expected)


def test_a_filter_of_many_values_is_answered(caller: Connection) -> None:
    query = "&".join(f"site_id=nowhere-{number}" for number in range(2000))
    assert listed(caller, f"?{query}&site_id=site-1") == list(range(1, MANY, 5))


def test_lists_are_sorted_by_key(service: Service, caller: Connection) -> None:
    sites = ["b", "a!", "a", "a b", "\u00e1", "\U0001f600", "\ufffd", "B"]  # the last but one sorts otherwise in UTF-16
    for site in sites:
        for name in ("z", "a"):
            names = {"site_id": site, "namespace": name, "dgd_name": name}
            assert service.post("/pools", {"key": names}).status == 200
    seen = [tuple(item["key"].values()) for item in caller.get("/pools").json()["pools"]]
    assert seen == sorted(seen)
    assert {(site, name, name) for site in sites for name in ("z", "a")} <= set(seen)


# ------------------------------------------------------------------------------------------------------- members


def test_a_listing_is_the_registration_and_what_we_add(service: Service, caller: Connection) -> None:
    sent = {
        "key": {"site_id": "cluster-a", "namespace": "default", "dgd_name": "qwen3-32b", "dropped": True},
        "location": {"region": "eu", "rack": [1, {"b": None, "a": 1.5}]},
        "capacity": {"max_concurrency": 2**64 - 1, "gpu_type": "ünïcödé"},
        "capabilities": ["c" * 100] * 1000,
        "frontends": ["http://10.0.0.1:8000", "https://[fd00::1]:8443", "http://[::ffff:10.0.0.1]"],
        "x_new": {"deep": [[[1]]]},
        "id": "dropped",
        "relay_identities": ["dropped"],
        "sources": ["dropped"],
    }
    assert service.post("/pools", sent).status == 200
    [shown] = caller.get("/pools?site_id=cluster-a").json()["pools"]
    assert shown == {
        "key": {"site_id": "cluster-a", "namespace": "default", "dgd_name": "qwen3-32b"},
        "id": "pool-v1-9ed9952953a60e53b0ed4e7d14f395930626f31538d4b384a84fc0d85271d6e5",
        "location": {
            "region": "eu",
            "availability_zone": None,
            "cluster": None,
            "datacenter": None,
            "rack": [1, {"a": 1.5, "b": None}],
        },
        "model": None,
        "frontends": ["http://10.0.0.1:8000", "https://[fd00::1]:8443", "http://[::ffff:10.0.0.1]"],
        "capacity": {
            "max_concurrency": 2**64 - 1,
            "live_workers": None,
            "kv_capacity_blocks": None,
            "expected_ranks": None,
            "observed_ranks": None,
            "gpu_type": "ünïcödé",
        },
        "capabilities": ["c" * 100] * 1000,
        "relay_identities": [],
        "x_new": {"deep": [[[1]]]},
    }


def test_of_duplicate_members_the_last_wins(caller: Connection) -> None:
    body = json.dumps(pool("twice", model="kept"))
    assert caller.post("/pools", body.replace('"model"', '"model": "lost", "model"').encode()).status == 200
    assert [item["key"]["dgd_name"] for item in caller.get("/pools?model=kept").json()["pools"]] == ["twice"]
    assert caller.get("/pools?model=lost").json()["pools"] == []


# ------------------------------------------------------------------------------------------------------- routers


def test_fixed_routers_are_listed_and_cannot_be_changed(caller: Connection) -> None:
    for router_id, url in FIXED_ROUTERS.items():
        for document in ({"id": router_id, "url": url}, {"id": router_id, "url": "http://elsewhere"}):
            assert caller.post("/routers", document).status == 409
        assert caller.request("DELETE", f"/routers/{router_id}").status == 409
    routers = {router["id"]: router["url"] for router in caller.get("/routers").json()["routers"]}
    assert routers.items() >= FIXED_ROUTERS.items()


def test_a_router_registers_changes_and_leaves(caller: Connection) -> None:
    for url in ("http://[fd00::1]:8000", "http://10.0.0.1:8000/", "http://10.0.0.1:8000/"):
        lease = caller.post("/routers", {"id": "a/b c", "url": url, "unknown": 1})
        assert (lease.status, lease.json()["lease_duration_secs"]) == (200, 3600)
        assert {"id": "a/b c", "url": url} in caller.get("/routers").json()["routers"]
    routers = [router["id"] for router in caller.get("/routers").json()["routers"]]
    assert routers == sorted(routers)
    assert caller.request("DELETE", "/routers/a%2Fb%20c").status == 204
    assert "a/b c" not in [router["id"] for router in caller.get("/routers").json()["routers"]]
    assert caller.request("DELETE", "/routers/a%2Fb%20c").status == 404


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"id": "a"}, "$.url"),
        ({"id": " a", "url": "http://10.0.0.1"}, "$.id"),
        ({"id": "a", "url": "http://fd00::1:80"}, "$.url"),
        ({"id": "a", "url": "http://[fd00::1"}, "$.url"),
        ({"id": "a", "url": "http://10.0.0.1/path"}, "$.url"),
        ({"id": "a", "url": "http://user@10.0.0.1"}, "$.url"),
        ({"id": "a", "url": "http://10.0.0.1:0"}, "$.url"),
    ],
)
def test_a_wrong_router_is_422_and_names_the_field(caller: Connection, document: object, field: str) -> None:
    reply = caller.post("/routers", document)
    assert (reply.status, reply.json()["error"]["field"]) == (422, field)
