"""ASGI as granian speaks it (HTTP only: no lifespan, no websockets). Names for the type checker; nothing runs here."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, NotRequired, TypeAlias, TypedDict

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


Scope = TypedDict(
    "Scope",
    {
        "type": Literal["http"],
        "http_version": str,
        "method": str,
        "scheme": str,
        "path": str,
        "raw_path": bytes,
        "query_string": bytes,
        "headers": list[tuple[bytes, bytes]],
        "client": tuple[str, str],
        "server": tuple[str, str],
        "gdsvc.fields": NotRequired[dict[bytes, bytes]],  # what `header` made of the headers
    },
)
Scope.__doc__ = "One request. Header names are lower case; `raw_path` is undecoded and has no query."


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
    fields = scope.get("gdsvc.fields")
    if fields is None:
        fields = scope["gdsvc.fields"] = _fields(scope["headers"])
    return fields.get(name)


def _fields(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    fields = dict(headers)
    if len(fields) == len(headers):
        return fields
    fields.clear()
    for name, value in headers:
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields
