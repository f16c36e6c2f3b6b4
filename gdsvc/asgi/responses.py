"""Sends whole responses in two ASGI messages, their length always stated. Streams are framed where they are made."""

import math
from typing import Final

from gdsvc.asgi.types import ResponseBody, ResponseStart, Send

_WITHOUT_CONTENT: Final = frozenset({204, 304})  # RFC 9110: a 204 has no Content-Length, a 304 no content


_JSON: Final = b"application/json"


class Response:
    """A whole response, framed once: one that is sent often costs nothing but the sending.

    `headers` are added to Content-Type and Content-Length, which come from the other arguments.
    """

    __slots__ = ("body", "end", "headers", "start", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes = _JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        if status in _WITHOUT_CONTENT:
            self.body = b""
        else:
            self.headers = (*self.headers, (b"content-length", b"%d" % len(body)))
            if body:
                self.headers = (*self.headers, (b"content-type", content_type))
        self.start: ResponseStart = {"type": "http.response.start", "status": status, "headers": self.headers}
        self.end: ResponseBody = {"type": "http.response.body", "body": self.body}


_NO_BODY: Final[ResponseBody] = {"type": "http.response.body", "body": b""}
_CLOSE: Final = (b"connection", b"close")


async def respond(send: Send, response: Response, *, head: bool = False) -> None:
    """Send `response`; with `head` its headers alone, Content-Length being that of the body left out."""
    await send(response.start)
    await send(_NO_BODY if head else response.end)


async def respond_and_close(send: Send, response: Response) -> None:
    """Send `response` as the last on its connection."""
    headers = response.headers if _CLOSE in response.headers else (*response.headers, _CLOSE)
    await send({**response.start, "headers": headers})
    await send(response.end)


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header that asks a caller to come back in `seconds`, rounded up to whole ones, 1 or more."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))
