"""Leases in real time: when a pool leaves the list, what moves that moment, and when a list says that it is complete.

Each observation is judged by the instants before and after it, so a slow machine makes the tests coarser, never wrong.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.process import Service, running
from tests.e2e.wire import pool

LEASE_SECS = 2
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", str(LEASE_SECS))
LOOKS_SECS = 0.01  # between two looks at the list
LATE_SECS = 1.5  # beyond the lease, for a pool to be gone or a list to be complete on a busy machine
AFTERWARDS_SECS = 0.4  # for what must not happen any more
CLOSE_SECS = 0.25  # how near to the lease's end the looks must have come on both sides, in the best of several rounds
SKEW_SECS = 0.2  # between our clock's reading and the signal's effect
RENEWED = 'gdsvc_registrations_total{outcome="renewed"}'

pytestmark = pytest.mark.slow


class Look(NamedTuple):
    """One GET /pools: asked and answered at these instants, and what it said."""

    asked_at: float
    answered_at: float
    names: frozenset[str]
    complete: bool


def looks(service: Service, until: float, enough: Callable[[Look], bool]) -> list[Look]:
    """Looks at the list on one connection: until a while after a look that was `enough`, else until an instant."""
    seen = []
    with service.connect() as connection:
        while (asked_at := time.monotonic()) < until:
            listed = connection.get("/pools").json()
            names = frozenset(item["key"]["dgd_name"] for item in listed["pools"])
            seen.append(Look(asked_at, time.monotonic(), names, listed["complete"]))
            if enough(seen[-1]):
                until = min(until, asked_at + AFTERWARDS_SECS)
            time.sleep(LOOKS_SECS)
    return seen


def beat(service: Service, name: str) -> tuple[float, float]:
    """Registers or renews; the instants before and after."""
    before = time.monotonic()
    assert service.post("/pools", pool(name)).json()["lease_duration_secs"] == LEASE_SECS
    return before, time.monotonic()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("leases"), *SHORT) as service:
        yield service


def assert_leaves_at_its_lease(service: Service, name: str, beaten: tuple[float, float], seen: list[Look]) -> None:
    """Listed until the lease after the last beat ends, and never again after; stalls of the service move the end."""
    before, after = beaten
    stalled = service.samples()["gdsvc_stalled_seconds_total"]
    listed = [look for look in seen if name in look.names]
    gone = [look for look in seen if name not in look.names]
    assert max(look.asked_at for look in listed) < after + LEASE_SECS + stalled
    assert min(look.answered_at for look in gone) >= before + LEASE_SECS
    assert min(look.asked_at for look in gone) < after + LEASE_SECS + stalled + LATE_SECS


class Life(NamedTuple):
    """Members that beat for the last time between two instants each, and what was listed up to a while after."""

    beaten: dict[str, tuple[float, float]]
    seen: list[Look]


def live_silent(service: Service) -> Life:
    beaten = {f"silent-{number}": beat(service, f"silent-{number}") for number in range(20)}
    until = time.monotonic() + LEASE_SECS + LATE_SECS
    return Life(beaten, looks(service, until, lambda look: look.names.isdisjoint(beaten)))


def live_renewed(service: Service) -> Life:
    beat(service, "renewed")
    time.sleep(LEASE_SECS * 0.6)  # the service's own clock: what is measured is time
    beaten = beat(service, "renewed")
    until = beaten[1] + LEASE_SECS + LATE_SECS
    return Life({"renewed": beaten}, looks(service, until, lambda look: "renewed" not in look.names))


def live_as_a_router(service: Service) -> tuple[float, float]:
    """The instants before it registered and after it was listed no more; the second is infinite where it stays."""
    before = time.monotonic()
    assert service.post("/routers", {"id": "leased", "url": "http://[fd00::7]:8000"}).status == 200
    while service.get("/routers").json()["routers"]:
        if time.monotonic() >= before + LEASE_SECS + LATE_SECS:
            return before, math.inf
        time.sleep(LOOKS_SECS)
    return before, time.monotonic()


class Lives(NamedTuple):
    """Lived at the same time, and beside the other tests here: they spend it waiting."""

    silent: Future[Life]
    renewed: Future[Life]
    router: Future[tuple[float, float]]


@pytest.fixture(scope="module", autouse=True)
def lives(service: Service) -> Iterator[Lives]:
    with ThreadPoolExecutor() as threads:
        yield Lives(
            threads.submit(live_silent, service),
            threads.submit(live_renewed, service),
            threads.submit(live_as_a_router, service),
        )


def test_a_silent_pool_is_listed_just_before_its_lease_ends_and_gone_just_after(service: Service, lives: Lives) -> None:
    beaten, seen = lives.silent.result()
    gaps = []
    for name, (before, after) in beaten.items():
        assert_leaves_at_its_lease(service, name, (before, after), seen)
        last = max(look.asked_at for look in seen if name in look.names)
        first = min(look.answered_at for look in seen if name not in look.names)
        gaps.append(max(before + LEASE_SECS - last, first - after - LEASE_SECS))
    assert min(gaps) < CLOSE_SECS


def test_a_renewal_moves_the_end_of_the_lease(service: Service, lives: Lives) -> None:
    beaten, seen = lives.renewed.result()
    assert_leaves_at_its_lease(service, "renewed", beaten["renewed"], seen)


def test_a_router_lives_by_its_lease_too(lives: Lives) -> None:
    before, gone_at = lives.router.result()
    assert before + LEASE_SECS <= gone_at < before + LEASE_SECS + LATE_SECS


def test_a_renewal_changes_neither_tag_nor_encodings(service: Service, lives: Lives) -> None:
    assert [lives.silent.exception(), lives.renewed.exception(), lives.router.exception()] == [None] * 3  # have ended
    while not service.complete():  # that moment changes the tag
        time.sleep(LOOKS_SECS)
    beat(service, "steady")
    wait_until_alone(service, "steady")
    before, etag = service.samples(), service.get("/pools").header("etag")
    deadline = time.monotonic() + LEASE_SECS * 1.2
    while time.monotonic() < deadline:
        beat(service, "steady")
    after = service.samples()
    assert service.get("/pools").header("etag") == etag
    assert after["gdsvc_pool_encodings_total"] == before["gdsvc_pool_encodings_total"]
    assert after["gdsvc_revision"] == before["gdsvc_revision"]
    assert after[RENEWED] > before[RENEWED]


def wait_until_alone(service: Service, name: str) -> None:
    """Keeps `name` alive until the pools of other tests are gone."""
    deadline = time.monotonic() + LEASE_SECS + LATE_SECS
    while service.names() != [name]:
        assert time.monotonic() < deadline
        beat(service, name)
        time.sleep(LOOKS_SECS)


# ------------------------------------------------------------------------------------------------- completeness


class Start(NamedTuple):
    """A service from its start until its list was complete, or too late; `held_secs` of it it was stopped."""

    started_at: float
    live_at: float
    held_secs: float
    seen: list[Look]


def watch_start(directory: Path, held_secs: float) -> Start:
    """Starts a service, holds it by SIGSTOP for `held_secs` at once, and looks at its list."""
    with running(directory, *SHORT) as service:
        live_at = time.monotonic()
        if held_secs:
            service.send_signal(signal.SIGSTOP)
            held_at = time.monotonic()
            time.sleep(held_secs)
            held_secs = time.monotonic() - held_at
            service.send_signal(signal.SIGCONT)
        seen = looks(service, time.monotonic() + LEASE_SECS + LATE_SECS, lambda look: look.complete)
    return Start(service.started_at, live_at, held_secs, seen)


HELD_SECS = {"not": 0.0, "longer than a lease": 1.5 * LEASE_SECS}


@pytest.fixture(scope="module", autouse=True)
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Start]]]:
    """All starts at the same time, and beside the other tests here: they spend it waiting."""
    directory = tmp_path_factory.mktemp("starts")
    with ThreadPoolExecutor() as threads:
        yield {held: threads.submit(watch_start, directory, secs) for held, secs in HELD_SECS.items()}


def assert_complete_after_a_lease(start: Start) -> None:
    assert not start.seen[0].complete
    complete = [look.complete for look in start.seen]
    assert complete == sorted(complete)  # once complete, it stays so
    first = next(look for look in start.seen if look.complete)
    assert first.answered_at >= start.started_at + LEASE_SECS + start.held_secs - SKEW_SECS * bool(start.held_secs)
    assert first.asked_at < start.live_at + LEASE_SECS + start.held_secs + LATE_SECS


@pytest.mark.parametrize("held", HELD_SECS)
def test_a_list_is_complete_once_the_service_could_hear_for_a_lease_and_never_earlier(
    starts: dict[str, Future[Start]], held: str
) -> None:
    assert_complete_after_a_lease(starts[held].result())


@pytest.mark.load
def test_a_list_is_complete_a_lease_after_a_stop_of_more_than_four_and_never_earlier(tmp_path: Path) -> None:
    assert_complete_after_a_lease(watch_start(tmp_path, 4.2 * LEASE_SECS))
