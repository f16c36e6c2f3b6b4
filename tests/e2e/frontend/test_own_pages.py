"""What the Global Frontend says of itself: its pools, the models, and series whose labels callers cannot make."""

import asyncio
import contextlib
import json
import secrets
import socket

import pytest

from gdsvc.frontend.catalog import NOTHING_YET, Catalog, static
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.listing import Listing
from gdsvc.frontend.problems import NoModels
from gdsvc.frontend.selection import Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.frontend.upstream import Client
from tests.e2e.frontend.calling import CHAT, FRONTEND, ask, request, samples
from tests.e2e.process import Serve, Service
from tests.upstream.scripted import Frontend, Peer, Script

pytestmark = pytest.mark.loops("asyncio")

SELECTIONS = "dynamo_global_frontend_overhead_selection_ms_count"
FAMILIES = {
    "gdsvc_frontend_requests_total",
    "gdsvc_frontend_in_flight",
    "gdsvc_frontend_upstream_connections_total",
    "gdsvc_frontend_time_to_first_byte_seconds_count",
    "gdsvc_frontend_aborted_total",
    "gdsvc_frontend_ejected",
    "gdsvc_frontend_pools",
    SELECTIONS,
    "dynamo_global_frontend_overhead_selection_ms_sum",
}


async def answer(peer: Peer) -> None:
    await peer.receive_until(b"}")
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def listing(*models: str) -> bytes:
    body = json.dumps({"object": "list", "data": [{"id": name, "object": "model", "x": 1} for name in models]}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def saying(reply: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)

    return script


async def test_the_models_of_pools_from_the_command_line_are_what_they_list_themselves(serve: Serve) -> None:
    asked = list[bytes]()

    def pool(reply: bytes) -> Frontend:
        async def script(peer: Peer) -> None:
            asked.append(await peer.head())
            await peer.send(reply)

        return Frontend(script)

    async with (
        pool(listing("m", "one")) as one,
        pool(listing("two", "m")) as two,
        pool(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n") as broken,
    ):
        flags = [
            f"--pool={name}=http://127.0.0.1:{each.port}" for name, each in zip("abc", (one, two, broken), strict=True)
        ]
        service = await asyncio.to_thread(serve, *flags, command=FRONTEND)
        for _ in range(3):  # which are not asked each time
            listed = (await asyncio.to_thread(service.get, "/v1/models")).json()
            assert listed["object"] == "list"
            assert [model["id"] for model in listed["data"]] == ["m", "one", "two"]
        assert len(asked) == 3
        await asyncio.to_thread(service.stop)


REPLIES = (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", listing(), listing("m"))


async def models_of(catalog: Catalog) -> list[str] | None:
    """What is listed where the pools are these; None where nobody can say."""
    selector = Selector(SelectionCore(), Ejection())
    selector.publish(catalog, 0.0)
    async with Client() as client:
        try:
            return [model["id"] for model in json.loads(await Listing(selector, client).body())["data"]]
        except NoModels:
            return None


@pytest.mark.parametrize(
    ("replies", "listed"),
    [((0,), None), ((0, 1), None), ((1,), []), ((1, 1), []), ((0, 2), ["m"]), ((1, 2), ["m"])],
    ids=[
        "no answer",
        "one says none, one nothing",
        "says none",
        "both say none",
        "one lists",
        "one says none, one lists",
    ],
)
async def test_no_model_is_listed_only_where_every_pool_says_so(
    replies: tuple[int, ...], listed: list[str] | None
) -> None:
    async with contextlib.AsyncExitStack() as pools:
        ports = [(await pools.enter_async_context(Frontend(saying(REPLIES[reply])))).port for reply in replies]
        catalog = static((str(port), (f"http://127.0.0.1:{port}",)) for port in ports)
        assert await models_of(catalog) == listed


async def test_of_a_discovery_service_no_model_is_listed_only_where_its_list_is_complete() -> None:
    assert await models_of(NOTHING_YET) is None
    assert await models_of(Catalog(known=True)) is None
    assert await models_of(Catalog(known=True, complete=True)) == []


async def test_pools_are_shown_as_they_are_routed_to(proxy: Service, door: socket.socket) -> None:
    url = f"http://127.0.0.1:{door.getsockname()[1]}"
    frontend = {"url": url, "set_aside": False, "barred_secs": 0.0}
    pool = {"id": "a", "model": None, "region": None, "in_flight": 0, "set_aside": False, "frontends": [frontend]}
    async with Frontend(answer, listener=door):
        assert (await ask(proxy.port, request()))[0] == 200  # what failed before counts no more
    assert (await asyncio.to_thread(proxy.get, "/pools")).json() == {"complete": True, "pools": [pool]}
    assert (await asyncio.to_thread(proxy.get, "/ready")).json() == {"ready": True, "reasons": []}
    assert (await ask(proxy.port, request(target=b"/pools")))[0] == 405


async def test_series_are_bounded_whatever_callers_ask_for(proxy: Service, door: socket.socket) -> None:
    before = await samples(proxy)
    names = [secrets.token_hex(8) for _ in range(30)]
    async with Frontend(answer, listener=door):
        for name in names:
            for target in (CHAT, b"/v1/" + name.encode()):
                assert (await ask(proxy.port, request(b'{"model":"%b"}' % name.encode(), target=target)))[0] == 200
    measured = await samples(proxy)
    assert {name.partition("{")[0] for name in measured} >= FAMILIES
    assert not [sample for sample in measured if any(name in sample for name in names)]
    for route in ("/v1/chat/completions", "other"):
        assert measured[f'gdsvc_frontend_requests_total{{pool="a",route="{route}",status="200"}}'] >= 30
    assert measured[SELECTIONS] - before[SELECTIONS] == 2 * len(names)
