"""Routing by a discovery service: a real one over its watch, and a scripted one that is restarted and knows nobody."""

import asyncio

import pytest

from gdsvc import model
from gdsvc._in_flight import Frontend
from gdsvc.frontend.policies.plugins import installed, names
from gdsvc.frontend.selection import Refused
from gdsvc.model import PoolKey, PoolListing, PoolRegistration, listing_of
from gdsvc.modes.frontend import Routing
from gdsvc.settings import parse_frontend
from tests.e2e.client.scripted import ScriptedServer
from tests.e2e.client.watching import Streams, listed, removed, stream, until
from tests.e2e.process import Serve

pytestmark = pytest.mark.loops("uvloop")


def routing(*flags: str) -> Routing:
    return Routing(parse_frontend(flags, {}, names(installed())), installed())


def pool(name: str, port: int = 8000) -> PoolListing:
    return listing_of(
        PoolRegistration(PoolKey("s", "n", name), model="m", frontends=(f"http://{name}.example:{port}",))
    )


def urls(made: Routing, model_: str = "m") -> set[str]:
    """Where ten requests go."""
    found = [made.selector.select(model_, 0.0) for _ in range(10)]
    return {frontend.url for frontend in found if isinstance(frontend, Frontend)}


def completeness(made: Routing) -> bool:
    return made.selector.catalog.complete


async def test_pools_of_the_command_line_are_routed_to_at_once() -> None:
    made = routing("--pool=a=http://a1,http://a2", "--pool=b=http://b", "--router-policy=least-in-flight")
    assert made.not_ready() == ("no list of pools yet",)
    async with made.running():
        assert made.not_ready() == ()
        assert urls(made, "any model") == {"http://a1", "http://a2", "http://b"}


async def test_a_pool_is_used_when_it_registers_elsewhere_when_it_moved_and_no_more_when_it_left(serve: Serve) -> None:
    service = serve("--heartbeat-interval-secs=1", "--lease-duration-secs=60")
    made = routing(f"--discovery-url=http://127.0.0.1:{service.port}", "--use-selection-core")
    post = {"key": {"site_id": "s", "namespace": "n", "dgd_name": "a"}, "model": "m"}
    async with made.running():
        await until(lambda: made.selector.catalog.known)
        assert made.not_ready() == ("no pool with a model has a frontend",)
        assert made.selector.select("m", 0.0) is Refused.NOT_KNOWN_YET
        for port in (8000, 9000):
            await asyncio.to_thread(service.post, "/pools", post | {"frontends": [f"http://10.0.0.1:{port}"]})
            await until(lambda port=port: urls(made) == {f"http://10.0.0.1:{port}"})  # type: ignore[misc]
        assert made.not_ready() == ()

        def leave() -> int:
            with service.connect() as connection:
                return connection.request("DELETE", "/pools/s/n/a").status

        assert await asyncio.to_thread(leave) == 204
        await until(lambda: urls(made) == set())


async def test_a_restarted_service_that_knows_nobody_takes_no_pool_away() -> None:
    script = Streams(
        stream(("resync", listed(pool("a"), pool("b")), "e-1"), stays=False),
        stream(
            ("resync", listed(complete=False), "f-1"),
            ("upserted", model.encode_listing(pool("a", port=9000)), "f-2"),
            ("removed", removed("b"), "f-3"),
        ),
    )
    async with ScriptedServer(script) as server:
        made = routing(f"--discovery-url={server.url}")
        async with made.running():
            await until(lambda: len(urls(made)) == 2)
            assert completeness(made)
            script.go.set()
            refused = 0
            async with asyncio.timeout(10):
                while len(made.selector.catalog.pools) == 2:
                    refused += isinstance(made.selector.select("m", 0.0), Refused)
                    await asyncio.sleep(0.001)
            assert refused == 0
            assert not completeness(made)
            assert urls(made) == {"http://a.example:9000"}


async def test_a_service_out_of_reach_is_said_to_be_so() -> None:
    made = routing("--discovery-url=http://127.0.0.1:1")
    async with made.running():
        await until(lambda: "127.0.0.1:1" in made.not_ready()[0])
        assert made.selector.select("m", 0.0) is Refused.NOT_KNOWN_YET
