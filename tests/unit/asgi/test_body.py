"""Reading within a limit, from scripted messages: what is read, what is refused, and how early."""

import asyncio

import pytest

from gdsvc.asgi.body import BodyTooLarge, Disconnected, discard, read_body, refuse_body
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Received, Scope, Sent

END: Received = {"type": "http.request", "body": b"", "more_body": False}
LEFT: Received = {"type": "http.disconnect"}


def part(body: bytes) -> Received:
    return {"type": "http.request", "body": body, "more_body": True}


class Caller:
    """Gives its messages one by one; then it is silent for ever, as a caller that waits for its answer is."""

    def __init__(self, *messages: Received) -> None:
        self.left = list(messages)

    async def receive(self) -> Received:
        if not self.left:
            await asyncio.get_running_loop().create_future()
        return self.left.pop(0)


def scope(*headers: tuple[bytes, bytes]) -> Scope:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": list(headers),
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }


def read(caller: Caller, limit: int, *headers: tuple[bytes, bytes]) -> bytes:
    return asyncio.run(asyncio.wait_for(read_body(scope(*headers), caller.receive, limit), 5))


def test_a_body_in_one_chunk_is_that_very_object() -> None:
    chunk = b"x" * 1000
    assert read(Caller(part(chunk), END), 1000) is chunk


def test_chunks_are_joined_in_order() -> None:
    assert read(Caller(part(b"ab"), part(b""), part(b"c"), part(b"de"), END), 5) == b"abcde"


@pytest.mark.parametrize("messages", [(END,), (part(b""), END)])
def test_no_body_is_an_empty_one(messages: tuple[Received, ...]) -> None:
    assert read(Caller(*messages), 5) == b""


def test_a_stated_length_of_zero_asks_for_nothing() -> None:
    assert read(Caller(), 5, (b"content-length", b"0")) == b""


def test_a_body_of_stated_length_ends_with_its_last_byte() -> None:
    caller = Caller(part(b"abc"), part(b"de"), END)
    assert read(caller, 5, (b"content-length", b"5")) == b"abcde"
    assert caller.left == [END]


@pytest.mark.parametrize("stated", [b"6", b"99999999999999999999999999", b"9" * 5000])
def test_a_stated_length_above_the_limit_is_refused_unread(stated: bytes) -> None:
    caller = Caller(part(b"abc"))
    with pytest.raises(BodyTooLarge):
        read(caller, 5, (b"content-length", stated))
    assert len(caller.left) == 1


def test_a_body_of_the_limit_is_read_and_one_byte_more_refused_with_its_chunk() -> None:
    assert read(Caller(part(b"abc"), part(b"de"), END), 5) == b"abcde"
    caller = Caller(part(b"abc"), part(b"def"), part(b"unread"))
    with pytest.raises(BodyTooLarge):
        read(caller, 5)
    assert caller.left == [part(b"unread")]


@pytest.mark.parametrize("stated", [b"", b"-1", b"+5", b"1_0", b"5, 5", b"five"])
def test_an_unreadable_length_leaves_the_count_to_the_chunks(stated: bytes) -> None:
    with pytest.raises(BodyTooLarge):
        read(Caller(part(b"abcdef"), END), 5, (b"content-length", stated))


def test_a_caller_that_leaves_early_is_no_short_body() -> None:
    with pytest.raises(Disconnected):
        read(Caller(part(b"abc"), LEFT), 5)


def test_discarding_ends_with_the_body_the_caller_or_a_bound() -> None:
    async def discarded(caller: Caller, at_most: int = 100, seconds: float = 5.0) -> list[Received]:
        await discard(caller.receive, at_most, seconds)
        return caller.left

    assert asyncio.run(discarded(Caller(part(b"a"), END, LEFT))) == [LEFT]
    assert asyncio.run(discarded(Caller(part(b"a"), LEFT, END))) == [END]
    assert asyncio.run(discarded(Caller(part(b"a" * 99), part(b"b"), END))) == [END]
    assert asyncio.run(discarded(Caller(part(b"a")), seconds=0.01)) == []


def test_a_refusal_is_sent_before_the_rest_is_discarded() -> None:
    order: list[str] = []
    caller = Caller(part(b"abc"), END)

    async def receive() -> Received:
        order.append("receive")
        return await caller.receive()

    async def send(message: Sent) -> None:
        order.append(message["type"])
        if message["type"] == "http.response.start":
            assert (b"connection", b"close") in list(message["headers"])

    asyncio.run(refuse_body(send, receive, Response(413, b"{}")))
    assert order == ["http.response.start", "http.response.body", "receive", "receive"]
