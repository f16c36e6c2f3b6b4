"""What the client writes, and what becomes of a write that fails."""

import asyncio

import pytest

from gdsvc.kube import client as under_test
from gdsvc.kube.client import Answer, Client, Unreachable
from tests.kube.api_server import Request, answer, reply
from tests.kube.lease_server import LeaseServer, lease_server
from tests.kube.stand import Credentials, until

pytestmark = pytest.mark.loops("uvloop")
PATH = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
CREATE = b'{"metadata": {"name": "a", "namespace": "n"}}'
PATCH = b'[{"op": "add", "path": "/spec", "value": {}}]'


async def failing(api: LeaseServer, credentials: Credentials | None = None) -> Unreachable:
    """The error of one write."""
    async with Client(credentials or Credentials(api.host), read_secs=1.0) as client:
        with pytest.raises(Unreachable) as caught:
            await client.send("POST", PATH, CREATE)
    assert "s3cret-t0ken" not in str(caught.value)
    return caught.value


async def test_a_write_arrives_whole_with_its_type_and_credentials() -> None:
    async with lease_server() as api, Client(Credentials(api.host)) as client:
        created = await client.send("POST", PATH, CREATE)
        patched = await client.send("PATCH", f"{PATH}/a", PATCH, "application/json-patch+json")
        deleted = await client.send("DELETE", f"{PATH}/a")
        assert [created.status, patched.status, deleted.status] == [201, 200, 200]
        assert b'"uid": "uid-1"' in created.body
        assert [(r.method, r.path, r.body) for r in api.requests] == [
            ("POST", PATH, CREATE),
            ("PATCH", f"{PATH}/a", PATCH),
            ("DELETE", f"{PATH}/a", b""),
        ]
        assert {r.headers["authorization"] for r in api.requests} == {"Bearer s3cret-t0ken"}
        assert api.requests[1].headers["content-type"] == "application/json-patch+json"


async def test_writes_one_after_another_share_a_connection() -> None:
    async with lease_server() as api, Client(Credentials(api.host)) as client:
        await client.send("POST", PATH, CREATE)
        for _ in range(20):
            await client.send("PATCH", f"{PATH}/a", PATCH, "application/json-patch+json")
        assert len(api.connections) == 1


async def test_a_refusal_is_an_answer_with_the_servers_wish() -> None:
    async with lease_server() as api, Client(Credentials(api.host)) as client:
        api.script.append(reply(answer(429, b"slow down", "Retry-After: 7")))
        assert await client.send("POST", PATH, CREATE) == Answer(429, b"slow down", 7.0)


async def test_writes_refused_together_renew_the_credentials_once() -> None:
    async with lease_server() as api:
        credentials = Credentials(api.host)
        api.script.extend([reply(answer(401, b"{}"))] * 5)
        async with Client(credentials) as client:
            answers = await asyncio.gather(*(client.send("POST", PATH, CREATE) for _ in range(5)))
            assert [answered.status for answered in answers] == [401] * 5
            assert credentials.renewals == 1
            api.script.append(reply(answer(401, b"{}")))
            await client.send("POST", PATH, CREATE)
        assert credentials.renewals == 2


async def test_an_answer_that_breaks_off_is_a_connection_error() -> None:
    async with lease_server() as api:
        api.script.append(reply(answer(201, b"x" * 100)[:-50]))
        assert (await failing(api)).kind == "connection"


async def test_an_answer_that_is_lost_is_a_connection_error_though_it_was_written() -> None:
    async with lease_server() as api:
        api.lost = 1
        assert (await failing(api)).kind == "connection"
        assert list(api.objects) == ["a"]


async def test_an_answer_without_an_end_is_given_up_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "MAX_ANSWER_BYTES", 1000)
    async with lease_server() as api:
        api.script.append(reply(answer(201, b"x" * 2000)))
        assert (await failing(api)).kind == "unreadable"


async def test_a_page_of_something_else_is_no_answer() -> None:
    async with lease_server() as api:
        api.script.append(reply(answer(200, b"<html>", content_type="text/html")))
        assert (await failing(api)).kind == "unreadable"


async def test_a_write_that_is_given_up_gives_up_its_connection() -> None:
    async def never(request: Request, writer: asyncio.StreamWriter) -> None:
        api.silent.add(writer)

    async with lease_server() as api, Client(Credentials(api.host)) as client:
        api.script.append(never)
        writing = asyncio.ensure_future(client.send("POST", PATH, CREATE))
        await until(lambda: bool(api.silent))
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await until(lambda: not api.silent)
        assert (await client.send("POST", PATH, CREATE)).status == 201


async def test_new_certificate_files_make_one_new_session_for_all(tmp_path: object) -> None:
    async with lease_server() as api:
        credentials = Credentials(api.host)
        async with Client(credentials) as client:
            await client.send("POST", PATH, CREATE)
            credentials.cert_file = f"{tmp_path}/not-read-over-http"
            await asyncio.gather(*(client.send("DELETE", f"{PATH}/b") for _ in range(10)))
        assert len(api.requests) == 11  # and a session that was left open would be a warning, which is an error here
