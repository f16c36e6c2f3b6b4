"""Bodies within and beyond the limit, from callers that write first, write slowly, lie, or leave."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdsvc.asgi.body import DISCARD_SECONDS, BodyTooLarge, Disconnected, read_body, refuse_body
from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.types import Receive, Scope, Send

LIMIT = 2 * 1024 * 1024
MIB = 1024 * 1024
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def sizing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers the size of the body, 413 beyond the limit, 400 when it ends early."""
    try:
        body = await read_body(scope, receive, LIMIT)
    except BodyTooLarge:
        await refuse_body(send, receive, Response(413, b'{"error":{}}'))
    except Disconnected:
        await respond(send, Response(400))
    else:
        await respond(send, Response(200, b"%d" % len(body)))


def posted(port: int, body: bytes | Iterator[bytes]) -> tuple[int, str | None, bytes]:
    """What http.client sees: it writes the whole body before it reads, and stops at a broken pipe."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # beyond what is discarded; the answer is there
        connection.request("POST", "/", body)
    with connection.getresponse() as response:
        seen = response.status, response.getheader("connection"), response.read()
    connection.close()
    return seen


@pytest.mark.parametrize("mebibytes", [3, 15, 20, 64])
def test_a_caller_that_writes_everything_first_sees_413(serve: Callable[..., Any], mebibytes: int) -> None:
    assert posted(serve(sizing).server.port, bytes(mebibytes * MIB)) == (413, "close", b'{"error":{}}')


def test_a_chunked_body_is_refused_once_it_exceeds_the_limit(serve: Callable[..., Any]) -> None:
    seen = posted(serve(sizing).server.port, (bytes(65536) for _ in range(10 * 16)))
    assert seen == (413, "close", b'{"error":{}}')


def test_a_refused_body_within_the_discard_is_written_without_an_error(serve: Callable[..., Any]) -> None:
    running = serve(sizing)
    response = running.exchange(POST + b"Content-Length: %d\r\n\r\n" % (15 * MIB) + bytes(15 * MIB))
    assert response.startswith(b"HTTP/1.1 413 ")


def test_a_slow_writer_sees_413_at_once_and_is_cut_off(serve: Callable[..., Any]) -> None:
    with serve(sizing).connect() as caller:
        started = time.monotonic()
        caller.sendall(POST + b"Content-Length: %d\r\n\r\n" % (20 * MIB))
        assert caller.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert time.monotonic() - started < DISCARD_SECONDS / 2
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - started < 4 * DISCARD_SECONDS:
                caller.sendall(bytes(1000))
                time.sleep(0.05)
    assert DISCARD_SECONDS * 0.9 < time.monotonic() - started < DISCARD_SECONDS * 2


def test_a_caller_that_waits_for_100_sees_413_instead(serve: Callable[..., Any]) -> None:
    with serve(sizing).connect() as caller:
        caller.sendall(POST + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % (20 * MIB))
        assert caller.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_refused_bodies_leave_memory_flat(serve: Callable[..., Any]) -> None:
    running = serve(sizing)
    body = bytes(32 * MIB)
    posted(running.server.port, body)  # whatever a first time costs
    before = peak_memory(reset=True)
    callers = [threading.Thread(target=posted, args=(running.server.port, body)) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert peak_memory() - before < 24 * MIB  # 8 callers, 128 MiB discarded


def peak_memory(*, reset: bool = False) -> int:
    """The most resident bytes since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_a_body_of_the_limit_is_read_and_the_connection_goes_on(serve: Callable[..., Any]) -> None:
    request = POST + b"Content-Length: %d\r\n\r\n" % LIMIT + bytes(LIMIT)
    last = POST + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc"
    response = serve(sizing).exchange(request + request + last)
    assert response.count(b"\r\n\r\n%d" % LIMIT) == 2
    assert response.endswith(b"\r\n\r\n3")


def test_bytes_behind_the_stated_length_are_no_part_of_the_body(serve: Callable[..., Any]) -> None:
    response = serve(sizing).exchange(POST + b"Content-Length: 3\r\n\r\nabcdef GARBAGE\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200 ")
    assert b"\r\n\r\n3HTTP/1.1 400 " in response


def test_a_caller_that_leaves_before_the_stated_length_has_no_body(serve: Callable[..., Any]) -> None:
    outcomes: list[type[BaseException]] = []
    seen = threading.Event()

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await read_body(scope, receive, LIMIT)
        except Disconnected as error:
            outcomes.append(type(error))
        seen.set()

    with serve(noting).connect() as caller:
        caller.sendall(POST + b"Content-Length: 10\r\n\r\nabc")
    assert seen.wait(10)
    assert outcomes == [Disconnected]


def test_broken_chunks_end_the_body_early_and_can_be_answered(serve: Callable[..., Any]) -> None:
    response = serve(sizing).exchange(POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
    assert response.startswith(b"HTTP/1.1 400 ")


def test_a_body_of_tiny_chunks_is_read_whole(serve: Callable[..., Any]) -> None:
    chunks = b"2\r\nab\r\n" * 2000 + b"0\r\n\r\n"
    response = serve(sizing).exchange(POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert response.endswith(b"\r\n\r\n4000")
