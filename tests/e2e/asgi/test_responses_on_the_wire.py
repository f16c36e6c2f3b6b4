"""What granian makes of our two messages, byte by byte."""

from collections.abc import Callable
from typing import Any

import pytest

from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.types import Receive, Scope, Send

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, Response(200, b"hello"), head=scope["method"] == "HEAD")


def test_head_states_the_length_of_get_and_sends_no_body(serve: Callable[..., Any]) -> None:
    head, _, behind = serve(hello).exchange(GET.replace(b"GET", b"HEAD") + LAST).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\ncontent-length: 5\r\n" in head
    assert behind.startswith(b"HTTP/1.1 200 ")  # the next response follows at once
    assert behind.endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_content_ends_with_its_headers(serve: Callable[..., Any], status: int) -> None:
    async def empty(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, Response(status, headers=((b"etag", b'"1"'),)))

    head, _, behind = serve(empty).exchange(GET + LAST).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b'etag: "1"' in head
    assert b"content-length" not in head
    assert behind.startswith(b"HTTP/1.1 %d " % status)


def test_an_empty_response_keeps_the_connection(serve: Callable[..., Any]) -> None:
    async def empty(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, Response(200))

    assert serve(empty).exchange(GET + LAST).count(b"content-length: 0\r\n") == 2


def test_the_scope_holds_the_path_undecoded_and_the_query_apart(serve: Callable[..., Any]) -> None:
    scopes: list[Scope] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await respond(send, Response(200))

    request = b"GET /a%2Fb/../%zz?m=%2F&m HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\nConnection: close\r\n\r\n"
    serve(noting).exchange(request)
    assert scopes[0]["raw_path"] == b"/a%2Fb/../%zz"
    assert scopes[0]["query_string"] == b"m=%2F&m"
    assert [value for name, value in scopes[0]["headers"] if name == b"x-two"] == [b"1", b"2"]
