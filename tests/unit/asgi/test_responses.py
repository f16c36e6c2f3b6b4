"""Whole responses: two messages, the length stated wherever it may be."""

import asyncio

import pytest

from gdsvc.asgi.responses import Response, respond, retry_after
from gdsvc.asgi.types import Sent


def sent(response: Response, *, head: bool = False) -> tuple[int, dict[bytes, bytes], bytes]:
    messages: list[Sent] = []

    async def send(message: Sent) -> None:
        messages.append(message)

    asyncio.run(respond(send, response, head=head))
    start, body = messages
    assert start["type"] == "http.response.start"
    assert body["type"] == "http.response.body"
    assert not body.get("more_body", False)
    return start["status"], dict(start["headers"]), body["body"]


def test_a_response_states_its_length_and_type() -> None:
    headers = {b"content-length": b"2", b"content-type": b"application/json", b"etag": b'"1"'}
    assert sent(Response(200, b"{}", headers=((b"etag", b'"1"'),))) == (200, headers, b"{}")


def test_head_has_the_headers_of_the_body_it_leaves_out() -> None:
    response = Response(200, b"hello", b"text/plain")
    assert sent(response, head=True)[:2] == sent(response)[:2]
    assert sent(response, head=True)[2] == b""


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_content_has_neither_length_nor_body(status: int) -> None:
    assert sent(Response(status, b"ignored", headers=((b"etag", b'"1"'),))) == (status, {b"etag": b'"1"'}, b"")


def test_an_empty_body_has_a_length_and_no_type() -> None:
    assert sent(Response(200)) == (200, {b"content-length": b"0"}, b"")


@pytest.mark.parametrize(("seconds", "text"), [(0.0, b"1"), (0.2, b"1"), (1.0, b"1"), (1.01, b"2"), (30.0, b"30")])
def test_retry_after_rounds_up_to_whole_seconds(seconds: float, text: bytes) -> None:
    assert retry_after(seconds) == (b"retry-after", text)
