"""TLS to a frontend: whom the client believes, what it says, and how a stream ends there."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gdsvc.errors import Invalid
from gdsvc.frontend.upstream import Cause, Client, Limits, Origin, UpstreamFailed, tls_context
from gdsvc.frontend.upstream.names import Address
from tests.e2e.asgi.test_tls import Authority
from tests.upstream.scripted import GET, OK, PATIENCE, POST, ask, body_of, nothing_left, until

Script = Callable[[ssl.SSLSocket], None]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("upstream"), "ca")


@pytest.fixture(scope="module")
def chain(authority: Authority) -> tuple[Path, Path]:
    return authority.sign("server", "frontend.test")


@contextmanager
def secured(chain: tuple[Path, Path], *scripts: Script, names: list[str | None] | None = None) -> Iterator[int]:
    """A frontend in a thread of blocking sockets, one script for each connection; gives its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*chain)
    context.sni_callback = lambda _socket, name, _context: (names if names is not None else []).append(name)

    def serve(listener: socket.socket) -> None:
        for script in scripts:
            accepted, _ = listener.accept()
            accepted.settimeout(PATIENCE)
            with suppress(OSError), context.wrap_socket(accepted, server_side=True) as connection:
                script(connection)
            accepted.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def request(connection: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    return data


def twice(connection: ssl.SSLSocket) -> None:
    for _ in range(2):
        request(connection)
        connection.sendall(OK)


async def home(_host: str, port: int) -> Sequence[Address]:
    return [Address(socket.AF_INET, ("127.0.0.1", port))]


def at(port: int) -> Origin:
    return Origin("https", "127.0.0.1", port)


async def test_a_private_ca_is_believed_the_name_is_said_and_the_connection_kept(
    authority: Authority, chain: tuple[Path, Path]
) -> None:
    names: list[str | None] = []
    with secured(chain, twice, names=names) as port:
        async with nothing_left(), Client(tls=tls_context(str(authority.path)), lookup=home) as client:
            for _ in range(2):
                assert await ask(client, Origin("https", "frontend.test", port)) == (200, b"ok")
            assert client.counts().reused == 1
    assert names == ["frontend.test"]


@pytest.mark.parametrize("host", ["other.test", "127.0.0.1"])
async def test_another_name_or_authority_never_sees_the_request(
    authority: Authority, chain: tuple[Path, Path], host: str
) -> None:
    seen: list[bytes] = []
    believed = tls_context(str(authority.path)) if host == "other.test" else None  # the system's do not know it
    with secured(chain, lambda connection: seen.append(connection.recv(100))) as port:
        async with nothing_left(), Client(tls=believed, lookup=home) as client:
            with pytest.raises(UpstreamFailed, match="its certificate is not accepted") as caught:
                await ask(client, Origin("https", host, port))
            assert caught.value.cause is Cause.NOT_ESTABLISHED
    assert not any(seen)


async def test_an_address_is_verified_too(authority: Authority, chain: tuple[Path, Path]) -> None:
    with secured(chain, twice) as port:
        async with nothing_left(), Client(tls=tls_context(str(authority.path))) as client:
            for _ in range(2):
                assert await ask(client, at(port)) == (200, b"ok")


async def test_a_large_body_comes_whole_to_a_slow_reader_though_the_peer_leaves_without_a_farewell(
    authority: Authority, chain: tuple[Path, Path]
) -> None:
    size = 3 << 20

    def script(connection: ssl.SSLSocket) -> None:
        request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)

    with secured(chain, script) as port:
        async with (
            nothing_left(),
            Client(tls=tls_context(str(authority.path))) as client,
            client.send(at(port), GET) as response,
        ):
            got = 0
            while part := await response.read():
                got += len(part)
                await asyncio.sleep(0.002)  # slow
            assert got == size


async def test_a_large_upload_passes(authority: Authority, chain: tuple[Path, Path]) -> None:
    received: list[int] = []

    def script(connection: ssl.SSLSocket) -> None:
        got = len(request(connection).partition(b"\r\n\r\n")[2])
        while got < 4 << 20:
            got += len(connection.recv(65536))
        received.append(got)
        connection.sendall(OK)

    with secured(chain, script) as port:
        async with nothing_left(), Client(tls=tls_context(str(authority.path))) as client:
            assert await ask(client, at(port), POST, b"x" * (4 << 20)) == (200, b"ok")
    assert received == [4 << 20]


@pytest.mark.parametrize("polite", [True, False])
async def test_only_a_farewell_ends_a_body_without_a_length(
    authority: Authority, chain: tuple[Path, Path], polite: bool
) -> None:
    def script(connection: ssl.SSLSocket) -> None:
        request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nbody")
        if polite:
            with suppress(OSError):
                connection.unwrap()

    with secured(chain, script) as port:
        async with (
            nothing_left(),
            Client(tls=tls_context(str(authority.path))) as client,
            client.send(at(port), GET) as response,
        ):
            if polite:
                assert await body_of(response) == b"body"
                return
            with pytest.raises(UpstreamFailed) as caught:
                await body_of(response)
            assert caught.value.cause is Cause.BROKEN_OFF


@pytest.mark.parametrize("polite", [True, False])
async def test_a_stale_connection_is_known_as_unread(
    authority: Authority, chain: tuple[Path, Path], polite: bool
) -> None:
    closed = threading.Event()
    idle = threading.Event()

    def script(connection: ssl.SSLSocket) -> None:
        request(connection)
        connection.sendall(OK)
        idle.wait(PATIENCE)
        if polite:
            connection.setblocking(False)
            with suppress(OSError):
                connection.unwrap()
        connection.close()
        closed.set()

    with secured(chain, script) as port:
        async with nothing_left(), Client(tls=tls_context(str(authority.path))) as client:
            await ask(client, at(port))
            idle.set()
            closed.wait(PATIENCE)  # the loop stands still, so that it does not learn of it before it sends
            with pytest.raises(UpstreamFailed) as caught:
                await ask(client, at(port), POST, b"{}")
            assert caught.value.cause is Cause.UNREAD


async def test_a_peer_that_speaks_no_tls_is_not_established() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            accepted, _ = listener.accept()
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            accepted.close()

        thread = threading.Thread(target=greet)
        thread.start()
        async with nothing_left(), Client() as client:
            with pytest.raises(UpstreamFailed, match=r"TLS|reset|closed") as caught:
                await ask(client, at(listener.getsockname()[1]))
            assert caught.value.cause is Cause.NOT_ESTABLISHED
        thread.join()


async def test_a_handshake_that_never_ends_is_given_up_and_its_socket_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts, nobody speaks
        async with nothing_left(), Client(Limits(connect_secs=0.1)) as client:
            with pytest.raises(UpstreamFailed) as caught:
                await ask(client, at(listener.getsockname()[1]))
            assert caught.value.cause is Cause.NOT_ESTABLISHED
            await until(lambda: client.counts().open == 0)


def test_files_that_hold_no_authority_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for path in ("empty.pem", "missing.pem"):
        with pytest.raises(Invalid, match="ca_path"):
            tls_context(str(tmp_path / path))
