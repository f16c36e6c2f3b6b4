"""Whatever way a reply says where it ends, all of it is given; and what ends otherwise is never a normal end."""

import asyncio

import pytest

from gdsvc.frontend.upstream import Cause, RequestHead, UpstreamFailed
from tests.upstream.scripted import GET, OK, POST, Peer, ask, body_of, replying, serve_for_ever, stand

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD = RequestHead(b"HEAD", b"/")


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", b"hello"),
        (CHUNKED + b"0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b""),
    ],
    ids=["length", "length 0", "chunks", "no chunk", "until close", "1.0", "204", "304"],
)
async def test_a_body_ends_where_its_framing_says(reply: bytes, body: bytes) -> None:
    async with stand(replying(reply)) as (client, frontend):
        assert await ask(client, frontend.origin) == (int(reply[9:12]), body)


async def test_a_head_request_has_no_body_and_gives_its_connection_back() -> None:
    described = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with stand(replying(described, OK)) as (client, frontend):
        assert await ask(client, frontend.origin, HEAD) == (200, b"")
        assert await ask(client, frontend.origin) == (200, b"ok")
        assert len(frontend.peers) == 1


async def test_a_body_behind_the_reply_to_a_head_request_closes_the_connection() -> None:
    async with stand(replying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")) as (client, frontend):
        assert await ask(client, frontend.origin, HEAD) == (200, b"")
        assert client.counts().idle == 0


async def test_headers_keep_their_bytes_order_and_case() -> None:
    reply = b"HTTP/1.1 200 OK\r\nX-b: 1\r\nx-A:  \xff two \r\nX-b: 3\r\nEmpty:\r\nContent-Length: 0\r\n\r\n"
    async with stand(replying(reply)) as (client, frontend), client.send(frontend.origin, GET) as response:
        assert response.headers == [
            (b"X-b", b"1"),
            (b"x-A", b"\xff two "),
            (b"X-b", b"3"),
            (b"Empty", b""),
            (b"Content-Length", b"0"),
        ]


async def test_trailers_are_there_after_the_body() -> None:
    reply = CHUNKED + b"2\r\nok\r\n0\r\nX-Sum: 7\r\nx-sum:\r\n\r\n"
    async with stand(replying(reply)) as (client, frontend), client.send(frontend.origin, GET) as response:
        assert await body_of(response) == b"ok"
        assert response.trailers == [(b"X-Sum", b"7"), (b"x-sum", b"")]
        assert response.headers == [(b"Transfer-Encoding", b"chunked")]


async def test_interim_replies_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 9\r\n\r\n"
    async with (
        stand(replying(interim + b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nend")) as (client, frontend),
        client.send(frontend.origin, GET) as response,
    ):
        assert (response.status, response.headers, await body_of(response)) == (200, [(b"X", b"y")], b"end")


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\n",
        CHUNKED + b"5\r\nhel",
    ],
    ids=["short length", "no last chunk", "no end of trailers", "cut chunk"],
)
async def test_a_body_that_ends_short_is_a_failure_after_what_came(reply: bytes) -> None:
    async with stand(replying(reply)) as (client, frontend), client.send(frontend.origin, GET) as response:
        assert await response.read() in (b"hell", b"hello", b"hel")
        with pytest.raises(UpstreamFailed) as caught:
            await response.read()
        assert caught.value.cause is Cause.BROKEN_OFF
        assert client.counts().failed[Cause.BROKEN_OFF] == 1


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", CHUNKED, b"HTTP/1.1 200 OK\r\n\r\n"]
)
async def test_a_reset_in_the_body_is_a_failure_in_every_framing(head: bytes) -> None:
    read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(head + b"4\r\nfour\r\n")
        await read.wait()
        peer.reset()

    async with stand(script) as (client, frontend), client.send(frontend.origin, GET) as response:
        assert await response.read()
        read.set()
        with pytest.raises(UpstreamFailed) as caught:
            await body_of(response)
        assert caught.value.cause is Cause.BROKEN_OFF


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 12000 + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3000,
    ],
    ids=str,
)
async def test_what_is_no_reply_that_can_be_passed_on_is_refused(reply: bytes) -> None:
    async with stand(replying(reply)) as (client, frontend):
        with pytest.raises(UpstreamFailed) as caught:
            await ask(client, frontend.origin)
        assert caught.value.cause is Cause.MALFORMED
        assert str(caught.value).startswith(frontend.origin.url)


async def test_trailers_without_end_are_refused() -> None:
    async with stand(replying(CHUNKED + b"2\r\nok\r\n0\r\n" + b"X: y\r\n" * 12000)) as (client, frontend):
        with pytest.raises(UpstreamFailed) as caught:
            await ask(client, frontend.origin)
        assert caught.value.cause is Cause.MALFORMED


@pytest.mark.parametrize("behind", [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", b"x"])
async def test_what_follows_a_reply_closes_the_connection_and_reaches_nobody(behind: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK + behind)
        assert await peer.left() == 0

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin) == (200, b"ok")
        assert client.counts().idle == 0


async def test_what_follows_a_reply_later_closes_the_connection_and_spoils_nothing() -> None:
    entered = asyncio.Event()
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await entered.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
        await peer.left()
        gone.set()

    async with stand(script) as (client, frontend), client.send(frontend.origin, GET) as response:
        entered.set()
        await gone.wait()
        assert await body_of(response) == b"ok"
        assert sum(client.counts().failed.values()) == 0


async def test_what_comes_unasked_on_an_idle_connection_closes_it() -> None:
    idle = asyncio.Event()
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        if peer.number:
            await serve_for_ever(peer)
            return
        await peer.head()
        await peer.send(OK)
        await idle.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
        await peer.left()
        gone.set()

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin) == (200, b"ok")
        assert client.counts().idle == 1
        idle.set()
        await gone.wait()
        assert await ask(client, frontend.origin) == (200, b"ok")
        assert len(frontend.peers) == 2


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_a_reply_that_wants_the_connection_closed_has_it_closed(reply: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)
        assert await peer.left() == 0

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin) == (200, b"ok")
        assert client.counts().idle == 0


async def test_a_post_says_its_length_and_its_host_and_nothing_that_was_not_asked() -> None:
    async def script(peer: Peer) -> None:
        expected = b"POST /v1/chat/completions HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"
        assert await peer.head() == expected % frontend.origin.authority.encode() + b"Content-Length: 2\r\n\r\n"
        assert await peer.receive(2) == b"{}"
        await peer.send(OK)

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin, POST, b"{}") == (200, b"ok")
