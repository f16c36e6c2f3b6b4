"""Which connection a request gets: the last one given back, within bounds; by name, by address, by version of IP."""

import asyncio
import gc
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress

import pytest

from gdsvc._reply import ReplyReader
from gdsvc.errors import Invalid
from gdsvc.frontend.upstream import Cause, Client, Limits, Origin, UpstreamFailed
from gdsvc.frontend.upstream.connection import Connection
from gdsvc.frontend.upstream.dialling import Dialler
from gdsvc.frontend.upstream.failures import Closed
from gdsvc.frontend.upstream.names import Address, Names, system_lookup
from tests.upstream.scripted import (
    GET,
    OK,
    PATIENCE,
    Frontend,
    Peer,
    ask,
    body_of,
    nothing_left,
    serve_for_ever,
    stand,
    until,
)


async def ask_all_at_once(client: Client, origin: Origin, count: int) -> None:
    """All replies are there before the first is read."""
    sendings = [client.send(origin, GET) for _ in range(count)]
    responses = await asyncio.gather(*(sending.__aenter__() for sending in sendings))
    for response, sending in zip(responses, sendings, strict=True):
        assert await body_of(response) == b"ok"
        await sending.__aexit__(None, None, None)


async def test_requests_one_after_the_other_share_one_connection() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        for _ in range(5):
            assert await ask(client, frontend.origin) == (200, b"ok")
        counts = client.counts()
        assert (counts.open, counts.idle, counts.established, counts.reused) == (1, 1, 1, 4)
        assert len(frontend.peers) == 1


@pytest.mark.parametrize("reply", [OK, OK[:-1], b""])
async def test_a_connection_that_was_closed_is_freed_without_a_search_for_garbage(reply: bytes) -> None:
    """Such searches are rare, and what came and was not read, and TLS, would wait for one."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)

    gc.collect()
    gc.disable()
    try:
        async with stand(script) as (client, frontend):
            for _ in range(3):
                with suppress(UpstreamFailed):
                    await ask(client, frontend.origin)
            await until(lambda: client.counts().open == 0)
        assert not [one for one in gc.get_objects() if isinstance(one, Connection | ReplyReader)]
    finally:
        gc.enable()


async def test_the_connection_given_back_last_is_used_first() -> None:
    used: list[int] = []

    async def script(peer: Peer) -> None:
        try:
            while True:
                await peer.head()
                used.append(peer.number)
                await peer.send(OK)
        except (EOFError, ConnectionResetError):
            return

    async with stand(script) as (client, frontend):
        await ask_all_at_once(client, frontend.origin, 3)
        await ask(client, frontend.origin)
        last = used[-1]
        await ask(client, frontend.origin)
        assert used[-1] == last
        assert len(frontend.peers) == 3


async def test_no_more_are_kept_idle_than_allowed() -> None:
    async with stand(serve_for_ever, Limits(idle=2)) as (client, frontend):
        await ask_all_at_once(client, frontend.origin, 5)
        await until(lambda: client.counts().open == 2)
        assert client.counts().idle == 2


async def test_who_comes_beyond_the_limit_waits_for_a_connection() -> None:
    async with stand(serve_for_ever, Limits(connections=2)) as (client, frontend):
        replies = await asyncio.gather(*(ask(client, frontend.origin) for _ in range(20)))
        assert replies == [(200, b"ok")] * 20
        assert len(frontend.peers) <= 2


async def test_who_waits_for_a_connection_too_long_is_told_so() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)
        await peer.left()

    async with stand(script, Limits(connections=1, connect_secs=0.05)) as (client, frontend):
        async with client.send(frontend.origin, GET):
            with pytest.raises(UpstreamFailed) as caught:
                await ask(client, frontend.origin)
        assert caught.value.cause is Cause.NO_ROOM
        assert client.counts().failed[Cause.NO_ROOM] == 1


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with stand(serve_for_ever, Limits(idle_secs=0.05)) as (client, frontend):
        await ask(client, frontend.origin)
        assert client.counts().idle == 1
        await until(lambda: client.counts().open == 0)


async def test_a_connection_is_not_used_beyond_its_age() -> None:
    async with stand(serve_for_ever, Limits(age_secs=0.0)) as (client, frontend):
        for _ in range(2):
            await ask(client, frontend.origin)
        assert len(frontend.peers) == 2
        assert client.counts().idle == 0


async def test_a_connection_that_the_peer_closed_is_not_used_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK)

    async with stand(script) as (client, frontend):
        for _ in range(3):
            assert await ask(client, frontend.origin) == (200, b"ok")
            await until(lambda: client.counts().open == 0)
        assert sum(client.counts().failed.values()) == 0


async def test_a_connection_that_is_about_to_end_is_not_used_again() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        await ask(client, frontend.origin)
        for connection in client._tally.open:
            connection.abort()
        assert await ask(client, frontend.origin) == (200, b"ok")


async def test_ipv6() -> None:
    async def script(peer: Peer) -> None:
        assert f"\r\nHost: [::1]:{frontend.port}\r\n".encode() in await peer.head()
        await peer.send(OK)

    async with stand(script, host="::1") as (client, frontend):
        assert await ask(client, Origin.of(f"http://[::1]:{frontend.port}")) == (200, b"ok")


class Doomed(Connection):
    """Ends as soon as it stands."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.abort()


