"""What the Global Frontend answers itself where a request cannot be passed on, in the shape of OpenAI's errors."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gdsvc import model
from tests.e2e.client.scripted import ScriptedServer
from tests.e2e.client.watching import Streams, listed, stream
from tests.e2e.frontend.calling import (
    ASK,
    FRONTEND,
    ask,
    calling,
    chunk,
    head,
    ready,
    request,
    samples,
    until,
    until_sample,
)
from tests.e2e.memory import MIB, Memory
from tests.e2e.process import Serve, Service, running
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

MOST, BUFFER, AT_ONCE = MIB, MIB * 3 // 2, 3
IN_FLIGHT = 'gdsvc_frontend_in_flight{pool="a"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CLOSED_PORT = 1


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, door: socket.socket) -> Iterator[Service]:
    """A frontend with little room."""
    flags = (
        f"--pool=a=http://127.0.0.1:{door.getsockname()[1]}",
        f"--max-body-bytes={MOST}",
        f"--max-buffer-bytes={BUFFER}",
        f"--max-in-flight={AT_ONCE}",
    )
    with running(tmp_path_factory.mktemp("narrow"), *flags, command=FRONTEND) as service:
        yield service


def told(answer: bytes) -> dict[str, Any]:
    """The error in an answer, which has a message."""
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    return dict(error)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"hello", "invalid_json", None),
        (b'{"model":"m"', "invalid_json", None),
        (b'["model","m"]', "invalid_json", None),
        (b'{"model":"\xff"}', "invalid_json", None),
        (b"{}", "invalid_model", "model"),
        (b'{"model":null}', "invalid_model", "model"),
        (b'{"model":7}', "invalid_model", "model"),
        (b'{"model":["m"]}', "invalid_model", "model"),
        (b'{"model":""}', "invalid_model", "model"),
        (b'{"messages":[{"model":"m"}]}', "invalid_model", "model"),
        (b'{"model":"%b"}' % (b"m" * 2000), "invalid_model", "model"),
    ],
)
async def test_a_body_without_a_model_is_400(proxy: Service, body: bytes, code: str, param: str | None) -> None:
    status, answer = await ask(proxy.port, request(body))
    error = told(answer)
    assert (status, error["code"], error["param"]) == (400, code, param)
    assert error["type"] == "invalid_request_error"


async def test_a_model_of_nobody_is_404_where_all_pools_are_known_and_503_where_not(
    serve: Serve, door: socket.socket
) -> None:
    known = model.listing_of(
        model.PoolRegistration(
            model.PoolKey("s", "n", "p"), model="m", frontends=(f"http://127.0.0.1:{door.getsockname()[1]}",)
        )
    )
    parts = stream(("resync", listed(known), "e-1"), ("resync", listed(known, complete=False), "e-2"))
    discovery = Streams(parts)
    async with ScriptedServer(discovery) as server:
        service = await asyncio.to_thread(serve, f"--discovery-url={server.url}", command=FRONTEND)

        async def is_ready() -> bool:
            return await ready(service) == 200

        async def is_incomplete() -> bool:
            return (await ask(service.port, request(b'{"model":"of nobody"}')))[0] != 404

        await until(is_ready)
        status, answer = await ask(service.port, request(b'{"model":"of nobody"}'))
        assert (status, told(answer)["code"], told(answer)["param"]) == (404, "model_not_found", "model")
        discovery.go.set()
        await until(is_incomplete)
        status, answer = await ask(service.port, request(b'{"model":"of nobody"}'))
        assert (status, told(answer)["code"]) == (503, "no_pool_available")
        assert b"retry-after: 5\r\n" in answer
        assert [model["id"] for model in (await asyncio.to_thread(service.get, "/v1/models")).json()["data"]] == ["m"]


async def test_a_pool_out_of_reach_is_502_and_its_address_is_not_told(serve: Serve) -> None:
    service = await asyncio.to_thread(serve, f"--pool=a=http://127.0.0.1:{CLOSED_PORT}", command=FRONTEND)
    for body in (ASK, b'{"model":"m"' + b" " * (9 * MIB) + b"}"):
        status, answer = await ask(service.port, request(body))
        assert (status, told(answer)["code"], told(answer)["type"]) == (502, "upstream_failed", "server_error")
        assert b"127.0.0.1" not in answer
    status, answer = await ask(service.port, request(target=b"/v1/models", method=b"GET"))  # nor which models it has
    assert (status, told(answer)["code"]) == (503, "no_pool_available")
    assert b"retry-after: 1\r\n" in answer


@pytest.mark.parametrize("framing", [b"Content-Length: %d" % (193 * MIB), b"Transfer-Encoding: chunked"])
async def test_a_body_beyond_the_limit_is_413(narrow: Service, framing: bytes) -> None:
    before = head(framing)
    data = chunk(b'{"model":"m"') + chunk(b" " * MOST) if b"chunked" in framing else b"{"
    async with calling(narrow.port, before + data) as caller:
        answer = await caller.receive_until(b"}}")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert told(answer)["code"] == "request_too_large"


async def test_a_body_of_193_mib_is_413_by_default_and_not_kept(proxy: Service) -> None:
    memory = Memory(proxy)
    async with calling(proxy.port, head(b"Content-Length: %d" % (193 * MIB))) as caller:
        sending = asyncio.create_task(pour(caller, 14 * MIB))
        assert (await caller.receive_until(b"}}")).startswith(b"HTTP/1.1 413 ")
        await asyncio.wait((sending,))
    assert memory.peak_growth() < 8 * MIB


@pytest.mark.load
async def test_a_body_of_193_mib_in_chunks_is_413_by_default_and_not_kept(proxy: Service, door: socket.socket) -> None:
    """The pool has got most of it by then, and sees it end too early."""
    received = 0

    async def script(peer: Peer) -> None:
        nonlocal received
        await peer.head()
        received = await peer.left()

    memory = Memory(proxy)
    async with Frontend(script, listener=door), calling(proxy.port, head(b"Transfer-Encoding: chunked")) as caller:
        await caller.send(chunk(b'{"model":"m"'))
        sending = asyncio.create_task(pour(caller, 193 * MIB, chunked=True))
        assert (await caller.receive_until(b"}}")).startswith(b"HTTP/1.1 413 ")
        sending.cancel()
        await asyncio.wait((sending,))
    assert 180 * MIB < received <= 193 * MIB
    assert memory.peak_growth() < 40 * MIB


async def pour(caller: Peer, size: int, *, chunked: bool = False) -> None:
    part = b" " * MIB
    for _ in range(size // MIB):
        await caller.send(chunk(part) if chunked else part)


async def test_bodies_that_would_fill_the_buffer_together_are_503(narrow: Service, door: socket.socket) -> None:
    part = b'{"model":"m"' + b" " * (MOST * 7 // 10)

    async def script(peer: Peer) -> None:
        await peer.receive_until(b"}")
        await peer.send(OK)

    whole = head(b"Content-Length: %d" % (len(part) + 1)) + part
    async with Frontend(script, listener=door), AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(calling(narrow.port, whole)) for _ in range(3)]
        answers = {asyncio.create_task(caller.head()): caller for caller in callers}
        (refused,), kept = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        answer = await refused + await answers[refused].receive_until(b"}}")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in answer
        assert told(answer)["code"] == "overloaded"
        for each in kept:
            await answers[each].send(b"}")
            assert (await each).startswith(b"HTTP/1.1 200 ")
        assert (await ask(narrow.port, whole + b"}"))[0] == 200  # all of it was given back


async def test_one_request_more_than_may_be_in_flight_is_503(narrow: Service, door: socket.socket) -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.receive_until(ASK)
        await go.wait()
        await peer.send(OK)

    async with Frontend(script, listener=door), asyncio.TaskGroup() as callers:
        waiting = [callers.create_task(ask(narrow.port, request())) for _ in range(AT_ONCE)]
        await until_sample(narrow, IN_FLIGHT, AT_ONCE)
        status, answer = await ask(narrow.port, request())
        assert (status, told(answer)["code"]) == (503, "overloaded")
        assert b"retry-after: 1\r\n" in answer
        assert (await asyncio.to_thread(narrow.get, "/live")).status == 200
        go.set()
        assert [(await each)[0] for each in waiting] == [200] * AT_ONCE
    await until_sample(narrow, IN_FLIGHT, 0)
    assert (await samples(narrow))['gdsvc_frontend_aborted_total{by="caller"}'] == 0


async def test_an_answer_that_comes_before_the_body_does_not_wait_for_it(proxy: Service, door: socket.socket) -> None:
    """A pool that refuses a long body at once."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    async with Frontend(script, listener=door), calling(proxy.port, head(b"Content-Length: %d" % (20 * MIB))) as caller:
        sending = asyncio.create_task(caller.send(b'{"model":"m"' + b" " * (9 * MIB)))
        assert (await caller.receive_until(b"{}")).startswith(b"HTTP/1.1 413 ")
        sending.cancel()
        await asyncio.wait((sending,))


