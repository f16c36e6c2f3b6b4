"""Bodies that are nearly right: the status tells no JSON from wrong JSON, and what is accepted is what is listed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.process import Service
from tests.e2e.wire import Connection, Reply
from tests.fuzz.conftest import tried_often
from tests.fuzz.documents import bodies, is_json, registrations, routers

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(0)]


def sort_key(key: dict[str, str]) -> tuple[bytes, ...]:
    """Of a pool's key: lists are sorted by its names in UTF-8."""
    return tuple(key[name].encode() for name in ("site_id", "namespace", "dgd_name"))


def assert_judged(body: bytes, reply: Reply) -> None:
    """200, 400 or 422 as the body deserves, by the second opinion where it has one."""
    assert reply.status in (200, 400, 422), (body, reply)
    assert (reply.status != 400) == is_json(body), (body, reply)
    if reply.status != 200:
        error = reply.json()["error"]
        assert error["message"]
        assert ("field" in error) == (reply.status == 422), (body, reply)


def post_all(service: Service, target_path: str, documents: st.SearchStrategy[bytes]) -> list[dict[str, Any]]:
    """Posts what hypothesis makes; the documents that were accepted."""
    accepted: list[dict[str, Any]] = []
    with service.connect() as caller:

        @tried_often()
        @given(bodies(documents))
        def post(body: bytes) -> None:
            reply = caller.post(target_path, body)
            assert_judged(body, reply)
            if reply.status == 200:
                accepted.append(json.loads(body))

        post()
    assert accepted
    return accepted


def list_all(caller: Connection, path: str, member: str) -> list[dict[str, Any]]:
    """What is listed; the same in every coding is tested elsewhere."""
    listed: list[dict[str, Any]] = caller.get(path).json()[member]
    return listed


def test_every_accepted_registration_is_listed_and_no_other(service: Service) -> None:
    accepted = post_all(service, "/pools", registrations)
    with service.connect() as caller:
        listed = list_all(caller, "/pools", "pools")
    keys = [sort_key(pool["key"]) for pool in listed]
    assert keys == sorted(keys)
    newest = {sort_key(document["key"]): document for document in accepted}  # of those with one key the newest wins
    assert keys == sorted(newest)
    for pool in listed:
        sent = newest[sort_key(pool["key"])]
        assert pool["model"] == sent.get("model")
        assert pool["frontends"] == (sent.get("frontends") or [])
        assert pool["capabilities"] == (sent.get("capabilities") or [])


def test_every_accepted_router_is_listed_and_no_other(service: Service) -> None:
    accepted = post_all(service, "/routers", routers)
    with service.connect() as caller:
        listed = list_all(caller, "/routers", "routers")
    newest = {document["id"]: document["url"] for document in accepted}
    assert {router["id"]: router["url"] for router in listed} == newest
    assert [router["id"] for router in listed] == sorted(newest, key=str.encode)