class Greeted(Connection):
    """The peer speaks first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.data_received(OK)


class Nobody:
    """Whom it does not interest."""

    def lost(self, connection: Connection, /) -> None: ...
    def failed(self, cause: Cause, /) -> None: ...


@pytest.mark.parametrize("kind", [Doomed, Greeted])
async def test_a_connection_that_ends_before_the_request_is_not_established(kind: type[Connection]) -> None:
    async def script(peer: Peer) -> None:
        assert await peer.left() == 0

    async with stand(script) as (_, frontend):
        dialler = Dialler(Limits(), None, system_lookup)
        with pytest.raises(UpstreamFailed) as caught:
            await dialler.dial(frontend.origin, lambda: kind(frontend.origin, Limits(), Nobody()))
        assert caught.value.cause is Cause.NOT_ESTABLISHED


async def test_a_process_without_free_descriptors_does_not_blame_the_upstream() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(UpstreamFailed) as caught:
                await ask(client, frontend.origin)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert caught.value.cause is Cause.NO_ROOM


class Book:
    """Looks names up in a list of answers, the last of which stays; an answer may be an error."""

    def __init__(self, *answers: Sequence[Address] | OSError) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        assert (host, port) == ("frontend.test", 80)
        self.asked += 1
        await asyncio.sleep(0)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


NAMED = Origin.of("http://frontend.test")


def at(frontend: Frontend) -> Address:
    return Address(socket.AF_INET, ("127.0.0.1", frontend.port))


@pytest.fixture
def closed() -> Address:
    """Where nobody listens: of a port below those that connections take by themselves."""
    return Address(socket.AF_INET, ("127.0.0.1", 1))


async def test_every_address_of_a_name_is_tried(closed: Address) -> None:
    async def script(peer: Peer) -> None:
        assert b"\r\nHost: frontend.test\r\n" in await peer.head()
        await peer.send(OK)

    other = closed._replace(sockaddr=("127.0.0.1", 2))
    async with (
        nothing_left(),
        Frontend(script) as frontend,
        Client(lookup=Book([closed, other, at(frontend)])) as client,
    ):
        assert await ask(client, NAMED) == (200, b"ok")


async def test_a_name_is_looked_up_again_after_a_while_and_taken_from_memory_before() -> None:
    async with nothing_left(), Frontend(serve_for_ever) as frontend:
        for resolve_secs, lookups in ((60.0, 1), (0.0, 3)):
            book = Book([at(frontend)])
            async with Client(Limits(resolve_secs=resolve_secs, age_secs=0.0), lookup=book) as client:
                for _ in range(3):
                    await ask(client, NAMED)
            assert book.asked == lookups


async def test_many_who_ask_for_one_name_cost_one_look_up() -> None:
    async with nothing_left(), Frontend(serve_for_ever) as frontend:
        book = Book([at(frontend)])
        async with Client(lookup=book) as client:
            await asyncio.gather(*(ask(client, NAMED) for _ in range(10)))
        assert book.asked == 1


async def test_a_name_that_cannot_be_looked_up_any_more_keeps_its_addresses() -> None:
    async with nothing_left(), Frontend(serve_for_ever) as frontend:
        book = Book([at(frontend)], socket.gaierror(socket.EAI_AGAIN, "Temporary failure"))
        async with Client(Limits(resolve_secs=0.0, age_secs=0.0), lookup=book) as client:
            for _ in range(3):
                assert await ask(client, NAMED) == (200, b"ok")
        assert book.asked == 3


async def test_a_look_up_that_hangs_gives_way_to_what_is_known(closed: Address) -> None:
    async def hanging(_host: str, _port: int) -> Sequence[Address]:
        if asked:
            await asyncio.Event().wait()
        asked.append(True)
        return [closed]

    asked: list[bool] = []
    names = Names(0.0, hanging, patience=0.02)
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            assert (await names.find("frontend.test", 80)).order() == [closed]


async def test_an_address_that_failed_is_tried_last(closed: Address) -> None:
    async with nothing_left(), Frontend(serve_for_ever) as frontend:
        dialler = Dialler(Limits(), None, Book([closed, at(frontend)]))
        for _ in range(2):
            made = await dialler.dial(NAMED, lambda: Connection(NAMED, Limits(), Nobody()))
            made.abort()
        known = await dialler._names.find("frontend.test", 80)
        assert [known.order()[-1] for _ in range(2)] == [closed, closed]


async def test_a_failure_to_connect_gives_its_place_back(closed: Address) -> None:
    async with nothing_left(), Client(Limits(connections=1, connect_secs=1.0), lookup=Book([closed])) as client:
        for _ in range(3):
            with pytest.raises(UpstreamFailed):
                await ask(client, NAMED)
        assert client.counts().failed[Cause.NOT_ESTABLISHED] == 3


async def test_a_connection_that_comes_to_be_after_the_client_was_closed_is_not_used() -> None:
    async def late(_host: str, _port: int) -> Sequence[Address]:
        looking.set()
        await closing.wait()
        return [at(frontend)]

    async def script(peer: Peer) -> None:
        assert await peer.left() == 0

    looking, closing = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(PATIENCE), nothing_left(), Frontend(script) as frontend:
        async with Client(lookup=late) as client:
            task = asyncio.create_task(ask(client, NAMED))
            await looking.wait()
        closing.set()
        with pytest.raises(Closed):
            await task


async def test_an_unknown_name_is_not_established_and_says_why() -> None:
    book = Book(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    async with nothing_left(), Client(lookup=book) as client:
        for _ in range(3):
            with pytest.raises(UpstreamFailed, match=r"http://frontend\.test: its name .*not known") as caught:
                await ask(client, NAMED)
            assert caught.value.cause is Cause.NOT_ESTABLISHED
        assert book.asked == 1  # within a second


async def test_localhost_is_looked_up_by_the_system() -> None:
    async with stand(serve_for_ever) as (client, frontend):
        assert await ask(client, Origin("http", "localhost", frontend.port)) == (200, b"ok")


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://a.test", "a.test"),
        ("http://a.test:80/", "a.test"),
        ("http://a.test:8000", "a.test:8000"),
        ("https://a.test", "a.test"),
        ("https://a.test:80", "a.test:80"),
        ("http://[2001:db8::1]:8000", "[2001:db8::1]:8000"),
        ("http://[::1]", "[::1]"),
    ],
)
def test_an_origin_says_its_authority(url: str, authority: str) -> None:
    origin = Origin.of(url)
    assert origin.authority == authority
    assert Origin.of(origin.url) == origin


@pytest.mark.parametrize("url", ["a.test", "ftp://a.test", "http://a.test/path", "http://u@a.test", "http://a.test:0"])
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        Origin.of(url)
