"""Requests of the client against servers that answer well, badly, or not at all."""

import asyncio
import gzip
import json

import pytest

from gdsvc.client import (
    DiscoveryApi,
    NotDiscovery,
    Unreachable,
)
from tests.e2e.client.asking import asking, options, raw, status, unused_url, well
from tests.e2e.client.scripted import Asked, Caller, Script, ScriptedServer, nothing

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop

SOON_SECS = 5.0  # for what is to come at once


# ------------------------------------------------------------------------------------------------ one server


async def test_what_is_asked_arrives_as_it_is() -> None:
    async with ScriptedServer(well) as server, asking(server.url + "/base/") as api:
        answer = await api.request("GET", "/pools/a%2Fb/%20", query=[("model", "a&b/c"), ("model", "é")])
        assert json.loads(answer.body) == ["GET", "/base/pools/a%2Fb/%20?model=a%26b%2Fc&model=%C3%A9"]
        assert (answer.status, answer.url) == (200, server.url + "/base")
        assert answer.headers["content-type"] == "application/json"
        await api.request("POST", "/pools", body=b'{"a":1}', headers=[("X-Own", "1")])
        posted = server.asked[1]
        assert (posted.method, posted.body, posted.headers["x-own"]) == ("POST", b'{"a":1}', "1")
        assert posted.headers["content-type"] == "application/json"
        assert server.connections == 1


async def test_content_codings_are_undone() -> None:
    async with ScriptedServer(status(200, gzip.compress(b'{"a":1}'), Content_Encoding="gzip")) as server:
        async with asking(server.url) as api:
            assert (await api.request("GET", "/pools")).body == b'{"a":1}'
        assert server.asked[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("code", [204, 304, 400, 401, 404, 405, 409, 413, 422, 429, 500, 501, 503])
async def test_every_status_of_the_service_is_an_answer(code: int) -> None:
    async with ScriptedServer(status(code, Retry_After="7")) as server, asking(server.url) as api:
        answer = await api.request("GET", "/pools")
        assert (answer.status, answer.retry_after_secs, len(server.asked)) == (code, 7.0, 1)


def named(server: ScriptedServer) -> str:
    """By its name: those who keep cookies keep none of an address."""
    return server.url.replace("127.0.0.1", "localhost")


async def test_cookies_are_not_kept() -> None:
    async with ScriptedServer(status(200, Set_Cookie="session=1; Path=/")) as server, asking(named(server)) as api:
        for _ in range(2):
            await api.request("GET", "/pools")
        assert "cookie" not in server.asked[1].headers


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (status(302, Location="http://elsewhere/?secret=hunter2"), "it redirects elsewhere"),
        (status(200, b"<html>", Content_Type="text/html; charset=utf-8"), "a web page"),
        (status(502, b"<html>", Content_Type="text/html"), "a web page"),
        (raw(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "it does not speak HTTP"),
        (raw(b"\x15\x03\x03\x00\x02\x02\x16"), "it does not speak HTTP"),
    ],
)
async def test_what_is_no_discovery_service_is_said_to_be_none(script: Script, said: str) -> None:
    async with ScriptedServer(script) as server, asking(server.url) as api:
        for method, body in (("GET", None), ("POST", b"{}")):
            with pytest.raises(NotDiscovery, match=said) as refused:
                await api.request(method, "/pools", body=body)
            assert server.url in str(refused.value)
            assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "the answer broke off"),
    ],
)
async def test_a_server_that_breaks_off_is_unreachable(data: bytes, said: str) -> None:
    async with ScriptedServer(raw(data)) as server, asking(server.url) as api:
        with pytest.raises(Unreachable, match=said):
            await api.request("GET", "/pools")


async def test_a_server_that_says_nothing_is_waited_for_no_longer_than_is_allowed() -> None:
    async with ScriptedServer(nothing) as server, asking(server.url, request_timeout_secs=0.2) as api:
        async with asyncio.timeout(SOON_SECS):
            with pytest.raises(Unreachable, match="no answer in time"):
                await api.request("GET", "/pools")
            with pytest.raises(Unreachable, match="no answer in time"):
                async with api.events("/pools/watch"):
                    pass


async def test_a_body_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsvc.client.transport.MOST_BODY_BYTES", 1000)
    async with ScriptedServer(status(200, b"x" * 1001)) as server, asking(server.url) as api:
        with pytest.raises(NotDiscovery, match="longer than 1000 bytes"):
            await api.request("GET", "/pools")


