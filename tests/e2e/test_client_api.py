"""Requests of the client against servers that answer well, badly, or not at all; TLS and tokens included."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gdsvc.client import (
    DiscoveryApi,
    InvalidOptions,
    NotDiscovery,
    Options,
    Refused,
    ServerSentEvent,
    StreamLost,
    Unreachable,
)
from tests.e2e.process import Serve
from tests.e2e.scripted import Asked, Caller, ScriptedServer, nothing
from tests.e2e.test_tls import Files, client_context, files, tls_flags  # noqa: F401 - `files` is a fixture

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop

SOON_SECS = 5.0  # for what is to come at once


def options(*urls: str, **others: object) -> Options:
    return Options(urls, **({"connect_timeout_secs": 2.0, "request_timeout_secs": 2.0} | others))  # type: ignore[arg-type]


def unused_url() -> str:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def well(asked: Asked, caller: Caller) -> None:
    await caller.reply(200, json.dumps([asked.method, asked.target]).encode())


def status(code: int, body: bytes = b"{}", **headers: str) -> Callable[[Asked, Caller], Awaitable[None]]:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(code, body, **headers)

    return script


def raw(data: bytes) -> Callable[[Asked, Caller], Awaitable[None]]:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.send(data)
        caller.close()

    return script


@asynccontextmanager
async def asking(*urls: str, **others: object) -> AsyncIterator[DiscoveryApi]:
    async with DiscoveryApi(options(*urls, **others)) as api:
        yield api


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


async def test_cookies_are_not_kept() -> None:
    async with ScriptedServer(status(200, Set_Cookie="session=1; Path=/")) as server, asking(server.url) as api:
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
async def test_what_is_no_discovery_service_is_said_to_be_none(
    script: Callable[[Asked, Caller], Awaitable[None]], said: str
) -> None:
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


# ------------------------------------------------------------------------------------------------ tokens and TLS


async def test_the_token_goes_with_each_request_as_it_is_then() -> None:
    tokens = iter(["first", "second", None])
    async with ScriptedServer(well) as server, asking(server.url, token=lambda: next(tokens)) as api:
        for _ in range(3):
            await api.request("GET", "/pools")
        sent = [asked.headers.get("authorization") for asked in server.asked]
        assert sent == ["Bearer first", "Bearer second", None]


async def test_a_token_function_that_fails_is_a_reason_without_its_text() -> None:
    def token() -> str:
        raise OSError("hunter2 is not there")

    async with ScriptedServer(well) as server, asking(server.url, token=token) as api:
        with pytest.raises(Unreachable, match="the token function failed") as unreachable:
            await api.request("GET", "/pools")
        assert "hunter2" not in repr(unreachable.value)


async def test_a_private_ca_and_a_client_certificate(serve: Serve, files: Files) -> None:  # noqa: F811
    service = serve(
        *tls_flags(files.server),
        *("--tls-client-ca-path", str(files.ca.cert)),
        tls=client_context(files, shown=files.client),
    )
    url = f"https://localhost:{service.port}"
    shown = {"client_cert_path": files.client.cert, "client_key_path": files.client.key}
    async with asking(url, ca_path=files.ca.cert, **shown) as api:
        assert (await api.request("GET", "/live")).status == 200
    async with asking(url, **shown) as api:
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            await api.request("GET", "/live")
    async with asking(url, ca_path=files.ca.cert) as api:
        with pytest.raises(Unreachable, match=r"TLS failed|closed|reset|broken"):  # the alert may come before we look
            await api.request("GET", "/live")
    async with asking(f"http://localhost:{service.port}") as api:
        with pytest.raises((Unreachable, NotDiscovery)):
            await api.request("GET", "/live")


async def test_tls_towards_a_plain_port_is_said_to_have_failed(serve: Serve) -> None:
    async with asking(f"https://127.0.0.1:{serve().port}") as api:
        with pytest.raises(Unreachable, match="TLS failed"):
            await api.request("GET", "/pools")


@pytest.mark.parametrize("option", ["ca_path", "client_cert_path"])
async def test_tls_files_that_cannot_be_used_are_named(option: str, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no PEM\n")
    for path in (text, tmp_path / "missing.pem"):
        with pytest.raises(InvalidOptions, match=f"^{option}: expected ") as refused:
            async with asking("https://127.0.0.1:1", **{option: path}):
                pass
        assert refused.value.option == option


# ------------------------------------------------------------------------------------------------ streams


async def test_events_are_read_as_they_come_and_the_stream_ends_where_the_service_ends_it() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.send(b"retry: 1500\nid: e-1\nevent: resync\ndata: {}\n\n: keep-alive\nid: e-2\n\n")
        caller.close()

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        async with api.events("/pools/watch", [("model", "m")], "e-0") as events:
            assert [event async for event in events] == [
                ServerSentEvent("resync", b"{}", "e-1", 1500),
                ServerSentEvent("", b"", "e-2", None),
            ]
            assert events.url == server.url
        (asked,) = server.asked
        assert asked.target == "/pools/watch?model=m"
        assert (asked.headers["last-event-id"], asked.headers["accept"]) == ("e-0", "text/event-stream")
        assert asked.headers["accept-encoding"] == "identity"


async def test_a_stream_that_falls_silent_is_lost() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.event("resync", b"{}", "e-1")
        await asyncio.Event().wait()

    async with (
        ScriptedServer(stream) as server,
        DiscoveryApi(options(server.url), silence_secs=0.2) as api,
        asyncio.timeout(SOON_SECS),
        api.events("/pools/watch") as events,
    ):
        assert (await anext(events)).event == "resync"
        with pytest.raises(StreamLost, match=r"nothing was heard for 0.2 s"):
            await anext(events)


async def test_comments_keep_a_stream_alive() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        for _ in range(6):
            await asyncio.sleep(0.1)
            await caller.send(b": here\n\n")
        await caller.event("resync", b"{}", "e-1")
        await caller.gone()

    async with (
        ScriptedServer(stream) as server,
        DiscoveryApi(options(server.url), silence_secs=0.4) as api,
        asyncio.timeout(SOON_SECS),
        api.events("/pools/watch") as events,
    ):
        assert (await anext(events)).event == "resync"


async def test_a_stream_that_is_reset_is_lost() -> None:
    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:"
        )
        caller.reset()

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        with pytest.raises((StreamLost, Unreachable)):
            async with api.events("/pools/watch") as events:
                await anext(events)


@pytest.mark.parametrize("code", [404, 405, 429, 501, 503])
async def test_a_service_without_a_stream_says_what_it_says(code: int) -> None:
    async with ScriptedServer(status(code, b'{"error":{"message":"no, thanks"}}')) as server, asking(server.url) as api:
        with pytest.raises(Refused, match="no, thanks") as refused:
            async with api.events("/pools/watch"):
                pass
        assert refused.value.answer.status == code


async def test_a_list_instead_of_a_stream_is_no_stream() -> None:
    async with ScriptedServer(status(200)) as server, asking(server.url) as api:
        with pytest.raises(NotDiscovery, match="no stream of events"):
            async with api.events("/pools/watch"):
                pass


async def test_leaving_a_stream_closes_its_connection() -> None:
    left = asyncio.Event()

    async def stream(_asked: Asked, caller: Caller) -> None:
        await caller.begin_events()
        await caller.event("resync", b"{}", "e-1")
        try:
            while True:
                await caller.send(b": here\n\n")
                await asyncio.sleep(0.01)
        except OSError:
            left.set()
            raise

    async with ScriptedServer(stream) as server, asking(server.url) as api:
        async with api.events("/pools/watch") as events:
            await anext(events)
        async with asyncio.timeout(SOON_SECS):
            await left.wait()
