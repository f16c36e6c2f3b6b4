"""What is called out of turn raises an error; compiled or not, it neither crashes nor waits for ever."""

import asyncio

import pytest

from gdsvc.frontend.upstream import Client, Origin, Response
from tests.upstream.scripted import GET, POST, Peer, body_of, serve_for_ever, stand


async def test_an_exchange_that_has_no_connection_can_be_left() -> None:
    async with Client() as client:
        await client.send(Origin("http", "127.0.0.1", 1), GET).__aexit__(None, None, None)


async def test_a_reply_whose_block_was_left() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        async with client.send(frontend.origin, GET) as response:
            await body_of(response)
        assert response.is_read
        with pytest.raises(RuntimeError):
            await response.read()


async def test_a_block_that_is_left_twice_gives_its_connection_back_once() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        sending = client.send(frontend.origin, GET)
        async with sending as response:
            await body_of(response)
        await sending.__aexit__(None, None, None)
        assert client.counts().idle == 1


async def test_who_still_reads_when_the_block_is_left_is_told() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        await peer.left()

    async with stand(script) as (client, frontend):
        async with client.send(frontend.origin, POST) as response:
            reading = asyncio.create_task(response.read())
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError):
            await reading


def test_a_reply_needs_a_connection() -> None:
    with pytest.raises(TypeError):
        Response(None)  # type: ignore[arg-type]
