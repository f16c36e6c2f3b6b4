"""Who leaves the block closes the connection at once, in every window; and nothing of the exchange stays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from gdsvc.frontend.upstream import Client, Origin, RequestHead, Streamed
from gdsvc.frontend.upstream.failures import Closed
from gdsvc.frontend.upstream.names import Address
from tests.upstream.scripted import GET, OK, POST, Peer, stand, until

ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Stage:
    """Where the frontend is, and whether it has seen the client leave."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.left = asyncio.Event()


async def leave_at(stage: Stage, task: asyncio.Task[None]) -> None:
    """Cancels the exchange where the stage is reached; the frontend must see it within a second."""
    await stage.reached.wait()
    task.cancel()
    async with asyncio.timeout(1):
        await stage.left.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536


async def stalled() -> AsyncIterator[bytes]:
    yield b"x"
    await asyncio.Event().wait()


@pytest.mark.parametrize("body", [b"{}", b"x" * (8 << 20)], ids=["small", "of 8 MiB that is not read"])
async def test_before_the_head(body: bytes) -> None:
    stage = Stage()

    async def script(peer: Peer) -> None:
        await peer.head()
        stage.reached.set()
        await peer.left()
        stage.left.set()

    async def exchange() -> None:
        async with client.send(frontend.origin, POST, body):
            pytest.fail("there was no reply")

    async with stand(script) as (client, frontend):
        await leave_at(stage, asyncio.create_task(exchange()))
        assert client.counts().open == 0


@pytest.mark.parametrize("source", [endless, stalled], ids=["not read", "stalled"])
@pytest.mark.parametrize("length", [None, 1 << 40], ids=["chunks", "length"])
async def test_during_an_upload(source: Callable[[], AsyncIterator[bytes]], length: int | None) -> None:
    stage = Stage()

    async def script(peer: Peer) -> None:
        await peer.head()
        stage.reached.set()
        await peer.left()
        stage.left.set()

    async def exchange() -> None:
        async with client.send(frontend.origin, POST, Streamed(source(), length)):
            pytest.fail("there was no reply")

    async with stand(script) as (client, frontend):
        await leave_at(stage, asyncio.create_task(exchange()))
        assert client.counts().open == 0


@pytest.mark.parametrize("first", [b"", b"2\r\nok\r\n"], ids=["between head and body", "in the body"])
async def test_behind_the_head(first: bytes) -> None:
    stage = Stage()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(ENDLESS + first)
        await peer.left()
        stage.left.set()

    async def exchange() -> None:
        async with client.send(frontend.origin, GET) as response:
            if first:
                assert await response.read() == b"ok"
            stage.reached.set()
            await response.read()

    async with stand(script) as (client, frontend):
        await leave_at(stage, asyncio.create_task(exchange()))
        assert client.counts().open == 0


async def test_a_body_that_came_but_was_not_read_closes_the_connection() -> None:
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await peer.left()
        left.set()

    async with stand(script) as (client, frontend):
        async with client.send(frontend.origin, GET):
            pass
        assert client.counts().idle == 0
        await left.wait()


async def test_while_the_upstream_sends_faster_than_anybody_reads() -> None:
    stage = Stage()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                await peer.send(b"x" * 65536)
        stage.left.set()

    async with stand(script) as (client, frontend):
        async with client.send(frontend.origin, GET):
            pass
        async with asyncio.timeout(1):
            await stage.left.wait()


async def test_while_the_connection_is_being_established() -> None:
    async def never(_host: str, _port: int) -> list[Address]:
        looking.set()
        await asyncio.Event().wait()
        return []

    looking = asyncio.Event()
    async with Client(lookup=never) as client:
        task = asyncio.create_task(client.send(Origin("http", "a.test", 80), GET).__aenter__())
        await looking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.counts().open == 0


async def test_a_response_cannot_be_read_outside_its_block() -> None:
    async with stand(one) as (client, frontend):
        async with client.send(frontend.origin, GET) as response:
            pass
        with pytest.raises(RuntimeError, match="left"):
            await response.read()


async def one(peer: Peer) -> None:
    await peer.head()
    await peer.send(OK)
    await peer.left()


async def test_closing_the_client_ends_exchanges_in_hand() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        reached.set()
        await peer.left()

    reached = asyncio.Event()
    async with stand(script) as (client, frontend):
        task = asyncio.create_task(client.send(frontend.origin, GET).__aenter__())
        await reached.wait()
        await client.__aexit__(None, None, None)
        with pytest.raises(Closed):
            await task
        with pytest.raises(Closed):
            await client.send(frontend.origin, RequestHead(b"GET", b"/")).__aenter__()
        await until(lambda: client.counts().open == 0)
