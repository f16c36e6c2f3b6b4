import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from gdsvc.settings import Usage, parse_serve
from gdsvc.settings.tls import check_key

PEM = serialization.Encoding.PEM
PLAIN = serialization.NoEncryption()


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(Usage) as caught:
        parse_serve(argv, {})
    return caught.value.faults


def fault(*argv: str) -> str:
    (line,) = faults(*argv)
    return line


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> bytes:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else PLAIN
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)


def certificate_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    since = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(since).not_valid_after(since.replace(year=2124))
    return builder.sign(key, hashes.SHA256()).public_bytes(PEM)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    certificate = certificate_pem(key)
    old_style = key.private_bytes(
        PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.BestAvailableEncryption(b"x")
    )
    contents = {
        "cert": "# Autorité\n".encode() + certificate + certificate_pem(other),
        "key": key_pem(key),
        "other-key": key_pem(other),
        "encrypted": key_pem(key, b"secret"),
        "encrypted-old": old_style,
        "empty": b"",
        "garbled-cert": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "garbled-key": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "cut-cert": certificate[:-40],
    }
    folder = tmp_path_factory.mktemp("tls")
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in (*contents, "missing")} | {"folder": folder}


def tls_faults(files: Mapping[str, Path], cert: str, key: str, ca: str | None = None) -> list[str]:
    argv = [f"--tls-cert-path={files[cert]}", f"--tls-key-path={files[key]}"]
    return list(faults(*argv, *([f"--tls-client-ca-path={files[ca]}"] if ca else [])))


def test_a_certificate_with_its_key_and_a_client_ca_are_taken(files: Mapping[str, Path]) -> None:
    cert, key = files["cert"], files["key"]
    settings = parse_serve(
        ["--tls-cert-path", str(cert), "--tls-key-path", str(key)], {"GDSVC_TLS_CLIENT_CA_PATH": str(cert)}
    )
    assert (settings.tls_cert_path, settings.tls_key_path, settings.tls_client_ca_path) == (cert, key, cert)


def test_certificate_and_key_require_each_other_and_a_client_ca_both(files: Mapping[str, Path]) -> None:
    cert, key = str(files["cert"]), str(files["key"])
    assert fault("--tls-cert-path", cert) == "--tls-cert-path: expected together with --tls-key-path"
    assert fault("--tls-key-path", key) == "--tls-key-path: expected together with --tls-cert-path"
    ca_alone = "--tls-client-ca-path: expected together with --tls-cert-path and --tls-key-path"
    assert fault("--tls-client-ca-path", cert) == ca_alone


@pytest.mark.parametrize(
    ("cert", "expected"),
    [
        ("empty", "expected a PEM file with a certificate"),
        ("key", "expected a PEM file with a certificate"),
        ("cut-cert", "expected a PEM file with a certificate"),
        ("garbled-cert", "expected a PEM file whose certificates can be read"),
        ("folder", "expected a file, found a directory"),
        ("missing", "expected a readable file (No such file or directory)"),
    ],
)
def test_a_file_without_certificate_is_named(files: Mapping[str, Path], cert: str, expected: str) -> None:
    served, client = tls_faults(files, cert, "key", ca=cert)
    assert served.startswith(f"--tls-cert-path: {expected}, got ")
    assert client.startswith(f"--tls-client-ca-path: {expected}, got ")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("cert", "expected a PEM file with a private key"),
        ("garbled-key", "expected a private key that OpenSSL can use"),
        ("other-key", "expected the private key of the certificate in --tls-cert-path"),
        ("encrypted", "expected a private key that is not encrypted"),
        ("encrypted-old", "expected a private key that is not encrypted"),
        ("folder", "expected a file, found a directory"),
        ("missing", "expected a readable file (No such file or directory)"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(files: Mapping[str, Path], key: str, expected: str) -> None:
    (line,) = tls_faults(files, "cert", key)
    assert line.startswith(f"--tls-key-path: {expected}")


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "/dev/zero"])
def test_a_path_that_names_no_file_is_a_fault(path: str, files: Mapping[str, Path]) -> None:
    assert fault(f"--tls-cert-path={path}", f"--tls-key-path={files['key']}").startswith("--tls-cert-path: expected ")


def test_a_pipe_is_never_read(files: Mapping[str, Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    line = fault(f"--tls-cert-path={tmp_path / 'pipe'}", f"--tls-key-path={files['key']}")
    assert line.startswith("--tls-cert-path: expected a regular file, got ")


REFUSED = "expected an RSA key, an Ed25519 key, or one on the curve P-256 or P-384"
FORMATS = [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL]


@pytest.mark.parametrize("form", FORMATS, ids=["PKCS8", "traditional"])
@pytest.mark.parametrize("curve", [ec.SECP521R1(), ec.SECP256K1(), ec.SECP224R1()], ids=["P-521", "secp256k1", "P-224"])
def test_a_curve_over_which_the_server_would_end_is_refused(
    curve: ec.EllipticCurve, form: serialization.PrivateFormat, tmp_path: Path
) -> None:
    key = ec.generate_private_key(curve)
    (tmp_path / "cert").write_bytes(certificate_pem(key))
    (tmp_path / "key").write_bytes(key.private_bytes(PEM, form, PLAIN))
    line = fault("--tls-cert-path", str(tmp_path / "cert"), "--tls-key-path", str(tmp_path / "key"))
    assert line.startswith(f"--tls-key-path: {REFUSED}")


@pytest.mark.parametrize("form", FORMATS, ids=["PKCS8", "traditional"])
@pytest.mark.parametrize("kind", ["P-256", "P-384", "RSA", "Ed25519"])
def test_the_usual_kinds_of_key_are_taken(kind: str, form: serialization.PrivateFormat, tmp_path: Path) -> None:
    if kind == "Ed25519" and form is serialization.PrivateFormat.TraditionalOpenSSL:
        form = serialization.PrivateFormat.PKCS8  # it has no other
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    if kind == "RSA":
        key = rsa.generate_private_key(65537, 2048)
    elif kind == "Ed25519":
        key = ed25519.Ed25519PrivateKey.generate()
    else:
        key = ec.generate_private_key(ec.SECP256R1() if kind == "P-256" else ec.SECP384R1())
    (tmp_path / "key").write_bytes(key.private_bytes(PEM, form, PLAIN))
    check_key(tmp_path / "key")
