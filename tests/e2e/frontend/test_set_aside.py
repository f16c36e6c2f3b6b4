"""Pools that fail are set aside, seen from outside: their requests are served elsewhere, until they are back."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.frontend.calling import ASK, FRONTEND, ask, request, samples
from tests.e2e.process import Serve, Service
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NOT_ME = b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}"
REFUSED_A = 'gdsvc_frontend_upstream_connections_total{outcome="not_established",pool="a"}'
FAILURES = 5
FIRST_SECS = 10.0


@contextlib.contextmanager
def refusing() -> Iterator[socket.socket]:
    """An address where nobody listens, and that nobody else gets meanwhile."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


class Answering:
    """A pool that answers every request after `secs` with `reply`."""

    def __init__(self, reply: bytes, secs: float = 0.0) -> None:
        self.asked = 0
        self._reply = reply
        self._secs = secs

    async def __call__(self, peer: Peer) -> None:
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                await peer.receive_until(ASK)
                self.asked += 1
                await asyncio.sleep(self._secs)
                await peer.send(self._reply)


async def start(serve: Serve, *flags: str, **ports: int) -> Service:
    pools = [f"--pool={name}=http://127.0.0.1:{port}" for name, port in ports.items()]
    return await asyncio.to_thread(serve, *pools, *flags, command=FRONTEND)


async def set_aside(service: Service) -> dict[str, bool]:
    """Which pools are, as GET /pools says; /metrics says the same."""
    shown = (await asyncio.to_thread(service.get, "/pools")).json()["pools"]
    found = {pool["id"]: pool["set_aside"] for pool in shown}
    measured = await samples(service)
    assert {name: bool(measured[f'gdsvc_frontend_ejected{{pool="{name}"}}']) for name in found} == found
    for pool in shown:
        barred = pool["frontends"][0]["barred_secs"]
        assert 0 < barred <= FIRST_SECS or not pool["set_aside"]
    return found


async def test_the_log_says_why_a_frontend_is_set_aside(serve: Serve) -> None:
    """Whether nobody listens or a certificate is not accepted: callers are told neither, and no metric is so exact."""
    with refusing() as closed:
        service = await start(serve, a=closed.getsockname()[1])
        for _ in range(FAILURES):
            assert (await ask(service.port, request()))[0] == 502
    (told,) = (event for event in service.events if event["event"] == "frontend.set_aside")
    assert "refused" in told["reason"]


async def test_a_pool_that_refuses_is_set_aside_after_five_failures_and_no_request_fails(serve: Serve) -> None:
    good = Answering(OK)
    with refusing() as closed:
        async with Frontend(good) as pool:
            service = await start(serve, a=closed.getsockname()[1], b=pool.port)
            for failures in range(1, FAILURES + 1):
                assert await set_aside(service) == {"a": False, "b": False}
                while (await samples(service)).get(REFUSED_A, 0) < failures:
                    assert (await ask(service.port, request()))[0] == 200
            assert await set_aside(service) == {"a": True, "b": False}
            assert [(await ask(service.port, request()))[0] for _ in range(10)] == [200] * 10
            assert (await samples(service))[REFUSED_A] == FAILURES
            assert (await asyncio.to_thread(service.get, "/ready")).status == 200
            assert sum("frontend.set_aside" in event["event"] for event in service.events) == 1
            await asyncio.to_thread(service.stop)


@pytest.mark.load
async def test_a_pool_comes_back_after_its_time_and_stays_where_it_answers(serve: Serve) -> None:
    good, other = Answering(OK), Answering(OK)
    with refusing() as address:
        async with Frontend(good) as pool:
            service = await start(serve, a=address.getsockname()[1], b=pool.port)
            while not (await set_aside(service))["a"]:
                assert (await ask(service.port, request()))[0] == 200
            address.listen(100)
            async with Frontend(other, listener=address):
                loop = asyncio.get_running_loop()
                aside_at = loop.time()
                while not other.asked:
                    assert (await ask(service.port, request()))[0] == 200
                    await asyncio.sleep(0.05)
                assert FIRST_SECS - 1 < loop.time() - aside_at < FIRST_SECS + 1
                assert await set_aside(service) == {"a": False, "b": False}
                before = other.asked
                assert [(await ask(service.port, request()))[0] for _ in range(20)] == [200] * 20
                assert other.asked == before + 10
                await asyncio.to_thread(service.stop)


@pytest.mark.load
async def test_a_pool_that_fails_fast_attracts_no_traffic(serve: Serve) -> None:
    """Of three pools two answer 503 at once. One is set aside; the other may not be, and is idle most times."""
    good, bad, worse = Answering(OK, 0.02), Answering(NOT_ME), Answering(NOT_ME)
    async with Frontend(good) as one, Frontend(bad) as two, Frontend(worse) as three:
        service = await start(serve, "--router-policy=least-in-flight", a=one.port, b=two.port, c=three.port)

        async def caller() -> None:
            for _ in range(15):
                await ask(service.port, request())

        async with asyncio.TaskGroup() as callers:
            for _ in range(10):
                callers.create_task(caller())
        assert sum((await set_aside(service)).values()) == 1
        assert good.asked + bad.asked + worse.asked == 150
        assert good.asked >= 60, (good.asked, bad.asked, worse.asked)
        await asyncio.to_thread(service.stop)
