"""What the client sends and refuses to take, on real sockets."""

import asyncio

import pytest

from gdsvc.kube.client import CONNECT_SECS, READ_SECS, Client, Unreachable
from gdsvc.kube.watcher import WATCH_SECS
from tests.kube.api_server import ApiServer, Request, answer, api_server, reply
from tests.kube.stand import Credentials

PATH = "/apis/discovery.k8s.io/v1/endpointslices"


async def body_of(client: Client, query: dict[str, str]) -> tuple[int, bytes]:
    async with client.get(PATH, query) as answered:
        return answered.status, b"".join([chunk async for chunk in answered.chunks()])


async def failing(api: ApiServer, credentials: Credentials | None = None) -> Unreachable:
    """The error of one request."""
    async with Client(credentials or Credentials(api.host), read_secs=1.0) as client:
        with pytest.raises(Unreachable) as caught:
            await body_of(client, {})
    assert "s3cret-t0ken" not in str(caught.value)
    return caught.value


async def test_a_redirect_is_not_followed() -> None:
    async with api_server() as api, api_server() as thief:
        api.script.append(reply(answer(302, b"", f"Location: {thief.host}/")))
        async with Client(Credentials(api.host)) as client:
            assert await body_of(client, {}) == (302, b"")
        assert thief.requests == []


async def test_a_cookie_is_not_kept() -> None:
    async with api_server() as api:
        api.script.append(reply(answer(200, b"{}", "Set-Cookie: session=1; Path=/")))
        named = api.host.replace("127.0.0.1", "localhost")  # aiohttp keeps no cookies of addresses anyway
        async with Client(Credentials(named)) as client:
            await body_of(client, {})
            await body_of(client, {})
        assert "cookie" not in api.requests[1].headers


async def test_a_query_arrives_as_it_was_meant() -> None:
    async with api_server() as api, Client(Credentials(api.host)) as client:
        await body_of(client, {"resourceVersion": "0", "labelSelector": "a=b,c!=d e+f%2F"})
        assert api.requests[0].query == {"resourceVersion": "0", "labelSelector": "a=b,c!=d e+f%2F"}


async def test_without_a_token_no_authorization_is_sent() -> None:
    async with api_server() as api, Client(Credentials(api.host, token=None)) as client:
        await body_of(client, {})
        assert "authorization" not in api.requests[0].headers


async def test_a_401_renews_the_credentials_once() -> None:
    async with api_server() as api:
        credentials = Credentials(api.host)
        api.script.append(reply(answer(401, b"{}")))
        async with Client(credentials) as client:
            assert (await body_of(client, {}))[0] == 401
            assert (await body_of(client, {}))[0] == 200
        assert credentials.renewals == 1


async def test_nobody_listening_is_a_connection_error_with_the_systems_reason() -> None:
    async with api_server() as api:
        host = api.host
    error = await failing(api, Credentials(host))
    assert error.kind == "connection"
    assert "efused" in str(error)


@pytest.mark.loops("uvloop")
async def test_silence_is_a_timeout() -> None:
    async def never(request: Request, writer: asyncio.StreamWriter) -> None:
        api.silent.add(writer)

    async with api_server() as api:
        api.always = never
        assert (await failing(api)).kind == "timeout"


async def test_what_speaks_no_tls_on_an_https_address_is_a_tls_error() -> None:
    def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server, api_server() as api:
        host = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert (await failing(api, Credentials(host))).kind == "tls"


async def test_unreadable_certificates_are_a_tls_error() -> None:
    async with api_server() as api:
        credentials = Credentials(api.host.replace("http:", "https:"), ssl_ca_cert="/nonexistent/ca.crt")
        error = await failing(api, credentials)
        assert error.kind == "tls"
        assert "No such file" in str(error)


@pytest.mark.parametrize("token", ["s3cret-t0ken\r\nX-Evil: 1", "s3cret-t0ken\x00"])
async def test_a_token_that_is_no_header_is_an_error_and_not_shown(token: str) -> None:
    async with api_server() as api:
        assert (await failing(api, Credentials(api.host, token=token))).kind == "connection"
        assert api.requests == []


@pytest.mark.parametrize(
    "host", ["", "http://", "http://127.0.0.1:99999", "gopher://127.0.0.1", "http://u:s3cret-t0ken@"]
)
async def test_an_address_that_is_none_is_an_error(host: str) -> None:
    async with api_server() as api:
        assert (await failing(api, Credentials(host))).kind == "connection"


@pytest.mark.parametrize(("header", "secs"), [("7", 7.0), ("0", 0.0), ("99999", 99999.0), ("soon", None), ("-1", None)])
async def test_retry_after_is_seconds(header: str, secs: float | None) -> None:
    async with api_server() as api:
        api.script.append(reply(answer(429, b"", f"Retry-After: {header}")))
        async with Client(Credentials(api.host)) as client, client.get(PATH, {}) as answered:
            assert answered.retry_after_secs == secs


def test_a_dead_server_shows_within_90_s_and_a_watch_may_use_its_time() -> None:
    assert CONNECT_SECS + READ_SECS < 90
    assert READ_SECS > WATCH_SECS
