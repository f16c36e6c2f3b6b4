"""Minutes of steady load while pools come, move, restart, crash and leave: nothing grows, and nobody pays for it."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.frontend.calling import until
from tests.e2e.frontend.soak.figures import Watch, figures, tasks
from tests.e2e.frontend.soak.members import fleet
from tests.e2e.frontend.soak.steady_load import RATE, Load
from tests.e2e.process import Serve, Tell

SECS: Final = int(os.environ.get("GDSVC_SOAK_SECS", "120"))
WARM_SECS: Final = 15.0  # in which buffers and caches come to their size
GROWTH_KIB: Final = 4096  # 230 bytes for each request between the two thirds; the heap's own moves come to half of it
MOST_CONNECTIONS: Final = 200  # to the pools; about 30 requests are in flight at a time, and bursts leave idle ones
MOST_FILES: Final = 500
COUNTED: Final = (sys.executable, "-W", "error", str(Path(__file__).with_name("counted_frontend.py")))

pytestmark = [pytest.mark.soak, pytest.mark.loops("asyncio"), pytest.mark.timeout(SECS + 180)]


async def test_nothing_grows_and_nothing_is_lost(serve: Serve, tell: Tell) -> None:
    discovery = await asyncio.to_thread(serve, "--heartbeat-interval-secs=1", "--lease-duration-secs=3")
    front = await asyncio.to_thread(serve, f"--discovery-url=http://127.0.0.1:{discovery.port}", command=COUNTED)
    async with fleet(discovery, front) as pools:
        before, tasks_before = await figures(front), await tasks(front)
        async with Load(front.port) as load:
            await pools.change(WARM_SECS)
            async with Watch(front) as watch:
                await pools.change(SECS)

        async def is_quiet() -> bool:  # connections that nobody uses are closed after a few seconds
            now = await figures(front)
            return now.files <= before.files and now.connections == now.in_flight == 0

        await until(is_quiet)
        tasks_after = await tasks(front)
        after = await figures(front)

    first, last = watch.thirds()
    most = watch.most()
    tell(
        f"{SECS} s at {RATE} requests/s, {pools.steps} changes of pools: {dict(load.outcomes)};"
        f"\n{pools.cut} cut by crashes;"
        f"\nresident {first / 1024:.1f} MiB in the first third, {last / 1024:.1f} MiB in the last ({watch.course()});"
        f"\nat most {most.connections} connections to pools, {most.files} open files, {most.in_flight} in flight;"
        f"\nfiles {before.files} -> {after.files}, tasks {tasks_before} -> {tasks_after}"
    )
    assert load.sent > RATE * SECS
    assert load.outcomes["whole"] > 0.8 * load.sent
    assert sum(load.failures.values()) <= pools.cut, load.failures
    assert last - first < GROWTH_KIB
    assert most.connections < MOST_CONNECTIONS
    assert most.files < MOST_FILES
    assert (after.connections, after.in_flight) == (0, 0)
    assert tasks_after <= tasks_before
