"""A reflector between a scripted API server and a view that records, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gdsvc.kube import objects
from gdsvc.kube.client import Client, Reply
from gdsvc.kube.objects import EndpointSlice
from gdsvc.kube.reflector import TICK_SECS, Kind, Reflector
from gdsvc.kube.watcher import Cause, Failed
from tests.kube.api_server import ApiServer

PATIENCE_SECS = 10.0  # of real time, for what should come at once
SLICES = Kind(objects.ENDPOINT_SLICES_PATH, objects.ENDPOINT_SLICE)


async def until(condition: Callable[[], bool]) -> None:
    """Looks again until `condition` holds; fails the test when it does not come to pass."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not condition():  # noqa: ASYNC110  conditions are of many owners, and none knows of the test
            await asyncio.sleep(0.001)


class ManualTiming:
    """Time that stands still until the test moves it. Chance is always one half: waits are 0.6, 1.2, 2.4 … 22.5 s."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.sleepers: list[tuple[float, float, asyncio.Future[None]]] = []  # due, length, wake

    def now(self) -> float:
        return self.at

    def draw(self) -> float:
        return 0.5

    async def sleep(self, secs: float) -> None:
        sleeper = (self.at + secs, secs, asyncio.get_running_loop().create_future())
        self.sleepers.append(sleeper)
        try:
            await sleeper[2]
        finally:
            self.sleepers.remove(sleeper)

    @property
    def waits(self) -> list[float]:
        """The lengths of the waits after failures that are going on."""
        return [round(length, 3) for _, length, _ in self.sleepers if length != TICK_SECS]

    @property
    def ticking(self) -> bool:
        return any(length == TICK_SECS for _, length, _ in self.sleepers)

    def wake(self, until_at: float) -> bool:
        """Moves to the next sleeper due by then and wakes it; False where there is none."""
        due = min((sleeper for sleeper in self.sleepers if not sleeper[2].done()), default=None, key=lambda s: s[0])
        if due is None or due[0] > until_at:
            self.at = until_at
            return False
        self.at = due[0]
        due[2].set_result(None)
        return True


@dataclass
class Credentials:
    """Fixed ones, that count how often they had to be renewed."""

    host: str
    token: str | None = "s3cret-t0ken"
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    renewals: int = 0

    @property
    def settings(self) -> "Credentials":
        return self

    async def authorization(self) -> str | None:
        return None if self.token is None else f"Bearer {self.token}"

    async def renew(self) -> None:
        self.renewals += 1


@dataclass
class Recorder:
    """A view that keeps what it is told, and raises where `raises` says so."""

    timing: ManualTiming
    items: dict[str, EndpointSlice] = field(default_factory=dict[str, EndpointSlice])
    aside: dict[str, EndpointSlice] = field(default_factory=dict[str, EndpointSlice])
    told: list[str] = field(default_factory=list[str])
    failures: list[Failed] = field(default_factory=list[Failed])
    failed_at: list[float] = field(default_factory=list[float])
    completeness_at: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])
    raises: Exception | None = None  # at the next call

    def init(self) -> None:
        self.aside = {}

    def init_apply(self, item: EndpointSlice) -> None:
        self.aside[item.metadata.name] = item

    def init_delete(self, item: EndpointSlice) -> None:
        self.aside.pop(item.metadata.name, None)

    def init_done(self, cause: Cause) -> None:
        self._raise()
        self.items, self.aside = self.aside, {}
        self.told.append(f"swap {cause} {' '.join(sorted(self.items))}".rstrip())

    def apply(self, item: EndpointSlice) -> None:
        self._raise()
        self.items[item.metadata.name] = item
        self.told.append(f"apply {item.metadata.name}")

    def delete(self, item: EndpointSlice) -> None:
        self._raise()
        self.items.pop(item.metadata.name, None)
        self.told.append(f"delete {item.metadata.name}")

    def completeness(self, *, stale: bool) -> None:
        self.completeness_at.append((self.timing.at, stale))

    def failed(self, failure: Failed) -> None:
        self.failures.append(failure)
        self.failed_at.append(self.timing.at)

    def _raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error


class Asking:
    """The client, and whether its request of now is being held open by the server."""

    def __init__(self, client: Client, api: ApiServer) -> None:
        self._client = client
        self._api = api
        self._open = False  # the head of the answer has come

    @asynccontextmanager
    async def get(self, path: str, query: dict[str, str]) -> AsyncGenerator[Reply, None]:
        before = len(self._api.requests)
        async with self._client.get(path, query) as reply:
            self._open = len(self._api.requests) > before
            try:
                yield reply
            finally:
                self._open = False

    @property
    def answered(self) -> bool:
        return self._open and self._api.held


@dataclass
class Stand:
    """What a test needs of it."""

    api: ApiServer
    reflector: Reflector[EndpointSlice]
    view: Recorder
    timing: ManualTiming
    credentials: Credentials
    asking: "Asking"

    @property
    def kinds(self) -> list[str]:
        return [failure.kind for failure in self.view.failures]

    async def at_rest(self) -> None:
        """Until the reflector waits, for the server or for time to pass."""
        for _ in range(10):  # turns of the loop in which what was woken begins to act
            await asyncio.sleep(0)
        await until(lambda: self.timing.ticking and (bool(self.timing.waits) or self.asking.answered))

    async def pass_time(self, secs: float) -> None:
        """Moves the clock, stopping wherever somebody wanted to be woken, until what follows from it is done."""
        target = self.timing.at + secs
        await self.at_rest()
        while self.timing.wake(target):
            await self.at_rest()

    async def told(self, *expected: str) -> None:
        """Until the view was told exactly this, since the last time."""
        await until(lambda: len(self.view.told) >= len(expected))
        assert tuple(self.view.told) == expected
        self.view.told.clear()


@asynccontextmanager
async def standing(api: ApiServer, *, read_secs: float = 60.0, **options: Any) -> AsyncIterator[Stand]:
    """A running reflector over `api`."""
    timing, credentials = ManualTiming(), Credentials(api.host)
    view = Recorder(timing)
    async with Client(credentials, read_secs=read_secs) as client:
        asking = Asking(client, api)
        reflector = Reflector(asking, SLICES, view, timing=timing, **options)
        async with reflector:
            yield Stand(api, reflector, view, timing, credentials, asking)
