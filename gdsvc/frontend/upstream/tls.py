"""TLS over bytes: what the socket gives goes in, what the socket shall send comes out. Does no I/O.

The transports of the event loops hide the socket at the end of a connection, when TCP_INFO must be read, and uvloop's
drops what a paused reader has not taken yet where the peer leaves without a farewell; so the records are handled here.
"""

import os
import ssl
from typing import Final

from gdsvc.errors import Invalid

_PLAIN_BYTES: Final = 1 << 18  # taken out of the records at once


def tls_context(ca_path: str | None = None) -> ssl.SSLContext:
    """A client's context that believes `ca_path`, or the system's authorities; reads files. Raises Invalid."""
    try:
        context = ssl.create_default_context(cafile=ca_path)
    except ssl.SSLError:
        raise Invalid("expected a PEM file with certificates", "ca_path") from None
    except OSError as error:
        raise Invalid(f"expected a readable file ({os.strerror(error.errno or 0)})", "ca_path") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that writing never waits for reading
    context.set_alpn_protocols(["http/1.1"])
    return context


class Tls:
    """The TLS of one connection to `host`, which is verified, and named in SNI where it is no address."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_established = False
        self.is_ended = False  # by the peer's farewell

    def shake(self, data: bytes = b"") -> bool:
        """One step of the handshake; says whether it was the last. Raises ssl.SSLError, with an alert in `outgoing`."""
        self._incoming.write(data)
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        return True

    def receive(self, data: bytes) -> bytes:
        """What `data` makes whole. Raises ssl.SSLError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._session.read(_PLAIN_BYTES):
                parts.append(part)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(parts)

    def seal(self, data: bytes) -> bytes:
        """The bytes that carry `data`, behind what was still to be sent. Raises ssl.SSLError."""
        self._session.write(data)
        return self._outgoing.read()

    def outgoing(self) -> bytes:
        """What TLS itself has to send; empty where that is nothing."""
        return self._outgoing.read()
