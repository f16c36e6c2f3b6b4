"""ASGI as granian speaks it (HTTP only: no lifespan, no websockets). Names for the type checker; nothing runs here."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, NotRequired, TypeAlias, TypedDict

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Scope(TypedDict):
    """One request. Header names are lower case; `raw_path` is undecoded and has no query; the ports are texts."""

    type: Literal["http"]
    http_version: str
    method: str
    scheme: str
    path: str
    raw_path: bytes
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, str]
    server: tuple[str, str]


class Received(TypedDict):
    """`http.request` with a chunk of the body, or `http.disconnect` with neither member."""

    type: Literal["http.request", "http.disconnect"]
    body: NotRequired[bytes]
    more_body: NotRequired[bool]


class ResponseStart(TypedDict):
    type: Literal["http.response.start"]
    status: int
    headers: Headers


class ResponseBody(TypedDict):
    type: Literal["http.response.body"]
    body: bytes
    more_body: NotRequired[bool]


Sent: TypeAlias = ResponseStart | ResponseBody
Receive: TypeAlias = Callable[[], Awaitable[Received]]
Send: TypeAlias = Callable[[Sent], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def header(scope: Scope, name: bytes) -> bytes | None:
    """The field `name` (lower case); a repeated one is joined with commas (RFC 9110 section 5.3); None when absent."""
    found: bytes | None = None
    for key, value in scope["headers"]:
        if key == name:
            found = value if found is None else found + b", " + value
    return found
