"""Binding, TLS, draining and logging of the embedded server."""

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.server import ListenFailed, ServerEnded, Tls
from gdsvc.asgi.types import Receive, Scope, Send
from tests.e2e.asgi.conftest import read_to_end

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
BOTH_LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, Response(200, b"hello"))


def option_of_peer(caller: socket.socket, option: int) -> int:
    """A TCP option of the other end of `caller`, which is in this process too."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # it is gone, or not connected
            if not str(descriptor.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor.name))) as held:
                if held.getpeername() == caller.getsockname():
                    return held.getsockopt(socket.IPPROTO_TCP, option)
    raise AssertionError("the other end is not in this process")


class Gate:
    """An app whose responses wait until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Event()

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._opened.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        self._opened = asyncio.Event()
        self.entered.set()
        await self._opened.wait()
        await respond(send, Response(200, b"late"))


@BOTH_LOOPS
def test_port_0_is_the_port_that_answers(serve: Callable[..., Any], loop: str) -> None:
    running = serve(hello, loop=loop)
    assert running.server.port > 0
    assert running.server.listening.is_set()
    assert running.exchange(LAST).endswith(b"hello")


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
@pytest.mark.parametrize(("peer_timeout", "milliseconds"), [(1.5, 1500), (None, 0)])
def test_every_connection_gives_its_peer_up_in_time(
    serve: Callable[..., Any], peer_timeout: float | None, milliseconds: int
) -> None:
    running = serve(hello, peer_timeout=peer_timeout)
    with running.connect() as caller:
        caller.sendall(GET)
        assert caller.recv(1)
        accepted = option_of_peer(caller, socket.TCP_USER_TIMEOUT)
        assert accepted == milliseconds


def test_a_taken_port_is_refused_with_address_and_reason(serve: Callable[..., Any]) -> None:
    port = serve(hello).server.port
    with pytest.raises(ListenFailed, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
        serve(hello, port=port)


def test_an_address_that_is_not_ours_is_refused_with_address_and_reason(serve: Callable[..., Any]) -> None:
    with pytest.raises(ListenFailed, match=r"cannot listen on 192\.0\.2\.1:0: Cannot assign requested address"):
        serve(hello, host="192.0.2.1")


def test_a_port_is_free_again_after_the_drain(serve: Callable[..., Any]) -> None:
    running = serve(hello)
    assert running.drain(0, 5).result(10)
    assert serve(hello, port=running.server.port).exchange(LAST).endswith(b"hello")


@BOTH_LOOPS
def test_a_drain_ends_idle_connections_refuses_new_ones_and_finishes_what_is_in_hand(
    serve: Callable[..., Any], loop: str
) -> None:
    gate = Gate()
    running = serve(gate, loop=loop)
    idle, busy = running.connect(), running.connect()
    with idle, busy:
        busy.sendall(GET)
        assert gate.entered.wait(10)
        drained = running.drain(0, 10)
        assert idle.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            running.connect()
        assert not drained.done()
        gate.open()
        assert read_to_end(busy).endswith(b"late")
        assert drained.result(10)
    assert not running.server.listening.is_set()


def test_during_the_notice_callers_are_still_served(serve: Callable[..., Any]) -> None:
    running = serve(hello)
    started = time.monotonic()
    drained = running.drain(0.3, 10)
    assert running.exchange(LAST).endswith(b"hello")
    assert drained.result(10)
    assert time.monotonic() - started >= 0.3


@BOTH_LOOPS
def test_a_drain_gives_up_after_its_grace(serve: Callable[..., Any], loop: str) -> None:
    gate = Gate()
    running = serve(gate, loop=loop)
    with running.connect() as busy:
        busy.sendall(GET)
        assert gate.entered.wait(10)
        started = time.monotonic()
        assert not running.drain(0.1, 0.3).result(10)
        assert 0.2 <= time.monotonic() - started < 1
        assert busy.recv(65536).startswith(b"HTTP/1.1 500 ")


def test_a_second_drain_finds_nothing_to_do(serve: Callable[..., Any]) -> None:
    running = serve(hello)
    assert running.drain(0, 5).result(10)
    assert running.drain(5, 5).result(1)


def test_a_drained_server_has_ended_as_asked(serve: Callable[..., Any]) -> None:
    running = serve(hello)
    ended = running.ended()
    running.drain(0, 5).result(10)
    assert ended.result(10) is None


def test_a_server_that_stops_by_itself_says_so(serve: Callable[..., Any]) -> None:
    running = serve(hello)
    ended = running.ended()
    running._loop.call_soon_threadsafe(running.server._granian.stop)
    with pytest.raises(ServerEnded):
        ended.result(10)


def test_slots_count_idle_connections_too(serve: Callable[..., Any]) -> None:
    running = serve(hello, connection_slots=2)
    idle = [running.connect() for _ in range(2)]
    with running.connect() as late:
        late.sendall(LAST)
        late.settimeout(0.2)
        with pytest.raises(TimeoutError):
            late.recv(1)
        idle.pop().close()
        late.settimeout(10)
        assert read_to_end(late).endswith(b"hello")
    idle.pop().close()


def test_granian_is_silent_at_info_and_speaks_as_granian_at_debug(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    serve(hello)
    assert caplog.records == []
    caplog.set_level(logging.DEBUG)
    serve(hello)
    assert "Embedded server is experimental!" in caplog.messages
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_an_error_of_the_app_is_logged_as_an_error(serve: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("a fault of ours")

    running = serve(failing)
    assert running.exchange(LAST).startswith(b"HTTP/1.1 500 ")
    assert running.drain(0, 5).result(10)  # the line is written behind the response
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_starting_leaves_the_handlers_of_others_alone(serve: Callable[..., Any], tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "log")
    try:
        serve(hello)
        assert handler.stream is not None
        assert not handler.stream.closed
    finally:
        handler.close()


def test_a_missing_certificate_is_named(serve: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ListenFailed, match=r"absent\.pem: No such file"):
        serve(hello, tls=Tls(tmp_path / "absent.pem", tmp_path / "absent.key"))


def test_a_file_without_certificate_is_named(serve: Callable[..., Any], tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    with pytest.raises(ListenFailed, match=r"text\.pem .* no certificate"):
        serve(hello, tls=Tls(text, text))


def test_ipv6_takes_ipv4_callers_too(serve: Callable[..., Any]) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    assert serve(hello, host="::").exchange(LAST).endswith(b"hello")
