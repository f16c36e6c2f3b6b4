"""What a stream costs in memory that has begun and then stands still: the growth of the server's resident set."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from bench.frontend import bodies, sides
from bench.frontend.trips import CHAT
from bench.load import LoadFailed
from bench.processes import Cores, Server, resident_bytes

STREAMS: Final = 1_000
AHEAD: Final = 16  # streams that come and go first: what is loaded with the first request is not of any stream
AT_A_TIME: Final = 50
PATIENCE_SECS: Final = 20.0
SETTLE_SECS: Final = 0.3  # after which the streams have begun and nothing moves


def visit(labels: Sequence[str], cores: Cores, streams: int) -> Iterator[tuple[str, float]]:
    """KiB a stream for each side, freshly started. Raises StartFailed, LoadFailed."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for label in labels:
        with sides.stub(cores.driver) as stub, sides.SIDES[label](cores.server, stub.server.port) as server:
            stub.become("idle")
            yield label, asyncio.run(_grown(server, streams)) / streams / 1024


async def _grown(server: Server, streams: int) -> int:
    """Bytes by which the server has grown when all streams have had their first chunk."""
    try:
        async with asyncio.timeout(PATIENCE_SECS):
            async with _open(server.port, AHEAD):
                pass
            await asyncio.sleep(SETTLE_SECS)
            before = resident_bytes(server.group)
            async with _open(server.port, streams):
                await asyncio.sleep(SETTLE_SECS)
                return resident_bytes(server.group) - before
    except (OSError, EOFError, TimeoutError) as error:  # a TimeoutError is an OSError only when a system call says so
        raise LoadFailed(f"{streams} idle streams did not all begin: {error!r}") from error


@asynccontextmanager
async def _open(port: int, streams: int) -> AsyncIterator[None]:
    """So many streams that have begun, until the block ends."""
    turns = asyncio.Semaphore(AT_A_TIME)
    questions = bodies.questions(stream=True)
    writers: list[asyncio.StreamWriter] = []

    async def begin(number: int) -> None:
        async with turns:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(_request(questions[number % len(questions)]))
            await reader.readuntil(b"data: ")

    try:
        await asyncio.gather(*map(begin, range(streams)))
        yield
    finally:
        for writer in writers:
            writer.close()


def _request(body: bytes) -> bytes:
    head = "POST {} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    return head.format(CHAT, len(body)).encode() + body
