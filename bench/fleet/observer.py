"""Looks at the service from outside while a run goes on: its /metrics, and whether its list holds whom it must."""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from bench.fleet.ledger import Ledger, is_complete
from bench.fleet.line import Dialer, Line, Reply
from bench.fleet.population import request_of

METRICS_SECS: Final = 2.0  # between two looks: a scrape takes the service some milliseconds
_SAMPLE = re.compile(rb"^(\w+(?:\{[^}]*\})?) ([^ \n]+)", re.MULTILINE)

CPU: Final = "process_cpu_seconds_total"
MEMORY: Final = "process_resident_memory_bytes"
STALLS: Final = "gdsvc_stalls_total"
STALLED: Final = "gdsvc_stalled_seconds_total"
ENCODINGS: Final = "gdsvc_watch_event_encodings_total"
WATCHERS: Final = "gdsvc_watchers"

Samples = Mapping[str, float]


def samples_of(text: bytes) -> Samples:
    """The samples of an exposition by name and labels; lines that are none are left out."""
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            found[name.decode()] = float(value)
        except ValueError:
            continue
    return found


class Observer:
    """Asks on connections of its own. `greatest_bytes` is the most memory that a look has shown."""

    def __init__(self, dialer: Dialer, ledger: Ledger) -> None:
        self.samples: Samples = {}
        self.greatest_bytes = 0.0
        self.lists = 0
        self._dialer = dialer
        self._ledger = ledger
        self._metrics_line = Line(dialer)
        self._list_line = Line(dialer)

    async def look(self) -> Samples:
        """The service's metrics now; none where it has none."""
        reply = await self._ask(self._metrics_line, "/metrics")
        if reply.status == 200:
            self.samples = samples_of(reply.body)
            self.greatest_bytes = max(self.greatest_bytes, self.samples.get(MEMORY, 0.0))
        return self.samples

    async def watch_metrics(self) -> None:
        """Looks again and again."""
        while True:
            await self.look()
            await asyncio.sleep(METRICS_SECS)

    async def watch_lists(self, every_secs: float) -> None:
        """Lists again and again, and has each list judged."""
        while True:
            await self.check_list()
            await asyncio.sleep(every_secs)

    async def is_complete(self) -> bool:
        """Whether the service says that it has heard from everybody, asked for a list that is empty, and so small."""
        reply = await self._ask(self._list_line, f"/pools?site_id=none-but-{self._ledger.site}")
        try:
            return reply.status == 200 and is_complete(reply.body)
        except msgspec.DecodeError as error:
            raise NotAList(f"GET /pools is no list of pools: {error}") from None

    async def check_list(self) -> bool:
        """Has the list judged as it is now; False where there is none, before the first sync for example."""
        expected = self._ledger.expected(asyncio.get_running_loop().time())
        reply = await self._ask(self._list_line, "/pools")
        if reply.status != 200:
            return False
        try:
            self._ledger.listed(reply.body, expected, reply.received_at)
        except msgspec.DecodeError as error:
            raise NotAList(f"GET /pools is no list of pools: {error}") from None
        self.lists += 1
        return True

    async def _ask(self, line: Line, path: str) -> Reply:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: Reply) -> None:
            if not answer.done():
                answer.set_result(reply)

        line.ask(request_of(self._dialer.target.host_field, "GET", path), on_reply)
        return await answer


class NotAList(Exception):
    """The service speaks something else."""
