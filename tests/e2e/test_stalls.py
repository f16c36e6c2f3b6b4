"""A service that cannot hear for a while keeps the pools that spoke meanwhile; one that never hears lets the dead go.

All scenarios run at the same time, each with a process of its own: they spend it waiting.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.fleet import Fleet, Relay, listed
from tests.e2e.process import Service, running
from tests.e2e.wire import pool

POOLS = 1000
STOPPED_SECS = 20.0
BLOCKED_SECS = 12.0
AFTER_SECS = 7.0  # longer than a heartbeat: every pool has beaten again, and what was to be lost is lost
LOOKS_SECS = 0.05
PATIENCE_SECS = 30.0  # of who looks at the list; beyond the longest stop

CHRONIC_LEASE_SECS = 4
CHRONIC_LIVE = 50
CHRONIC_PERIOD_SECS, CHRONIC_STOP_SECS = 2.0, 1.6  # forgiven without a bound, a lease would take five leases to end
CHRONIC_SECS = 24.0  # longer than four leases, so that the forgiveness is used up well before the end
BLOCKING = (sys.executable, "-W", "error", str(Path(__file__).with_name("blocking_service.py")))

pytestmark = [pytest.mark.load, pytest.mark.timeout(120)]


class Outcome(NamedTuple):
    """What came of a scenario: pools missing from some list after it, figures and log lines at its end."""

    missing: set[str]
    samples: dict[str, float]
    stalls: list[dict[str, Any]]


async def look_for(service: Service, names: set[str], seconds: float) -> set[str]:
    """Which of `names` were missing from any list that was asked for in the next `seconds`."""
    missing: set[str] = set()
    relay = Relay(service.port, PATIENCE_SECS)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        missing |= names - await listed(relay)
        await asyncio.sleep(LOOKS_SECS)
    relay.close()
    return missing


async def outcome(service: Service, missing: set[str]) -> Outcome:
    samples = await asyncio.to_thread(service.samples)
    return Outcome(missing, samples, [event for event in service.events if event["event"] == "service.stalled"])


async def stop_once(service: Service) -> Outcome:
    """SIGSTOP for STOPPED_SECS under a fleet that goes on beating."""
    names = {f"stop-{number}" for number in range(POOLS)}
    async with Fleet(service.port, names, every_secs=5.0):
        missing = await look_for(service, names, 1.0)
        service.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_SECS)
        service.send_signal(signal.SIGCONT)
        missing |= await look_for(service, names, AFTER_SECS)
        return await outcome(service, missing)


async def block_once(service: Service) -> Outcome:
    """The loop does not run for BLOCKED_SECS, while granian's threads go on accepting and reading."""
    names = {f"block-{number}" for number in range(POOLS)}
    async with Fleet(service.port, names, every_secs=5.0):
        missing = await look_for(service, names, 1.0)
        service.send_signal(signal.SIGUSR1)
        missing |= await look_for(service, names, BLOCKED_SECS + AFTER_SECS)
        return await outcome(service, missing)


class Chronic(NamedTuple):
    """A dead pool among live ones at a service that stalls all the time."""

    outcome: Outcome
    dead_after_secs: float | None  # from its last beat until a list was without it


async def stop_again_and_again(service: Service) -> None:
    try:
        while True:
            service.send_signal(signal.SIGSTOP)
            await asyncio.sleep(CHRONIC_STOP_SECS)
            service.send_signal(signal.SIGCONT)
            await asyncio.sleep(CHRONIC_PERIOD_SECS - CHRONIC_STOP_SECS)
    finally:
        service.send_signal(signal.SIGCONT)


async def stall_chronically(service: Service) -> Chronic:
    """Stops the service most of the time; one pool beats once, then dies."""
    live = {f"live-{number}" for number in range(CHRONIC_LIVE)}
    missing: set[str] = set()
    dead_after_secs: float | None = None
    async with Fleet(service.port, live, every_secs=1.0):
        stopping = asyncio.create_task(stop_again_and_again(service))
        relay = Relay(service.port, PATIENCE_SECS)
        await asyncio.to_thread(service.post, "/pools", pool("dead"))
        died_at = time.monotonic()
        while time.monotonic() < died_at + CHRONIC_SECS:
            names = await listed(relay)
            missing |= live - names
            if "dead" not in names and dead_after_secs is None:
                dead_after_secs = time.monotonic() - died_at
            await asyncio.sleep(LOOKS_SECS)
        relay.close()
        stopping.cancel()
        await asyncio.wait({stopping})
        return Chronic(await outcome(service, missing), dead_after_secs)


class Outcomes(NamedTuple):
    stopped: Outcome
    blocked: Outcome
    chronic: Chronic


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    directory = tmp_path_factory.mktemp("stalls")
    short = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", str(CHRONIC_LEASE_SECS))
    with (
        running(directory) as stopped,
        running(directory, command=BLOCKING) as blocked,
        running(directory, *short) as chronic,
    ):

        async def all_at_once() -> Outcomes:
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(stop_once(stopped))
                second = tasks.create_task(block_once(blocked))
                third = tasks.create_task(stall_chronically(chronic))
            return Outcomes(first.result(), second.result(), third.result())

        return asyncio.run(all_at_once())


def test_a_process_that_was_stopped_for_longer_than_a_lease_loses_no_pool(outcomes: Outcomes) -> None:
    stopped = outcomes.stopped
    assert stopped.missing == set()
    assert stopped.samples["gdsvc_expired_total"] == 0
    assert stopped.samples["gdsvc_pools"] == POOLS
    assert stopped.samples["gdsvc_stalls_total"] >= 1
    assert STOPPED_SECS - 0.1 <= stopped.samples["gdsvc_stalled_seconds_total"] < STOPPED_SECS + 3
    assert stopped.stalls


def test_a_loop_that_was_blocked_loses_no_pool(outcomes: Outcomes) -> None:
    blocked = outcomes.blocked
    assert blocked.missing == set()
    assert blocked.samples["gdsvc_expired_total"] == 0
    assert blocked.samples["gdsvc_pools"] == POOLS
    assert blocked.samples["gdsvc_stalls_total"] >= 1
    assert BLOCKED_SECS - 0.1 <= blocked.samples["gdsvc_stalled_seconds_total"] < BLOCKED_SECS + 3
    assert blocked.stalls


def test_chronic_stalls_make_no_dead_pool_immortal_and_cost_no_live_one(outcomes: Outcomes) -> None:
    chronic = outcomes.chronic
    assert chronic.dead_after_secs is not None
    assert CHRONIC_LEASE_SECS - CHRONIC_STOP_SECS < chronic.dead_after_secs < 4 * CHRONIC_LEASE_SECS
    assert chronic.outcome.missing == set()
    assert chronic.outcome.samples["gdsvc_expired_total"] == 1
    # the log says where time ran on
    assert any(stall["forgiven_secs"] < stall["stalled_secs"] for stall in chronic.outcome.stalls)
