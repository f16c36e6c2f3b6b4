"""Whom the client believes, and how it shows who it is, over TLS; and that it leaves without a farewell."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from gdsvc.kube.client import Client, Unreachable
from tests.e2e.asgi.test_tls import Authority
from tests.kube.api_server import HEAD, api_server
from tests.kube.stand import Credentials

PATH = "/apis/discovery.k8s.io/v1/endpointslices"


def serving(chain: tuple[Path, Path], clients: Path | None = None) -> ssl.SSLContext:
    """A server's TLS; with `clients`, a certificate of that CA is required."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    context.load_cert_chain(*chain)
    context.verify_mode = ssl.CERT_NONE if clients is None else ssl.CERT_REQUIRED
    return context


async def status_of(client: Client) -> int:
    async with client.get(PATH, {}) as reply:
        assert b"EndpointSliceList" in await reply.beginning()
        return reply.status


async def test_a_server_of_the_clusters_ca_is_believed(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    async with (
        api_server(tls=serving(authority.sign("server"))) as api,
        Client(Credentials(api.host, ssl_ca_cert=str(authority.path))) as client,
    ):
        assert await status_of(client) == 200


@pytest.mark.parametrize(("believed", "name"), [("other", None), ("ca", "api.example.test")])
async def test_a_server_of_another_ca_or_name_never_sees_the_token(
    tmp_path: Path, believed: str, name: str | None
) -> None:
    authority, other = Authority(tmp_path, "ca"), Authority(tmp_path, "other")
    ca = authority if believed == "ca" else other
    async with api_server(tls=serving(authority.sign("server"))) as api:
        async with Client(Credentials(api.host, ssl_ca_cert=str(ca.path), tls_server_name=name)) as client:
            with pytest.raises(Unreachable) as caught:
                await status_of(client)
        assert caught.value.kind == "tls"
        assert api.requests == []


async def test_verification_can_be_turned_off_by_the_kubeconfig(tmp_path: Path) -> None:
    async with (
        api_server(tls=serving(Authority(tmp_path, "ca").sign("server"))) as api,
        Client(Credentials(api.host, verify_ssl=False)) as client,
    ):
        assert await status_of(client) == 200


async def test_a_client_certificate_is_shown_and_a_new_one_is_used(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path, "ca"), Authority(tmp_path, "other")
    async with api_server(tls=serving(authority.sign("server"), clients=other.path)) as api:
        first, second = authority.sign("first"), other.sign("second")
        credentials = Credentials(
            api.host, ssl_ca_cert=str(authority.path), cert_file=str(first[0]), key_file=str(first[1])
        )
        async with Client(credentials) as client:
            with pytest.raises(Unreachable):
                await status_of(client)
            credentials.cert_file, credentials.key_file = str(second[0]), str(second[1])
            assert await status_of(client) == 200


async def test_a_ca_file_that_was_replaced_is_read_again_after_a_failure(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path, "ca"), Authority(tmp_path, "other")
    ca = tmp_path / "mounted.crt"
    ca.write_bytes(other.path.read_bytes())
    async with (
        api_server(tls=serving(authority.sign("server"))) as api,
        Client(Credentials(api.host, ssl_ca_cert=str(ca))) as client,
    ):
        with pytest.raises(Unreachable):
            await status_of(client)
        ca.write_bytes(authority.path.read_bytes())
        assert await status_of(client) == 200


@contextlib.contextmanager
def deaf_server(tls: ssl.SSLContext) -> Iterator[str]:
    """Begins an answer, then neither reads nor closes: no farewell is answered. Gives its URL."""
    over = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with tls.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True) as secured:
            secured.recv(1 << 16)
            secured.sendall(HEAD)
            over.wait(10.0)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join()


def test_a_watch_that_is_left_does_not_outlive_the_event_loop(tmp_path: Path) -> None:
    """A connection that waits for the peer's farewell made uvloop refuse to close, at every other end of a service."""
    authority = Authority(tmp_path, "ca")

    async def watch_and_leave(host: str) -> None:
        async with Client(Credentials(host, ssl_ca_cert=str(authority.path))) as client, client.get(PATH, {}) as reply:
            assert reply.status == 200

    with (
        deaf_server(serving(authority.sign("server"))) as host,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(watch_and_leave(host))
