"""Whether the TLS files can be served with: there, readable, PEM of the right kind, key and certificate a pair.

Reads files, keeps nothing of them, and never asks for a passphrase.
"""

import base64
import re
import ssl
from pathlib import Path

from gdsvc.settings.values import Expected

MOST_PEM_BYTES = 4 * 2**20  # a bundle of all public CAs has a quarter of a megabyte
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_ENCRYPTED = "expected a private key that is not encrypted"
_EC_KEY = bytes.fromhex("06072a8648ce3d0201")  # object identifiers in DER: id-ecPublicKey,
_CURVES = (bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06052b81040022"))  # P-256, P-384,
_ED448 = bytes.fromhex("06032b6571")  # id-Ed448
_NOT_A_PAIR = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}


def check_certificates(path: Path) -> None:
    """Raises Expected unless the file holds at least one certificate and all that it holds can be read."""
    blocks = _CERTIFICATE.findall(_read(path))
    if not blocks:
        raise Expected("expected a PEM file with a certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=b"\n".join(blocks).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise Expected("expected a PEM file whose certificates can be read") from None


def check_key(path: Path) -> None:
    """Raises Expected unless the file holds a private key that is not encrypted."""
    match = _KEY.search(_read(path))
    if match is None:
        raise Expected("expected a PEM file with a private key")
    if b"ENCRYPTED" in match[1] or b"Proc-Type: 4,ENCRYPTED" in match[0]:
        raise Expected(_ENCRYPTED)
    _check_algorithm(match[0])


def _check_algorithm(block: bytes) -> None:
    """Raises Expected where the TLS library of the server is known to end the process over such a key."""
    try:
        der = base64.b64decode(b"".join(line for line in block.splitlines() if b"-" not in line and b":" not in line))
    except ValueError:
        return  # OpenSSL says it better
    elliptic = b"BEGIN EC PRIVATE" in block or _EC_KEY in der
    if (elliptic and not any(curve in der for curve in _CURVES)) or _ED448 in der[:32]:
        raise Expected("expected an RSA key, an Ed25519 key, or one on the curve P-256 or P-384")


def check_pair(cert_path: Path, key_path: Path) -> None:
    """Raises Expected, said of the key, unless it belongs to the certificate. Both passed their own check."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_path, key_path, password=_refuse)
    except ssl.SSLError as error:
        if error.reason in _NOT_A_PAIR:
            raise Expected("expected the private key of the certificate in --tls-cert-path") from None
        raise Expected(f"expected a private key that OpenSSL can use ({error.reason or 'it cannot be read'})") from None
    except OSError as error:
        raise Expected(f"expected a readable file ({error.strerror})") from None


def _refuse() -> str:
    raise Expected(_ENCRYPTED)


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise Expected("expected a file, found a directory")
        if path.exists() and not path.is_file():
            raise Expected("expected a regular file")  # a pipe or a device may never end
        with path.open("rb") as file:
            content = file.read(MOST_PEM_BYTES + 1)
    except OSError as error:
        raise Expected(f"expected a readable file ({error.strerror})") from None
    if len(content) > MOST_PEM_BYTES:
        raise Expected(f"expected a PEM file of at most {MOST_PEM_BYTES} bytes")
    return content
