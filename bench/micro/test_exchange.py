"""One exchange of the upstream client beside a protocol that only writes, waits and takes what comes.

A POST of 13 bytes on a connection that stands, a reply of 356 bytes with four headers, 64 at a time on uvloop. The
peer is a process of its own, so that its time is not in the figure. One round is 1,280 exchanges; the least counts. The
ratio is to be under 1.9; 1.5 was measured.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Final, cast

import pytest
import uvloop
from pytest_benchmark.fixture import BenchmarkFixture

from gdsvc.frontend.upstream import Client, Origin, RequestHead
from gdsvc.frontend.upstream.request import WRITER, host_line

AT_ONCE: Final = 64
EACH: Final = 20
ROUNDS: Final = 60

BODY = b'{"model":"m"}'
HEAD = RequestHead(
    b"POST",
    b"/v1/chat/completions",
    (
        (b"content-type", b"application/json"),
        (b"user-agent", b"x"),
        (b"accept", b"*/*"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-forwarded-proto", b"http"),
        (b"via", b"1.1 gdsvc"),
        (b"x-hop", b"1"),
    ),
)

PEER = r"""
import asyncio, uvloop
REPLY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\n"
    b"server: bench\r\ncontent-length: 356\r\n\r\n" + b"x" * 356
)
class Replying(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(REPLY)
async def main():
    server = await asyncio.get_running_loop().create_server(Replying, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
uvloop.run(main())
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", PEER], stdout=subprocess.PIPE) as peer:
        assert peer.stdout is not None
        yield int(peer.stdout.readline())
        peer.kill()


class Bare(asyncio.Protocol):
    """The least that an exchange can be."""

    transport: asyncio.WriteTransport
    came: asyncio.Future[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)  # uvloop's has no such base

    def data_received(self, data: bytes) -> None:
        self.came.set_result(data)


async def bare(protocol: Bare, request: bytes) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(EACH):
        protocol.came = loop.create_future()
        protocol.transport.write(request)
        await protocol.came


async def exchanges(client: Client, origin: Origin) -> None:
    for _ in range(EACH):
        async with client.send(origin, HEAD, BODY) as response:
            while not response.is_read:
                await response.read()


async def all_of(several: list[Coroutine[None, None, None]]) -> None:
    await asyncio.gather(*several)


@pytest.mark.benchmark(group="1,280 exchanges, 64 at a time", timer=time.process_time)
def test_bare(benchmark: BenchmarkFixture, port: int) -> None:
    request = WRITER.write(HEAD, host_line(Origin("http", "127.0.0.1", port)), BODY)
    assert request is not None

    async def connected() -> list[Bare]:
        connect = asyncio.get_running_loop().create_connection
        return [(await connect(Bare, "127.0.0.1", port))[1] for _ in range(AT_ONCE)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        protocols = runner.run(connected())
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            lambda: runner.run(all_of([bare(protocol, request) for protocol in protocols])),
            rounds=ROUNDS,
            warmup_rounds=1,
        )
        for protocol in protocols:
            protocol.transport.close()
        runner.run(_freed())


@pytest.mark.benchmark(group="1,280 exchanges, 64 at a time", timer=time.process_time)
def test_client(benchmark: BenchmarkFixture, port: int) -> None:
    origin = Origin("http", "127.0.0.1", port)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        client = runner.run(_entered())
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            lambda: runner.run(all_of([exchanges(client, origin) for _ in range(AT_ONCE)])),
            rounds=ROUNDS,
            warmup_rounds=1,
        )
        runner.run(client.__aexit__(None, None, None))
        runner.run(_freed())


async def _entered() -> Client:
    return await Client().__aenter__()


async def _freed() -> None:
    """uvloop frees what was closed in one of its next turns."""
    for _ in range(4):
        await asyncio.sleep(0)
