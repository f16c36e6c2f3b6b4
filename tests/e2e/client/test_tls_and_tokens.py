"""Private CAs, client certificates and bearer tokens of the client, and what is said where they do not fit."""

from pathlib import Path

import pytest

from gdsvc.client import (
    InvalidOptions,
    NotDiscovery,
    Unreachable,
)
from tests.e2e.client.asking import asking, well
from tests.e2e.client.scripted import ScriptedServer
from tests.e2e.process import Serve
from tests.e2e.test_tls import Files, client_context, files, tls_flags  # noqa: F401 - `files` is a fixture

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop


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
