"""Lets a busy server work in batches: asks the kernel not to switch threads at every wake-up while there is much to do.

granian's thread and the event loop's wake each other for every request, and the woken one takes the core at once: two
switches a request where the two share a core. Under SCHED_BATCH a woken thread waits until the running one has done
what it has, which took 25 to 40 % off the CPU of a request (`renewal` of the bench) and made answers faster. Its price:
on a machine where others are computing it waits for its turn as they do (4 ms instead of 0.2), so a calm server does
without.
"""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gdsvc import logs

LOOK_SECS: Final = 0.1  # how often the load is looked at
BUSY_SHARE: Final = 0.3  # of one core, from which on wake-ups overlap often enough to be worth batching
CALM_SHARE: Final = 0.15  # half of it, so that the policy does not flap
CALM_SECS: Final = 2.0  # below it for so long: the load has gone
_THREADS: Final = Path("/proc/self/task")

log = logs.get("gdsvc.asgi.scheduling")


class Load:
    """Judges from the CPU time that a process has used whether it is busy. Holds no clock."""

    def __init__(self, now: float, cpu_secs: float) -> None:
        self.busy = False
        self._looked_at = now
        self._cpu_secs = cpu_secs
        self._loaded_at = now

    def observe(self, now: float, cpu_secs: float) -> bool:
        """Whether the process is busy, given the CPU seconds that all its threads have used until `now` (seconds)."""
        elapsed = now - self._looked_at
        if elapsed <= 0:
            return self.busy
        share = (cpu_secs - self._cpu_secs) / elapsed
        self._looked_at, self._cpu_secs = now, cpu_secs
        if share >= CALM_SHARE:
            self._loaded_at = now
        self.busy = share >= BUSY_SHARE or (self.busy and now - self._loaded_at < CALM_SECS)
        return self.busy


class BatchWhileBusy:
    """`async with BatchWhileBusy():` all threads of the process are SCHED_BATCH while it is busy.

    Does nothing where the system has no such policy or refuses it, or where whoever started us chose another policy.
    """

    def __init__(self) -> None:
        self._load = Load(time.monotonic(), time.process_time())
        self._batching = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
            self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def make_way(self) -> None:
        """Lets the server's thread write what it was just handed, where it no longer takes the core by itself.

        For large bodies, of which granian makes a copy: dozens that wait to be written push each other out of the
        caches (`list-1000` of the bench: a fifth of its CPU).
        """
        if self._batching:
            os.sched_yield()

    def _look(self) -> None:
        busy = self._load.observe(time.monotonic(), time.process_time())
        if busy != self._batching:
            self._batching = busy
            try:
                _schedule_all(os.SCHED_BATCH if busy else os.SCHED_OTHER)
            except OSError as error:
                log.debug("scheduling.refused", error=error.strerror)
                return
            log.debug("scheduling.changed", batching=busy)
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECS, self._look)


def _schedule_all(policy: int) -> None:
    """Puts every thread of this process under `policy`; one started later has that of the thread that starts it."""
    for thread in _THREADS.iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))
