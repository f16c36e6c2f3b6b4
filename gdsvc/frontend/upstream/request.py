"""What is sent: the head as bytes, with the framing that the body needs. Decides on no header of the caller's."""

from collections.abc import AsyncIterable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from gdsvc._request import RequestWriter
from gdsvc.errors import GdsvcError
from gdsvc.frontend.upstream.origin import Origin

OURS: Final = frozenset(
    (b"connection", b"content-length", b"expect", b"host", b"keep-alive", b"transfer-encoding", b"upgrade")
)
"""Names, in lower case, of the headers that this client writes itself or that are between two hops alone."""

_BODILESS: Final = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))  # no length is said where there is no body

_JOINED_BYTES: Final = 1 << 14  # a body up to this is copied behind its head: one system call

WRITER: Final = RequestWriter(OURS, _BODILESS, _JOINED_BYTES)


class Unsendable(GdsvcError, ValueError):
    """The request cannot be sent as it is; nothing of it was."""


class RequestHead(Struct, frozen=True):
    """A request line and headers, which go out in this order and case; none of them may be one of OURS.

    With `expect_continue` the body waits for `100 Continue`, for `Limits.continue_secs` at most, and is kept back where
    a final reply comes instead.
    """

    method: bytes
    target: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()
    expect_continue: bool = False


class Streamed(Struct, frozen=True):
    """A body that arrives bit by bit. Without a `length` it is sent in chunks.

    `source` is iterated once, in a task of the exchange that is cancelled where the exchange ends first; closing it
    is the business of who made it.
    """

    source: AsyncIterable[bytes]
    length: int | None = None


Body: TypeAlias = bytes | Streamed


def host_line(origin: Origin) -> bytes:
    """What stands behind the target of a request to `origin`, up to the end of the Host line."""
    return b" HTTP/1.1\r\nHost: %b\r\n" % origin.authority.encode()


def unsendable(head: RequestHead) -> Unsendable:
    """Why WRITER did not write it."""
    return Unsendable(_fault(head))


def _fault(head: RequestHead) -> str:
    for name, value in head.headers:
        if name.lower() in OURS:
            return f"the header {name.decode('latin-1')} is not the caller's to set"
        if any(byte in name + value for byte in b"\r\n\0"):
            return "a header contains a line break or NUL"
    if not head.method.isalpha() or not head.target or any(byte in head.target for byte in b" \r\n\0"):
        return "expected a method of letters and a target without spaces, line breaks and NUL"
    return "expected a length that is not negative"