@pytest.mark.parametrize("url", ["http://no-such-host.invalid", "http://" + "a" * 70 + ".invalid"])
async def test_a_name_that_nobody_has_is_unreachable(url: str) -> None:
    async with asking(url) as api:
        with pytest.raises(Unreachable, match=r"its host|no answer|connection"):
            await api.request("GET", "/pools")


async def test_a_client_that_was_not_entered_asks_nobody() -> None:
    with pytest.raises(RuntimeError):
        await DiscoveryApi(options("http://127.0.0.1:1")).request("GET", "/pools")


# ------------------------------------------------------------------------------------------------ closed connections


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_connection_that_was_closed_meanwhile_is_no_failure(method: str) -> None:
    """The server closes after each answer as the next request arrives, without saying so before."""

    async def once(asked: Asked, caller: Caller) -> None:
        seen = sum(other.connection == asked.connection for other in server.asked)
        if seen == 1:
            await caller.reply(200, b"{}")
        else:
            caller.reset()

    async with ScriptedServer(once) as server, asking(server.url) as api:
        for _ in range(20):
            assert (await api.request(method, "/pools", body=b"{}" if method == "POST" else None)).status == 200


async def test_many_closed_connections_in_the_pool_are_no_failure_either() -> None:
    closing = False
    together = asyncio.Barrier(8)

    async def script(asked: Asked, caller: Caller) -> None:
        if closing and sum(other.connection == asked.connection for other in server.asked) > 1:
            caller.reset()
            return
        if not closing:
            await together.wait()
        await caller.reply(200, b"{}")

    async with ScriptedServer(script) as server, asking(server.url) as api:
        await asyncio.gather(*(api.request("POST", "/pools", body=b"{}") for _ in range(8)))
        assert server.connections == 8
        closing = True
        assert (await api.request("POST", "/pools", body=b"{}")).status == 200


async def test_a_new_connection_that_is_closed_is_a_failure_and_not_tried_for_ever() -> None:
    async def close(_asked: Asked, caller: Caller) -> None:
        caller.reset()

    async with ScriptedServer(close) as server, asking(server.url) as api:
        with pytest.raises(Unreachable):
            await api.request("POST", "/pools", body=b"{}")
        assert len(server.asked) == 1


# ------------------------------------------------------------------------------------------------ several URLs


async def test_the_next_url_is_asked_where_one_does_not_answer_and_is_kept_to() -> None:
    dead = unused_url()
    async with (
        ScriptedServer(well) as first,
        ScriptedServer(well) as second,
        asking(dead, first.url, second.url) as api,
    ):
        for _ in range(3):
            assert (await api.request("GET", "/pools")).url == first.url
        await first.hang_up()
        for _ in range(3):
            assert (await api.request("GET", "/pools")).url == second.url
        assert (len(first.asked), len(second.asked)) == (3, 3)


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_another_url_is_asked_where_one_cannot_answer_now(code: int) -> None:
    async with ScriptedServer(status(code)) as busy, ScriptedServer(well) as free, asking(busy.url, free.url) as api:
        answer = await api.request("GET", "/pools")
        assert (answer.status, answer.url) == (200, free.url)


async def test_where_no_url_does_better_the_first_answer_counts() -> None:
    async with (
        ScriptedServer(status(503, Retry_After="3")) as busy,
        ScriptedServer(status(429)) as full,
        asking(unused_url(), busy.url, full.url) as api,
    ):
        answer = await api.request("GET", "/pools")
        assert (answer.status, answer.url, answer.retry_after_secs) == (503, busy.url, 3.0)


async def test_a_refusal_is_an_answer_and_asks_nobody_else() -> None:
    async with ScriptedServer(status(422)) as first, ScriptedServer(well) as second:
        async with asking(first.url, second.url) as api:
            assert (await api.request("POST", "/pools", body=b"{}")).status == 422
        assert not second.asked


async def test_every_url_is_named_with_its_reason() -> None:
    dead = unused_url()
    async with ScriptedServer(raw(b"")) as closing, asking(dead, closing.url) as api:
        with pytest.raises(Unreachable) as unreachable:
            await api.request("GET", "/pools")
        (first, refused), (second, closed) = unreachable.value.reasons
        assert (first, second) == (dead, closing.url)
        assert "refused" in refused
        assert "closed" in closed
        assert dead in str(unreachable.value)
        assert closing.url in str(unreachable.value)


async def test_the_time_given_is_shared_among_the_urls() -> None:
    async with ScriptedServer(nothing) as silent, ScriptedServer(well) as second, asking(silent.url, second.url) as api:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        answer = await api.request("GET", "/pools", within_secs=0.6)
        assert answer.url == second.url
        assert loop.time() - asked_at < 2.0, "less than the time that one URL has"