@pytest.mark.parametrize("size", [2 * MIB, 22 * MIB])
async def test_who_writes_all_before_reading_sees_why_it_was_refused(
    narrow: Service, proxy: Service, door: socket.socket, size: int
) -> None:
    """Of a long body, the pool ends the connection in the middle; of a short one, there is no room for the request."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        if size > 8 * MIB:
            await peer.receive(8 * MIB)
            return
        await go.wait()
        await peer.send(OK)

    whole = head(b"Content-Length: %d" % (size + 12)) + b'{"model":"m"' + b" " * size
    async with Frontend(script, listener=door), asyncio.TaskGroup() as callers:
        service, status = proxy, b"502"
        if size < 8 * MIB:
            service, status = narrow, b"503"
            for _ in range(AT_ONCE):
                callers.create_task(ask(narrow.port, request()))
            await until_sample(narrow, IN_FLIGHT, AT_ONCE)
        try:
            async with calling(service.port, whole) as caller:
                assert (await caller.head()).split(b" ")[1] == status
        finally:
            go.set()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(b" " * (6 * MIB), target=b"/nope"), 404),
        (request(b" " * (6 * MIB), b"X-Dynamo-Global-Router-Hop: 1"), 508),
        (request(b" " * (6 * MIB), target=b"/live"), 405),
    ],
)
async def test_a_refusal_reaches_a_caller_that_writes_all_before_it_reads(
    proxy: Service, sent: bytes, status: int
) -> None:
    async with calling(proxy.port, sent) as caller:
        assert (await caller.head()).startswith(b"HTTP/1.1 %d " % status)
