"""curl of the system, unchanged: whole answers, streams as they come, uploads, killed, and asking for HTTP/2."""

import asyncio
import json
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.frontend.calling import CHAT, LAST_CHUNK, chunk
from tests.e2e.frontend.clients.openai_pool import COMPLETION, DONE, STREAM, Replies, reply, request_of, word
from tests.e2e.process import Service
from tests.upstream.scripted import PATIENCE, Frontend, Peer

pytestmark = [pytest.mark.clients, pytest.mark.loops("asyncio")]

SEEN_SECS: Final = 1.0  # from the caller's leaving to the end of the pool's connection
BIG: Final = 2 << 20
LONG: Final = 16 << 20
ASK: Final = ("-d", '{"model":"m"}')
TIMED_OUT: Final = 28
CUT: Final = 18  # "Partial file": the transfer ended before it was whole


@asynccontextmanager
async def curl(service: Service, *arguments: str) -> AsyncIterator[Process]:
    """A curl that posts JSON to the chat completions; killed at the end where it still runs."""
    url = f"http://127.0.0.1:{service.port}{CHAT.decode()}"
    process = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", f"{PATIENCE:.0f}"),
        *("-H", "Content-Type: application/json", *arguments, url),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(2 * PATIENCE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def printed(service: Service, *arguments: str) -> bytes:
    """What a curl prints that ends well."""
    async with curl(service, *arguments) as process:
        output, complaint = await process.communicate()
        assert process.returncode == 0, complaint
        return output


async def test_a_chat_completion(demo: Service) -> None:
    answer = json.loads(await printed(demo, "-d", '{"model":"demo","max_tokens":4}'))
    assert answer["choices"][0]["message"]["content"] == "This is pool east, "


async def test_a_stream_of_the_demo(demo: Service) -> None:
    answer = await printed(demo, "-N", "-d", '{"model":"demo","max_tokens":3,"stream":true}')
    *words, end, nothing = answer.split(b"\n\n")
    assert (len(words), end, nothing) == (4, b"data: [DONE]", b"")


async def test_a_stream_is_printed_as_it_comes(proxy: Service, door: socket.socket) -> None:
    seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(STREAM + chunk(b"data: 1\n\n"))
        await seen.wait()
        await peer.send(chunk(b"data: 2\n\n") + DONE + LAST_CHUNK)

    async with Frontend(script, listener=door), curl(proxy, "-N", *ASK) as process:
        assert process.stdout is not None
        assert await process.stdout.readuntil(b"\n\n") == b"data: 1\n\n"
        seen.set()
        assert await process.stdout.read() == b"data: 2\n\ndata: [DONE]\n\n"
        assert await process.wait() == 0


async def test_an_upload_that_waits_for_permission(proxy: Service, door: socket.socket, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_text(json.dumps({"model": "m", "p": "x" * BIG}))
    pool = Replies(reply(COMPLETION))
    # Longer than the test: without a permission curl would not send at all.
    patient = ("--expect100-timeout", "60", "-H", "Expect: 100-continue")
    async with Frontend(pool, listener=door):
        answer = await printed(proxy, "--http1.1", *patient, "--data-binary", f"@{body}")
    assert json.loads(answer) == COMPLETION
    ((_, received),) = pool.asked
    assert len(received["p"]) == BIG


async def test_an_answer_that_breaks_off_is_said_to_be_no_whole_one(proxy: Service, door: socket.socket) -> None:
    async with Frontend(Replies(STREAM + word("one ")), listener=door), curl(proxy, "-N", *ASK) as process:
        output, _ = await process.communicate()
        assert b"one " in output
        assert process.returncode == CUT


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("begun", [b"", STREAM + word("one ")], ids=["before the answer", "within it"])
async def test_the_pool_sees_the_end_of_a_curl(
    proxy: Service, door: socket.socket, number: signal.Signals, begun: bytes
) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await request_of(peer)
        await peer.send(begun)
        asked.set()
        await peer.left()
        closed.set()

    async with Frontend(script, listener=door), curl(proxy, "-N", *ASK) as process:
        assert process.stdout is not None
        await asked.wait()
        if begun:
            await process.stdout.readuntil(b"\n\n")
        process.send_signal(number)
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


async def test_the_pool_sees_the_end_of_a_curl_that_uploads(
    proxy: Service, door: socket.socket, tmp_path: Path
) -> None:
    """Longer than what is held of a body: the pool has a part of it."""
    body = tmp_path / "body"
    body.write_text(json.dumps({"model": "m", "p": "x" * LONG}))
    begun, closed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        begun.set()
        await peer.left()
        closed.set()

    slowly = ("--limit-rate", f"{LONG}", "--data-binary", f"@{body}")
    async with Frontend(script, listener=door), curl(proxy, *slowly) as process:
        await begun.wait()
        process.kill()
        async with asyncio.timeout(SEEN_SECS):
            await closed.wait()


async def test_http_2_that_is_only_offered_is_answered_by_http_1(proxy: Service, door: socket.socket) -> None:
    pool = Replies(reply(COMPLETION))
    async with Frontend(pool, listener=door):
        answer = await printed(proxy, "--http2", "--write-out", "%{http_version}", *ASK)
    assert answer.endswith(b"}1.1")
    ((head, _),) = pool.asked
    assert b"upgrade" not in head.lower()
    assert b"http2-settings" not in head.lower()


async def test_http_2_by_prior_knowledge_is_refused_at_once(proxy: Service) -> None:
    async with curl(proxy, "--http2-prior-knowledge", *ASK) as process:
        output, complaint = await process.communicate()
        assert (output, process.returncode not in (0, TIMED_OUT)) == (b"", True), complaint
    assert (await asyncio.to_thread(proxy.get, "/live")).status == 200
