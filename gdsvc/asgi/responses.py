"""Sends whole responses in two ASGI messages, their length always stated. Streams are framed where they are made."""

import math
from typing import Final

import msgspec

from gdsvc.asgi.types import Send

_WITHOUT_CONTENT: Final = frozenset({204, 304})  # RFC 9110: a 204 has no Content-Length, a 304 no content


class Response(msgspec.Struct, frozen=True):
    """A response as data. `headers` are added to Content-Type and Content-Length, which come from the other members."""

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


async def respond(send: Send, response: Response, *, head: bool = False) -> None:
    """Send `response`; with `head` its headers alone, Content-Length being that of the body left out."""
    headers = list(response.headers)
    body = response.body
    if response.status in _WITHOUT_CONTENT:
        body = b""
    else:
        headers.append((b"content-length", b"%d" % len(body)))
        if body:
            headers.append((b"content-type", response.content_type))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header that asks a caller to come back in `seconds`, rounded up to whole ones, 1 or more."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))
