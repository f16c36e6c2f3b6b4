"""The cause says whether the request may be sent again: only what nothing has read, or a sign of it."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import pytest

from gdsvc.frontend.upstream import Cause, Client, Limits, Origin, Streamed, UpstreamFailed
from tests.upstream.scripted import GET, OK, POST, Frontend, Peer, Script, ask, body_of, nothing_left, stand


async def cause_of(client: Client, origin: Origin, body: bytes = b"{}") -> Cause:
    with pytest.raises(UpstreamFailed) as caught:
        await ask(client, origin, POST, body)
    return caught.value.cause


def served_then(end: Script) -> Script:
    """Answers one request on each connection, then does `end`."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await end(peer)

    return script


async def test_a_refused_connection_is_not_established() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and never listens
        async with nothing_left(), Client() as client:
            assert await cause_of(client, Origin("http", "127.0.0.1", held.getsockname()[1])) is Cause.NOT_ESTABLISHED
            assert client.counts().failed[Cause.NOT_ESTABLISHED] == 1


async def test_a_connection_that_nobody_accepts_is_not_established_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as filler:
        filler.connect(listener.getsockname())
        origin = Origin("http", "127.0.0.1", listener.getsockname()[1])
        async with nothing_left(), Client(Limits(connect_secs=0.1)) as client:
            assert await cause_of(client, origin) is Cause.NOT_ESTABLISHED


async def test_a_reused_connection_that_was_closed_before_the_request_is_unread() -> None:
    async def wait(_peer: Peer) -> None:
        await over.wait()

    over = asyncio.Event()
    async with stand(served_then(wait)) as (client, frontend):
        await ask(client, frontend.origin)
        frontend.peers[0].close()  # the loop gets no turn between this and the request: the race, every time
        assert await cause_of(client, frontend.origin) is Cause.UNREAD
        over.set()


async def test_a_reused_connection_that_was_reset_before_the_request_is_unread() -> None:
    async def wait(_peer: Peer) -> None:
        await over.wait()

    over = asyncio.Event()
    async with stand(served_then(wait)) as (client, frontend):
        await ask(client, frontend.origin)
        frontend.peers[0].reset()
        assert await cause_of(client, frontend.origin) is Cause.UNREAD
        over.set()


async def test_a_reused_connection_closed_with_the_request_unread_in_its_buffer_is_reset() -> None:
    async def close_unread(peer: Peer) -> None:
        peer.sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1
        )  # else the reset may overtake the acknowledgement
        await asyncio.get_running_loop().sock_recv(peer.sock, 1)
        peer.close()  # the rest was acknowledged and is thrown away: TCP resets

    async with stand(served_then(close_unread)) as (client, frontend):
        await ask(client, frontend.origin)
        assert await cause_of(client, frontend.origin) is Cause.RESET


