"""HTTPS of the whole service: protocol versions, client certificates, and files that cannot be served with."""

import datetime as dt
import ssl
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.process import SERVE, Serve, run_to_end
from tests.e2e.wire import Closed, Connection, pool

DAY = dt.timedelta(days=1)


class Pair(NamedTuple):
    """PEM files of a certificate and its key, and both as objects, to sign others with."""

    cert: Path
    key: Path
    signed: x509.Certificate
    signer: ec.EllipticCurvePrivateKey


def make_pair(directory: Path, name: str, issuer: Pair | None = None) -> Pair:
    """A certificate for localhost and 127.0.0.1, signed by `issuer`, else a CA signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.signed.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(issuer.signer if issuer else key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    cert_path, key_path = directory / f"{name}.crt", directory / f"{name}.key"
    cert_path.write_bytes(signed.public_bytes(pem))
    key_path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return Pair(cert_path, key_path, signed, key)


class Files(NamedTuple):
    """A CA, a server of it, a client of it, and a client of nobody."""

    ca: Pair
    server: Pair
    client: Pair
    stranger: Pair


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("tls")
    ca = make_pair(directory, "ca")
    return Files(
        ca, make_pair(directory, "server", ca), make_pair(directory, "client", ca), make_pair(directory, "stranger")
    )


def client_context(files: Files, version: ssl.TLSVersion | None = None, shown: Pair | None = None) -> ssl.SSLContext:
    """A client that checks the server, speaks exactly `version`, and shows the certificate `shown`."""
    context = ssl.create_default_context(cafile=str(files.ca.cert))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def tls_flags(pair: Pair) -> list[str]:
    return ["--tls-cert-path", str(pair.cert), "--tls-key-path", str(pair.key)]


def test_callers_of_tls_1_2_and_1_3_are_served(serve: Serve, files: Files) -> None:
    service = serve(*tls_flags(files.server), tls=client_context(files))
    versions = {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}
    for version, name in versions.items():
        with Connection(service.port, tls=client_context(files, version)) as connection:
            assert isinstance(connection.socket, ssl.SSLSocket)
            assert connection.socket.version() == name
            for _ in range(3):
                assert connection.post("/pools", pool(name)).status == 200
    assert service.names() == sorted(versions.values())


def test_a_caller_without_tls_is_no_harm(serve: Serve, files: Files) -> None:
    service = serve(*tls_flags(files.server), tls=client_context(files))
    with Connection(service.port) as connection, pytest.raises((Closed, ConnectionError, ValueError)):
        connection.get("/live")
    assert service.get("/live").status == 200


def test_a_handshake_that_never_ends_holds_up_nobody(serve: Serve, files: Files) -> None:
    service = serve(*tls_flags(files.server), tls=client_context(files))
    silent = [Connection(service.port) for _ in range(50)]
    assert service.post("/pools", pool("a")).status == 200
    for connection in silent:
        connection.close()


def test_with_a_client_ca_only_its_clients_are_let_in(serve: Serve, files: Files) -> None:
    service = serve(
        *tls_flags(files.server),
        *("--tls-client-ca-path", str(files.ca.cert)),
        tls=client_context(files, shown=files.client),
    )
    assert service.post("/pools", pool("known")).status == 200
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for shown in (None, files.stranger):
            with (
                pytest.raises((ssl.SSLError, Closed, ConnectionError)),
                Connection(service.port, tls=client_context(files, version, shown)) as connection,
            ):
                connection.post("/pools", pool("unknown"))
    assert service.names() == ["known"]


@pytest.mark.parametrize("fault", ["wrong pair", "no such file", "no certificate", "key for certificate"])
def test_files_that_cannot_be_served_with_are_named(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would be cut in the message
    text = Path("text.pem")
    text.write_text("no PEM\n")
    cert, key, named = {
        "wrong pair": (files.server.cert, files.client.key, files.client.key),
        "no such file": (Path("missing.crt"), files.server.key, Path("missing.crt")),
        "no certificate": (text, files.server.key, text),
        "key for certificate": (files.server.key, files.server.key, files.server.key),
    }[fault]
    ended = run_to_end(*SERVE, "--listen", "127.0.0.1:0", "--tls-cert-path", str(cert), "--tls-key-path", str(key))
    assert ended.returncode in (1, 2)
    assert named.name in ended.stderr
    assert "Traceback" not in ended.stderr
