"""The first sync of 1,000 slices of 100 endpoints, from the socket to the directory: counted in steps, since a time
would be the machine's."""

import asyncio
import json
import selectors
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from gdsvc.backends.mcs.directory import McsPoolDirectory
from gdsvc.backends.mcs.imported import ImportedSlices
from gdsvc.backends.mcs.naming import Mode
from gdsvc.backends.mcs.pools import PoolServices
from gdsvc.backends.mcs.slices import Services
from gdsvc.kube.client import Client, Reply
from gdsvc.kube.objects import EndpointSlice
from gdsvc.kube.reflector import GIVE_WAY_STEPS, Reflector
from tests.kube.api_server import answer, api_server, reply
from tests.kube.stand import SLICES, Credentials, ManualTiming, Recorder, until
from tests.unit.backends.mcs.slice_objects import MCS_CLUSTER, MCS_SERVICE
from tests.unit.kube.events import slice_dict, status

COUNT, ENDPOINTS = 1_000, 100
PIECE_BYTES = 1 << 16  # of a list between two turns of the loop
TOLD_SERVICES, TOLD_ENDPOINTS = 250, 5_000  # between two turns of the loop


def texts(count: int) -> list[bytes]:
    """Slices as an API server writes them, each of a pool of its own."""
    whole = slice_dict("s-NUMBER", 7, *(f"10.0.0.{n}" for n in range(ENDPOINTS)))
    whole["metadata"]["labels"] = {MCS_CLUSTER: "east", MCS_SERVICE: "pNUMBER-pool-relay"}
    text = json.dumps(whole).encode()
    return [text.replace(b"NUMBER", b"%05d" % number) for number in range(count)]


def body(items: list[bytes]) -> bytes:
    return b'{"metadata":{"resourceVersion":"7"},"items":[%b]}' % b",".join(items)


class Counted(ImportedSlices):
    """Counts by the turn of the loop the slices that it is told of."""

    def __init__(self) -> None:
        super().__init__(Mode.MCS, "1970-01-01T00:00:00.000Z")
        self.turn = 0
        self.read: Counter[int] = Counter()

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def init_apply(self, item: EndpointSlice) -> None:
        self.read[self.turn] += 1
        super().init_apply(item)


class Listener:
    """Counts by the turn of the loop the Services that `imported` tells of."""

    def __init__(self, imported: Counted) -> None:
        self._imported = imported
        self.told: Counter[int] = Counter()
        imported.add(self)

    def services_changed(self, services: Services, cause: str) -> None:
        del cause
        self.told[self._imported.turn] += len(services)

    def listed_anew(self, *, empty: bool) -> None:
        pass

    def trust_changed(self) -> None:
        pass


async def test_no_turn_of_the_loop_takes_in_or_tells_more_than_its_bound() -> None:
    imported = Counted()
    listener, pools, items = Listener(imported), McsPoolDirectory(imported, PoolServices()), texts(COUNT)
    async with api_server() as api, Client(Credentials(api.host)) as client:
        api.script += [reply(answer(422, status(422, "Invalid"))), reply(answer(200, body(items)))]
        counting = asyncio.create_task(imported.count())
        async with Reflector(client, SLICES, imported) as reflector, asyncio.timeout(30):
            while not imported.exact:
                imported.advance()
                await asyncio.sleep(0)
        counting.cancel()
    assert len(pools.index) == imported.read.total() == listener.told.total() == COUNT
    assert max(imported.read.values()) <= PIECE_BYTES // len(items[0]) + 1  # the one that an earlier piece began
    assert max(listener.told.values()) <= min(TOLD_SERVICES, TOLD_ENDPOINTS // ENDPOINTS)
    assert reflector.report.steps >= len(body(items)) // PIECE_BYTES


class CountingSelector(selectors.DefaultSelector):
    """Counts how often the loop had nothing to do, so that other threads had the interpreter for sure."""

    waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits += timeout is None or timeout > 0
        return super().select(timeout)


class Fast:
    """A source whose bytes are always there already; it answers with a list, once."""

    status, retry_after_secs = 200, None

    def __init__(self, whole: bytes) -> None:
        self._chunks = [whole[begin : begin + PIECE_BYTES] for begin in range(0, len(whole), PIECE_BYTES)]

    @asynccontextmanager
    async def get(self, path: str, query: dict[str, str]) -> AsyncGenerator[Reply, None]:
        del path
        if "sendInitialEvents" in query:
            self.status = 422
        elif "watch" in query:
            await asyncio.Event().wait()
        else:
            self.status = 200
        yield cast(Reply, self)

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def beginning(self) -> bytes:
        return b"{}"


def test_a_loop_that_is_never_out_of_work_still_gives_way_to_other_threads() -> None:
    """Those that serve HTTP: heartbeats were seen to wait until a list was read."""
    selector = CountingSelector()

    async def synced() -> tuple[int, int]:
        view = Recorder(ManualTiming())
        async with Reflector(Fast(body(texts(600))), SLICES, view) as reflector:
            before = selector.waits
            await until(lambda: bool(view.told))
            return selector.waits - before, reflector.report.steps

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        waits, steps = runner.run(synced())
    assert steps > 5 * GIVE_WAY_STEPS
    assert waits >= steps // GIVE_WAY_STEPS
