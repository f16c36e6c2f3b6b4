"""What a frontend holds, looked at once a second: memory, open files, connections to pools, requests in flight."""

import asyncio
import re
import signal
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.e2e.frontend.calling import samples, until
from tests.e2e.process import Service

LOOK_SECS = 1.0


class Figures(NamedTuple):
    """At one moment; `resident` in KiB."""

    resident: int
    files: int
    connections: int
    in_flight: int


async def figures(front: Service) -> Figures:
    """Those of now."""
    scraped = await samples(front)
    resident, files = _of_process(front.pid)
    return Figures(resident, files, int(_sum(scraped, "connections")), int(_sum(scraped, "in_flight")))


def _of_process(pid: int) -> tuple[int, int]:
    (resident,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(resident), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _sum(scraped: dict[str, float], name: str) -> float:
    return sum(value for sample, value in scraped.items() if sample.startswith(f"gdsvc_frontend_{name}{{"))


async def tasks(front: Service) -> int:
    """How many tasks the program `counted_frontend` has."""
    before = _told(front)
    front.send_signal(signal.SIGUSR1)

    async def told() -> bool:
        return len(_told(front)) > len(before)

    await until(told)
    return _told(front)[-1]


def _told(front: Service) -> list[int]:
    return [event["count"] for event in front.events if event["event"] == "tasks"]


class Watch:
    """`async with` it; `seen` has the figures of each look so far."""

    def __init__(self, front: Service) -> None:
        self.seen: list[Figures] = []
        self._front = front
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._looking is not None
        self._looking.cancel()
        await asyncio.wait((self._looking,))
        if not self._looking.cancelled():
            self._looking.result()

    async def _look(self) -> None:
        while True:
            self.seen.append(await figures(self._front))
            await asyncio.sleep(LOOK_SECS)

    def thirds(self) -> tuple[int, int]:
        """Resident memory in the first and in the last third, in KiB: what nine of ten looks do not exceed.

        Not the median: the heap keeps the room of a long upload for a while or not, as it happens to lie in it.
        """
        resident = [look.resident for look in self.seen]
        third = len(resident) // 3
        return _ninth_of_ten(resident[:third]), _ninth_of_ten(resident[-third:])

    def course(self) -> str:
        """Resident memory in each tenth of the time, in MiB."""
        resident = [look.resident for look in self.seen]
        tenth = max(1, len(resident) // 10)
        parts = [resident[at : at + tenth] for at in range(0, tenth * 10, tenth)]
        return " ".join(f"{_ninth_of_ten(part) / 1024:.1f}" for part in parts if part)

    def most(self) -> Figures:
        """The greatest of each."""
        return Figures(*(max(column) for column in zip(*self.seen, strict=True)))


def _ninth_of_ten(values: list[int]) -> int:
    return sorted(values)[len(values) * 9 // 10]
