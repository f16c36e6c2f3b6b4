"""OpenAI's own client for asyncio, unchanged: whatever it can do with a pool it can do through the frontend."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import openai
import pytest

from tests.e2e.frontend.calling import LAST_CHUNK
from tests.e2e.frontend.clients import openai_pool as said
from tests.e2e.frontend.clients.openai_pool import MESSAGES, STREAM, Replies, reply, request_of, word
from tests.e2e.process import Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = [pytest.mark.clients, pytest.mark.loops("asyncio")]

SEEN_SECS: Final = 1.0  # from the caller's leaving to the end of the pool's connection


@asynccontextmanager
async def client_of(service: Service) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="k") as client:
        yield client


async def test_a_chat_completion(demo: Service) -> None:
    async with client_of(demo) as client:
        completion = await client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=4)
        assert completion.choices[0].message.content == "This is pool east, "


async def test_a_stream_of_chunks(demo: Service) -> None:
    async with client_of(demo) as client:
        stream = await client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=4, stream=True)
        choices = [chunk.choices[0] async for chunk in stream]
        assert [choice.delta.content for choice in choices] == ["This ", "is ", "pool ", "east, ", ""]
        assert choices[-1].finish_reason == "stop"


async def test_the_list_of_models(demo: Service) -> None:
    async with client_of(demo) as client:
        assert [model.id async for model in client.models.list()] == ["demo"]


async def test_a_model_that_no_pool_serves_is_not_found(demo: Service) -> None:
    async with client_of(demo) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(model="nobody's", messages=MESSAGES)
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_embeddings(proxy: Service, door: socket.socket) -> None:
    pool = Replies(reply(said.EMBEDDINGS))
    async with Frontend(pool, listener=door), client_of(proxy) as client:
        embeddings = await client.embeddings.create(model="m", input="hello", encoding_format="float")
        assert embeddings.data[0].embedding == [0.25, -0.5]
    ((head, body),) = pool.asked
    assert head.startswith(b"POST /v1/embeddings HTTP/1.1\r\n")
    assert b"\r\nauthorization: bearer k\r\n" in head.lower()
    assert body == {"model": "m", "input": "hello", "encoding_format": "float"}


async def test_a_response_and_a_stream_of_its_events(proxy: Service, door: socket.socket) -> None:
    pool = Replies(reply(said.RESPONSE), said.RESPONSE_STREAM)
    async with Frontend(pool, listener=door), client_of(proxy) as client:
        response = await client.responses.create(model="m", input="hello")
        assert response.output_text == "hi"
        stream = await client.responses.create(model="m", input="hello", stream=True)
        deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        assert deltas == ["h", "i"]


@pytest.mark.parametrize(("status", "kind"), [(429, openai.RateLimitError), (400, openai.BadRequestError)])
async def test_an_error_of_the_pool_is_raised_as_its_kind_with_its_body(
    proxy: Service, door: socket.socket, status: int, kind: type[openai.APIStatusError]
) -> None:
    document = said.error("no more of these", "its_own_code")
    async with Frontend(Replies(reply(document, status)), listener=door), client_of(proxy) as client:
        with pytest.raises(kind) as raised:
            await client.with_options(max_retries=0).chat.completions.create(model="m", messages=MESSAGES)
    assert (raised.value.status_code, raised.value.body) == (status, document["error"])


async def test_it_comes_again_when_the_pool_says(proxy: Service, door: socket.socket) -> None:
    """Retry-After reaches it, and one answer is enough for it."""
    pool = Replies(reply(said.error("busy", "x"), 429, b"Retry-After: 1"), reply(said.COMPLETION))
    async with Frontend(pool, listener=door), client_of(proxy) as client:
        completion = await client.chat.completions.create(model="m", messages=MESSAGES)
        assert completion.choices[0].message.content == "hi"
    assert [b"x-stainless-retry-count: 1" in head.lower() for head, _ in pool.asked] == [False, True]


async def test_a_stream_that_it_leaves_ends_at_the_pool(proxy: Service, door: socket.socket) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(STREAM + word("one ") + word("two "))
        await peer.left()
        closed.set()

    async with Frontend(script, listener=door), client_of(proxy) as client:
        async with await client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
            assert (await anext(stream)).choices[0].delta.content == "one "
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


async def test_a_request_that_is_cancelled_before_its_answer_ends_at_the_pool(
    proxy: Service, door: socket.socket
) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        asked.set()
        await peer.left()
        closed.set()

    async with Frontend(script, listener=door), client_of(proxy) as client:
        asking = asyncio.create_task(client.chat.completions.create(model="m", messages=MESSAGES))
        await asked.wait()
        asking.cancel()
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


@pytest.mark.parametrize("breaks", [Peer.reset, Peer.close])
async def test_a_stream_that_breaks_off_is_no_whole_answer(
    proxy: Service, door: socket.socket, breaks: Callable[[Peer], None]
) -> None:
    first_read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(STREAM + word("one "))
        await first_read.wait()
        breaks(peer)

    async with Frontend(script, listener=door), client_of(proxy) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        await anext(stream)
        first_read.set()
        with pytest.raises(Exception, match=said.BROKEN_OFF):
            await anext(stream)


async def test_a_stream_in_which_the_pool_says_that_it_is_done_is_whole(proxy: Service, door: socket.socket) -> None:
    pool = Replies(STREAM + word("one ") + said.DONE + LAST_CHUNK)
    async with Frontend(pool, listener=door), client_of(proxy) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert [chunk.choices[0].delta.content async for chunk in stream] == ["one "]
