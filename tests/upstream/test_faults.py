"""What becomes of a fault of our own while an answer is passed on."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gdsvc import logs
from gdsvc.asgi.streams import BrokenOff
from gdsvc.frontend.catalog import static
from gdsvc.frontend.counts import OTHER_ROUTE, Counts
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.forwarding import Forwarder, Limits
from gdsvc.frontend.headers import Trusted, read
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy
from gdsvc.frontend.selection import Selector
from tests.unit.frontend.fleets import ENVIRONMENT
from tests.upstream.scripted import OK, Peer, stand


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is logged."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("error", "json", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_fault_within_an_answer_breaks_it_off_and_is_logged(log: io.StringIO) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_until(b"}")
        await peer.send(OK)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"model":"m"}', "more_body": False}

    async def send(message: object) -> None:
        raise LookupError("unforeseen")

    scope: Any = {
        "client": ("127.0.0.1", "1"),
        "scheme": "http",
        "method": "POST",
        "path": "/v1/x",
        "raw_path": b"/v1/x",
        "query_string": b"key=secret",
    }
    async with stand(script) as (client, frontend):
        selector = Selector(RoundRobinPolicy(ENVIRONMENT), Ejection())
        selector.publish(static([("a", (frontend.origin.url,))]), 0.0)
        forwarder = Forwarder(selector, client, Counts(), Limits(1000, 1000, 1), Trusted(()))
        sending: Any = send
        receiving: Any = receive
        with pytest.raises(BrokenOff):
            await forwarder.forward(scope, receiving, sending, read([], trusted=False), OTHER_ROUTE)
        assert forwarder.in_flight == 0
    assert "LookupError: unforeseen" in log.getvalue()
    assert "secret" not in log.getvalue()
