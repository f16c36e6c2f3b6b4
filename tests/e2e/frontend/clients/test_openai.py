"""OpenAI's own client that blocks, unchanged, in a thread beside the pools that the test scripts."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import openai
import pytest

from tests.e2e.frontend.clients import openai_pool as said
from tests.e2e.frontend.clients.openai_pool import MESSAGES, STREAM, Replies, reply, request_of, word
from tests.e2e.process import Service
from tests.upstream.scripted import PATIENCE, Frontend, Peer

pytestmark = [pytest.mark.clients, pytest.mark.loops("asyncio")]

SEEN_SECS: Final = 1.0  # from the caller's leaving to the end of the pool's connection


@contextmanager
def client_of(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="k") as client:
        yield client


def test_a_chat_completion(demo: Service) -> None:
    with client_of(demo) as client:
        completion = client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=4)
        assert completion.choices[0].message.content == "This is pool east, "


def test_a_stream_of_chunks(demo: Service) -> None:
    with client_of(demo) as client:
        stream = client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=4, stream=True)
        choices = [chunk.choices[0] for chunk in stream]
        assert [choice.delta.content for choice in choices] == ["This ", "is ", "pool ", "east, ", ""]
        assert choices[-1].finish_reason == "stop"


def test_many_requests_of_one_client(demo: Service) -> None:
    """Which keeps its connections: after a stream, after an error, after a plain answer."""
    with client_of(demo) as client:
        for _ in range(3):
            client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=1)
            list(client.chat.completions.create(model="demo", messages=MESSAGES, max_tokens=1, stream=True))
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.create(model="nobody's", messages=MESSAGES)


def test_the_list_of_models(demo: Service) -> None:
    with client_of(demo) as client:
        assert [model.id for model in client.models.list()] == ["demo"]


def test_a_model_that_no_pool_serves_is_not_found(demo: Service) -> None:
    with client_of(demo) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            client.chat.completions.create(model="nobody's", messages=MESSAGES)
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_embeddings(proxy: Service, door: socket.socket) -> None:
    def embed() -> list[float]:
        with client_of(proxy) as client:
            return client.embeddings.create(model="m", input="hello", encoding_format="float").data[0].embedding

    async with Frontend(Replies(reply(said.EMBEDDINGS)), listener=door):
        assert await asyncio.to_thread(embed) == [0.25, -0.5]


async def test_a_response_and_a_stream_of_its_events(proxy: Service, door: socket.socket) -> None:
    def respond() -> tuple[str, list[str]]:
        with client_of(proxy) as client:
            text = client.responses.create(model="m", input="hello").output_text
            stream = client.responses.create(model="m", input="hello", stream=True)
            return text, [event.delta for event in stream if event.type == "response.output_text.delta"]

    async with Frontend(Replies(reply(said.RESPONSE), said.RESPONSE_STREAM), listener=door):
        assert await asyncio.to_thread(respond) == ("hi", ["h", "i"])


@pytest.mark.parametrize(("status", "kind"), [(429, openai.RateLimitError), (400, openai.BadRequestError)])
async def test_an_error_of_the_pool_is_raised_as_its_kind_with_its_body(
    proxy: Service, door: socket.socket, status: int, kind: type[openai.APIStatusError]
) -> None:
    document = said.error("no more of these", "its_own_code")

    def complain() -> tuple[int, object]:
        with client_of(proxy) as client, pytest.raises(kind) as raised:
            client.with_options(max_retries=0).chat.completions.create(model="m", messages=MESSAGES)
        return raised.value.status_code, raised.value.body

    async with Frontend(Replies(reply(document, status)), listener=door):
        assert await asyncio.to_thread(complain) == (status, document["error"])


async def test_a_stream_that_it_leaves_ends_at_the_pool(proxy: Service, door: socket.socket) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(STREAM + word("one ") + word("two "))
        await peer.left()
        closed.set()

    def leave() -> str | None:
        with (
            client_of(proxy) as client,
            client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream,
        ):
            return next(stream).choices[0].delta.content

    async with Frontend(script, listener=door):
        assert await asyncio.to_thread(leave) == "one "
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


async def test_a_request_that_it_waits_for_no_longer_ends_at_the_pool(proxy: Service, door: socket.socket) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.left()
        closed.set()

    def give_up() -> None:
        with client_of(proxy) as client, pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.3, max_retries=0).chat.completions.create(model="m", messages=MESSAGES)

    async with Frontend(script, listener=door):
        await asyncio.to_thread(give_up)
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


@pytest.mark.parametrize("breaks", [Peer.reset, Peer.close])
async def test_a_stream_that_breaks_off_is_no_whole_answer(
    proxy: Service, door: socket.socket, breaks: Callable[[Peer], None]
) -> None:
    first_read = threading.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(STREAM + word("one "))
        assert await asyncio.to_thread(first_read.wait, PATIENCE)
        breaks(peer)

    def read_on() -> None:
        with client_of(proxy) as client:
            stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            next(stream)
            first_read.set()
            with pytest.raises(Exception, match=said.BROKEN_OFF):
                next(stream)

    async with Frontend(script, listener=door):
        await asyncio.to_thread(read_on)