async def test_a_reused_connection_that_ends_after_it_has_read_the_request_gives_no_reply() -> None:
    async def read_and_close(peer: Peer) -> None:
        await peer.head()
        await peer.receive(2)

    async with stand(served_then(read_and_close)) as (client, frontend):
        await ask(client, frontend.origin)
        assert await cause_of(client, frontend.origin) is Cause.NO_REPLY
        assert not Cause.NO_REPLY.may_be_repeated


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_fresh_connection_that_ends_without_a_reply_is_never_repeated(how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        getattr(peer, how)()

    async with stand(script) as (client, frontend):
        assert await cause_of(client, frontend.origin) is Cause.NO_REPLY


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("reply", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["one byte", "interim"])
async def test_one_byte_of_a_reply_rules_repeating_out(how: str, reply: bytes) -> None:
    async def begin_and_end(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)
        getattr(peer, how)()

    async with stand(served_then(begin_and_end)) as (client, frontend):
        await ask(client, frontend.origin)
        assert await cause_of(client, frontend.origin) is Cause.BROKEN_OFF


async def test_a_reused_connection_that_dies_in_a_large_body_which_was_read_in_part_is_not_unread() -> None:
    async def read_some(peer: Peer) -> None:
        await peer.head()
        await peer.receive(1 << 20)

    async with stand(served_then(read_some)) as (client, frontend):
        await ask(client, frontend.origin)
        assert await cause_of(client, frontend.origin, b"x" * (16 << 20)) in (Cause.RESET, Cause.NO_REPLY)


async def test_a_fresh_connection_is_used_where_it_is_asked_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await peer.left()

    async with stand(script) as (client, frontend):
        await ask(client, frontend.origin)
        async with client.send(frontend.origin, GET, fresh=True) as response:
            assert (response.reused, await body_of(response)) == (False, b"ok")
        assert len(frontend.peers) == 2


async def test_an_early_reply_is_seen_though_the_upload_was_reset() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmuch")

    async with stand(script) as (client, frontend):
        assert await ask(client, frontend.origin, POST, b"x" * (16 << 20)) == (413, b"much")


async def test_a_reply_that_waits_behind_a_failed_write_is_seen() -> None:
    """The write fails before the loop looks at what there is to read."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"x"
        await replied.wait()
        yield b"x" * 65536

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmuch")
        peer.reset()
        replied.set()

    replied = asyncio.Event()
    async with (
        stand(script) as (client, frontend),
        client.send(frontend.origin, POST, Streamed(parts())) as response,
    ):
        assert (response.status, await body_of(response)) == (413, b"much")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"], ids=["head", "body"])
async def test_an_upstream_that_is_silent_for_too_long_is_given_up(reply: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)
        await peer.left()

    async with stand(script, Limits(silence_secs=0.05)) as (client, frontend):
        assert await cause_of(client, frontend.origin, b"") is Cause.SILENT


@pytest.mark.loops("uvloop")
async def test_a_stream_outlives_the_time_of_silence_as_long_as_something_comes() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.05)  # paced: what is tested is time
            await peer.send(b"x")

    async with stand(script, Limits(silence_secs=0.25)) as (client, frontend):
        assert await ask(client, frontend.origin) == (200, b"x" * 8)


@pytest.mark.loops("uvloop")
async def test_silence_of_the_reader_is_not_the_upstreams() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (4 << 20))

    async with (
        stand(script, Limits(silence_secs=0.1)) as (client, frontend),
        client.send(frontend.origin, GET) as response,
    ):
        await asyncio.sleep(0.25)
        assert len(await body_of(response)) == 4 << 20


async def test_a_stall_of_our_own_is_not_silence_of_the_upstream() -> None:
    """It begins while the loop handles a socket: uvloop then runs the timers before it looks at other sockets."""

    async def script(peer: Peer) -> None:
        def stall() -> None:
            loop.remove_reader(ours)
            peer.sock.send(b"ok")
            time.sleep(0.1)

        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await begun.wait()
        loop.add_reader(ours, stall)
        theirs.send(b"x")
        await peer.left()

    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with (
            stand(script, Limits(silence_secs=0.05)) as (client, frontend),
            client.send(frontend.origin, GET) as response,
        ):
            begun.set()
            assert await body_of(response) == b"ok"


@pytest.mark.loops("uvloop")
async def test_silence_of_who_gives_the_body_is_not_the_upstreams() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0.25)
        yield b"b"

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.drain_until(b"0\r\n\r\n")
        await peer.send(OK)

    async with (
        stand(script, Limits(silence_secs=0.1)) as (client, frontend),
        client.send(frontend.origin, POST, Streamed(source())) as response,
    ):
        assert await body_of(response) == b"ok"


@pytest.mark.loops("uvloop")
async def test_an_upload_that_goes_out_slowly_is_not_silence() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        for _ in range(16):
            await peer.receive(1 << 20)
            await asyncio.sleep(0.03)  # slow: 0.5 s for all
        await peer.send(OK)

    async with stand(script, Limits(silence_secs=0.2)) as (client, frontend):
        assert await ask(client, frontend.origin, POST, b"x" * (16 << 20)) == (200, b"ok")


async def test_an_upload_that_is_not_taken_is_silence() -> None:
    async def stalled(_peer: Peer) -> None:
        await over.wait()

    over = asyncio.Event()
    async with stand(stalled, Limits(silence_secs=0.05)) as (client, frontend):
        assert await cause_of(client, frontend.origin, b"x" * (32 << 20)) is Cause.SILENT
        over.set()


async def test_scripts_that_fail_fail_the_test() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        raise ValueError("as it should")

    with pytest.raises(ValueError, match="as it should"):
        async with Frontend(script) as frontend, Client() as client:
            await cause_of(client, frontend.origin)
