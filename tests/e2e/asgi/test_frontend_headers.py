"""The headers of a reply through the server itself, which adds some of its own."""

from collections.abc import Callable
from typing import Any

import pytest

from gdsvc.asgi.types import Receive, Scope, Send
from gdsvc.frontend.headers import TOWARDS_CALLER

LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
Fields = list[tuple[bytes, bytes]]


class Replying:
    """An app that passes a reply on."""

    def __init__(self, headers: Fields) -> None:
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": TOWARDS_CALLER(self._headers)})
        await send({"type": "http.response.body", "body": b"abc"})


def received(answer: bytes) -> Fields:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b"abc"
    return [(name, value) for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])]


@pytest.mark.parametrize(
    "name",
    [b"Date", b"Server", b"Content-Length"],
)
def test_what_a_pool_says_itself_the_server_does_not_say_again(serve: Callable[..., Any], name: bytes) -> None:
    value = b"3" if name == b"Content-Length" else b"of the pool"
    fields = received(serve(Replying([(name, value)])).exchange(LAST))
    assert [field for field in fields if field[0] == name.lower()] == [(name.lower(), value)]


def test_repetitions_reach_the_caller_in_their_order_and_framing_of_the_pool_does_not(
    serve: Callable[..., Any],
) -> None:
    headers = [
        (b"Set-Cookie", b"a=1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"keep-alive, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"b=2"),
        (b"X-Latin", b"\xe9"),
    ]
    fields = received(serve(Replying(headers)).exchange(LAST))
    assert [value for name, value in fields if name == b"set-cookie"] == [b"a=1", b"b=2"]
    assert {b"x-latin": b"\xe9", b"via": b"1.1 gdsvc", b"content-length": b"3"}.items() <= dict(fields).items()
    assert not {b"transfer-encoding", b"x-hop", b"keep-alive"} & dict(fields).keys()
