"""Heartbeats of pools over kept-alive connections, as many a second as wanted and as irregular as a fleet's."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from random import Random

from msgspec import Struct

from bench import payloads
from bench.fleet.latencies import Latencies

CONNECTIONS = 50
ANSWER_SECS = 20.0  # a service answers 503 long before
AFTERWARDS_SECS = 0.1  # for what a beat still sets going in the service


class BeatFailed(Exception):
    """A heartbeat was not answered 200: the round measured something else than what it was meant to."""


class Beaten(Struct, frozen=True):
    """How many heartbeats were answered, and how long each took from its sending."""

    beats: int
    latencies: Latencies


def requests(pools: int) -> list[bytes]:
    """A heartbeat of each of so many pools, of 300 bytes and its head."""
    head = b"POST /pools HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return [head % len(body) + body for body in map(payloads.large, range(pools))]


def all_of(port: int, asked: Sequence[bytes], connections: int = CONNECTIONS) -> Beaten:
    """Sends each once, as fast as they are answered. Raises BeatFailed."""
    return asyncio.run(_beat(port, asked, [0.0] * len(asked), connections))


def paced(port: int, asked: Sequence[bytes], per_sec: float, secs: float, seed: int) -> Beaten:
    """Sends them round and round for `secs`, at random times that come to `per_sec`. Raises BeatFailed."""
    return asyncio.run(_beat(port, asked, list(_instants(per_sec, secs, seed)), CONNECTIONS))


def at_full_speed(port: int, asked: Sequence[bytes], secs: float, connections: int) -> Beaten:
    """Sends them round and round for `secs`, each connection as soon as it is answered. Raises BeatFailed."""
    return asyncio.run(_beat(port, asked, None, connections, secs))


def _instants(per_sec: float, secs: float, seed: int) -> Iterator[float]:
    random, at = Random(seed), 0.0
    while (at := at + random.expovariate(per_sec)) < secs:
        yield at


async def _beat(
    port: int, asked: Sequence[bytes], due_at: Sequence[float] | None, connections: int, secs: float = 0.0
) -> Beaten:
    """Each connection has every `connections`-th of the beats; where none is `due_at` a time, for `secs`."""
    latencies = Latencies()
    began_at = time.monotonic()

    async def connection(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            number = first
            while number < len(due_at) if due_at is not None else time.monotonic() < began_at + secs:
                if due_at is not None:
                    await asyncio.sleep(max(0.0, began_at + due_at[number] - time.monotonic()))
                sent_at = time.monotonic()
                writer.write(asked[number % len(asked)])
                await _answered(reader)
                latencies.add(time.monotonic() - sent_at)
                number += connections
        finally:
            writer.close()

    async with asyncio.TaskGroup() as group:
        for first in range(connections):
            group.create_task(connection(first))
    await asyncio.sleep(AFTERWARDS_SECS)
    return Beaten(latencies.count, latencies)


async def _answered(reader: asyncio.StreamReader) -> None:
    try:
        async with asyncio.timeout(ANSWER_SECS):
            head = await reader.readuntil(b"\r\n\r\n")
            said = await reader.readexactly(_length_in(head))
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
        raise BeatFailed(f"a heartbeat got no answer: {type(error).__name__}") from None
    if not head.startswith(b"HTTP/1.1 200"):
        raise BeatFailed(f"a heartbeat was answered {head[9:12].decode()}: {said[:200].decode(errors='replace')}")


def _length_in(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])
