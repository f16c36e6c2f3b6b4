"""The watch and explain routes of the whole ASGI callable: one request in, no sockets."""

import json
from typing import Any

import pytest

from gdsvc.asgi.types import Received
from tests.event_stream import Event, Parser
from tests.unit.http.test_app import BODY, KEY, Answer, Service, service

__all__ = ["service"]  # the fixture

TURNS: list[Received] = [{"type": "http.request", "body": b"", "more_body": False}]  # then the caller leaves


async def watch(service: Service, target: str, **headers: str) -> tuple[Answer, list[Event]]:
    """What a caller sees of a stream that it leaves at once, the first write included."""
    answer = await service.request("GET", target, headers={name.replace("_", "-"): v for name, v in headers.items()})
    return answer, Parser().feed(answer.body)


async def register(service: Service, name: str, **members: Any) -> None:
    body = json.dumps({"key": {**KEY, "dgd_name": name}, **members}).encode()
    assert (await service.request("POST", "/pools", body)).status == 200


@pytest.mark.parametrize(("path", "member"), [("/pools/watch", "pools"), ("/routers/watch", "routers")])
async def test_a_watch_starts_with_what_the_list_answers(service: Service, path: str, member: str) -> None:
    await register(service, "p")
    answer, (resync,) = await watch(service, path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert resync.name == "resync"
    assert resync.json() == (await service.request("GET", f"/{member}")).json


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b", "c"]),
        ("?model=m1&model=m2", ["a", "b"]),
        ("?region=eu&model=m2", ["b"]),
        ("?site_id=t", []),
        ("?limit=1", ["a", "b", "c"]),
    ],
)
async def test_filters_are_those_of_the_list(service: Service, query: str, names: list[str]) -> None:
    await register(service, "a", model="m1")
    await register(service, "b", model="m2", location={"region": "eu"})
    await register(service, "c")
    _, (resync,) = await watch(service, "/pools/watch" + query)
    assert [pool["key"]["dgd_name"] for pool in resync.json()["pools"]] == names
    assert resync.id.count("-") == (2 if query and "limit" not in query else 1)


@pytest.mark.parametrize("since", ["", "x", "%ff%00", "-1", "9" * 4000, "epoch-1&since=epoch-2"])
async def test_an_id_that_is_none_starts_anew(service: Service, since: str) -> None:
    await register(service, "p")
    _, events = await watch(service, f"/pools/watch?since={since}")
    assert [event.name for event in events] == ["resync"]


@pytest.mark.parametrize("path", ["/pools/watch", "/pools/watch?model=m", "/routers/watch"])
async def test_head_of_a_watch_is_its_head(service: Service, path: str) -> None:
    head, (get, _) = await service.request("HEAD", path), await watch(service, path)
    assert (head.status, head.headers, head.body) == (200, get.headers, b"")


async def test_streams_are_counted_when_they_begin(service: Service) -> None:
    await watch(service, "/pools/watch?model=a")
    await service.request("HEAD", "/routers/watch")
    assert service.meter.counts() == [("/pools/watch", "GET", "200", 1), ("/routers/watch", "HEAD", "200", 1)]


# ------------------------------------------------------------------------------------------------------- explain


async def test_a_pool_is_explained(service: Service) -> None:
    await service.request("POST", "/pools", BODY)
    answer = await service.request("GET", "/pools/s/n/p/explain")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    told = answer.json
    assert list(told) == ["key", "listed", "reason", "lease", "registrations", "sources", "history"]
    assert (told["key"], told["listed"]) == (KEY, True)
    assert told["lease"] == {"age_secs": 0.0, "remaining_secs": 15.0}
    assert told["registrations"] == {"count": 1, "last_from": "127.0.0.1", "conflicts": 0}
    assert [source["name"] for source in told["sources"]] == ["pool-registrations"]
    assert [entry["event"] for entry in told["history"]] == ["registered"]


async def test_a_pool_that_left_is_explained_too(service: Service) -> None:
    await service.request("POST", "/pools", BODY)
    await service.request("DELETE", "/pools/s/n/p")
    told = (await service.request("GET", "/pools/s/n/p/explain")).json
    assert (told["listed"], told["lease"]) == (False, None)
    assert "taken out by a DELETE from 127.0.0.1" in told["reason"]


@pytest.mark.parametrize("path", ["/pools/s/n/q", "/pools/s/n/%00", "/pools/s//p", "/pools/s/n/" + "x" * 254])
async def test_a_pool_never_heard_of_is_not_found(service: Service, path: str) -> None:
    answer = await service.request("GET", path + "/explain")
    assert answer.status == 404
    assert "never heard of" in answer.error


async def test_names_of_an_explained_pool_are_split_before_they_are_decoded(service: Service) -> None:
    names = {"site_id": "a/b", "namespace": "é ü", "dgd_name": "explain"}
    await service.request("POST", "/pools", json.dumps({"key": names}).encode())
    told = (await service.request("GET", "/pools/a%2Fb/%C3%A9%20%C3%BC/explain/explain")).json
    assert told["key"] == names
    assert (await service.request("GET", "/pools/a/b/explain")).status == 405


async def test_a_pool_whose_names_are_those_of_a_route_can_be_taken_out(service: Service) -> None:
    names = {"site_id": "watch", "namespace": "explain", "dgd_name": "watch"}
    await service.request("POST", "/pools", json.dumps({"key": names}).encode())
    assert (await service.request("DELETE", "/pools/watch/explain/watch")).status == 204
