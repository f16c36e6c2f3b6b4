"""TLS of the embedded server, with certificates made for the test."""

import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.server import ListenFailed, Tls
from gdsvc.asgi.types import Receive, Scope, Send

LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def scheme(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, Response(200, scope["scheme"].encode()))


class Authority:
    """A CA whose files and the files of what it signs lie in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = self._signed(name, self._name, self._key, authority=True)

    def sign(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Certificate and key for 127.0.0.1 and the named hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(name, subject, key, *hosts, authority=False)
        key_path = self._folder / f"{name}.key"
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, key_path

    def _signed(
        self, name: str, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *hosts: str, authority: bool
    ) -> Path:
        now = dt.datetime.now(dt.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([address, *map(x509.DNSName, hosts)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def asked(port: int, context: ssl.SSLContext) -> tuple[str | None, bytes]:
    """The TLS version spoken and the whole response."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as caller,
    ):
        caller.sendall(LAST)
        response = b""
        while chunk := caller.recv(65536):
            response += chunk
        return caller.version(), response


@pytest.mark.parametrize(
    ("version", "spoken"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
def test_tls_1_2_and_1_3_are_spoken(
    serve: Callable[..., Any], authority: Authority, version: ssl.TLSVersion, spoken: str
) -> None:
    port = serve(scheme, tls=Tls(*authority.sign("server"))).server.port
    context = ssl.create_default_context(cafile=authority.path)
    context.minimum_version = context.maximum_version = version
    seen, response = asked(port, context)
    assert seen == spoken
    assert response.endswith(b"\r\n\r\nhttps")


def test_with_a_client_ca_only_its_clients_are_served(
    serve: Callable[..., Any], authority: Authority, stranger: Authority
) -> None:
    port = serve(scheme, tls=Tls(*authority.sign("server"), client_ca_path=authority.path)).server.port
    context = ssl.create_default_context(cafile=authority.path)
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        asked(port, context)
    context.load_cert_chain(*stranger.sign("client"))
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        asked(port, context)
    context.load_cert_chain(*authority.sign("client"))
    assert asked(port, context)[1].endswith(b"\r\n\r\nhttps")


def test_a_key_of_another_certificate_is_refused_at_the_start(serve: Callable[..., Any], authority: Authority) -> None:
    certificate, _ = authority.sign("one")
    _, key = authority.sign("other")
    with pytest.raises(ListenFailed, match=r"one\.pem and .*other\.key are no certificate with its"):
        serve(scheme, tls=Tls(certificate, key))


def test_a_client_ca_without_certificate_is_refused_at_the_start(
    serve: Callable[..., Any], authority: Authority
) -> None:
    certificate, key = authority.sign("server")
    with pytest.raises(ListenFailed, match=r"server\.key holds no certificate"):
        serve(scheme, tls=Tls(certificate, key, client_ca_path=key))
