"""Servers on real sockets, each in a thread with a loop of its own, so that tests can be plain blocking clients."""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import pytest
import uvloop

from gdsvc.asgi.server import Server
from gdsvc.asgi.types import App

PATIENCE = 10.0  # seconds that a test waits for what should come at once
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


class Running:
    """A Server on 127.0.0.1 in a thread. Leaving drains it, closes its loop, and tells which tasks were left over."""

    def __init__(self, app: App, loop: str = "uvloop", **options: Any) -> None:
        self.left_over: set[str] = set()
        self._options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "grace": PATIENCE} | options
        self._app = app
        self._started: Future[Server] = Future()
        self._runner = asyncio.Runner(loop_factory=LOOPS[loop])
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.server = self._started.result(PATIENCE)
        except BaseException:
            self._thread.join(PATIENCE)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with self._runner:
            try:
                self._runner.run(self._main())
            except BaseException as error:  # noqa: BLE001 - handed to the test
                self._started.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with Server(self._app, **self._options) as server:
            self._started.set_result(server)
            await self._stop.wait()
        self.left_over = {repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}}

    def drain(self, notice: float, grace: float) -> "Future[bool]":
        return asyncio.run_coroutine_threadsafe(self.server.drain(notice, grace), self._loop)

    def ended(self) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(self.server.ended(), self._loop)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), PATIENCE)

    def exchange(self, request: bytes) -> bytes:
        """Everything that comes back for `request` until the server closes."""
        with self.connect() as caller:
            caller.sendall(request)
            return read_to_end(caller)


def read_to_end(caller: socket.socket) -> bytes:
    """All bytes up to the end of the stream, or to a reset behind them."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := caller.recv(65536):
            received += chunk
    return received


@pytest.fixture
def serve(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Running]]:
    """Start servers: `serve(app, loop="asyncio", tls=…)`. All are drained afterwards, and must leave nothing behind."""
    with contextlib.ExitStack() as stack:
        started: list[Running] = []

        def start(app: App, **options: Any) -> Running:
            started.append(stack.enter_context(Running(app, **options)))
            return started[-1]

        yield start
    assert [running.left_over for running in started if running.left_over] == []
    assert [r.getMessage() for r in caplog.records if r.name == "asyncio" and r.levelno >= logging.ERROR] == []
