"""Pools that take each other's place in a real discovery service while requests run: no request is refused for it."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import pytest

from tests.e2e.frontend.calling import FRONTEND, calling, head, ready, samples, until
from tests.e2e.process import Serve, Service
from tests.e2e.wire import Connection
from tests.upstream.scripted import Frontend, Peer

pytestmark = pytest.mark.loops("asyncio")

CALLERS = 4
ON_A_CONNECTION = 50  # requests: what is done on one has a time
BETWEEN = 20  # requests are answered between two replacements
BODY = b'{"model":"m"}'
ASK = head(b"Content-Length: %d" % len(BODY)) + BODY
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
POLICIES = {
    "round-robin": ("--router-policy=round-robin",),
    "least-in-flight": ("--router-policy=least-in-flight",),
    "selection core": ("--use-selection-core",),
}


async def answer(peer: Peer) -> None:
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            await peer.receive_until(BODY)
            await peer.send(REPLY)


def replace_pools(service: Service, ports: tuple[int, int], replacements: int, between: Callable[[], None]) -> None:
    """Pool 0, then pool 1 in its place, and so on: the new one registers, and the one before is taken out at once."""
    with Connection(service.port) as connection:
        for number in range(replacements + 1):
            key = {"site_id": "s", "namespace": "n", "dgd_name": str(number)}
            frontends = [f"http://127.0.0.1:{ports[number % 2]}"]
            reply = connection.post("/pools", {"key": key, "model": "m", "frontends": frontends})
            assert reply.status == 200
            if number:
                assert connection.request("DELETE", f"/pools/s/n/{number - 1}").status == 204
                between()


async def served(service: Service) -> set[str]:
    """The pools that requests went to."""
    names = [name for name in await samples(service) if name.startswith("gdsvc_frontend_requests_total")]
    return {name.partition('pool="')[2].partition('"')[0] for name in names}


@pytest.mark.parametrize(
    ("flags", "replacements"),
    [
        pytest.param(POLICIES["round-robin"], 20, id="round-robin, a few"),
        *(pytest.param(flags, 200, id=name, marks=pytest.mark.load) for name, flags in POLICIES.items()),
    ],
)
async def test_pools_that_replace_each_other_while_requests_run_cause_no_503(
    serve: Serve, flags: tuple[str, ...], replacements: int
) -> None:
    statuses = {200: 0}
    done = asyncio.Event()

    async def call(port: int) -> None:
        while not done.is_set():
            async with calling(port) as caller:
                for _ in range(ON_A_CONNECTION):
                    await caller.send(ASK)
                    status = int((await caller.head()).split()[1])
                    statuses[status] = statuses.get(status, 0) + 1
                    await caller.receive_until(b"}")

    def until_some_are_answered() -> None:
        target = sum(statuses.values()) + BETWEEN
        while sum(statuses.values()) < target and not done.is_set():
            time.sleep(0.001)

    async with Frontend(answer) as one, Frontend(answer) as two:
        discovery = await asyncio.to_thread(serve)
        ports = (one.port, two.port)
        await asyncio.to_thread(replace_pools, discovery, ports, 0, until_some_are_answered)
        url = f"--discovery-url=http://127.0.0.1:{discovery.port}"
        service = await asyncio.to_thread(serve, url, *flags, command=FRONTEND)

        async def is_ready() -> bool:
            return await ready(service) == 200

        await until(is_ready)
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(call(service.port))
            try:
                await asyncio.to_thread(replace_pools, discovery, ports, replacements, until_some_are_answered)
            finally:
                done.set()
        assert set(statuses) == {200}
        assert len(await served(service)) > replacements / 2  # a burst of changes becomes one catalog
        await asyncio.gather(asyncio.to_thread(service.stop), asyncio.to_thread(discovery.stop))
