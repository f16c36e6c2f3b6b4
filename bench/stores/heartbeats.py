"""Heartbeats of 1,000 pools through one service for each store, at several rates: CPU, latency, calls."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from msgspec import Struct

from bench.processes import Server, run_seconds
from bench.stores.beats import CONNECTIONS, Beaten, all_of, at_full_speed, paced, requests
from bench.stores.places import Place, counter

POOLS: Final = 1_000
RATES: Final = (200, 400)  # a second: of 1,000 pools and of 2,000 at a heartbeat of 5 s
FULL_SPEED: Final = 0  # as a rate: each connection as soon as it is answered
# The service reads the table just once, so that its polls, which readings.py measures, are not in a heartbeat's CPU.
FLAGS: Final = {"dynamodb": ("--dynamodb-poll-interval-secs", "600")}


class Heartbeats(Struct, frozen=True):
    """Of one heartbeat: CPU and latencies in seconds, and calls to the store; `renewals` of a call that renews."""

    store: str
    per_sec: int
    cpu: float
    median: float
    slow: float  # of a hundred, the slowest but one
    calls: float
    answered_per_sec: float


class Running(Struct, frozen=True):
    """A service under heartbeats."""

    place: Place
    server: Server


def measured(places: Sequence[Place], core: int, rounds: int, secs: float) -> list[Heartbeats]:
    """The least of each figure over the rounds; all stores in turn in each of them. Raises BeatFailed, StartFailed."""
    asked = requests(POOLS)
    found: dict[tuple[str, int], list[Heartbeats]] = {}
    with ExitStack() as stack:
        running = [
            Running(place, stack.enter_context(place.serving(core, *FLAGS.get(place.name, ())))) for place in places
        ]
        for each in running:
            all_of(each.server.port, asked)
        for number in range(rounds):
            for per_sec in (*RATES, FULL_SPEED):
                for each in running:
                    result = _round(each, asked, per_sec, secs, number)
                    found.setdefault((each.place.name, per_sec), []).append(result)
    return [_least(results) for results in found.values()]


def _round(running: Running, asked: Sequence[bytes], per_sec: int, secs: float, number: int) -> Heartbeats:
    server = running.server
    calls, cpu = _calls(server), run_seconds(server.group)
    beaten = _beaten(server.port, asked, per_sec, secs, number)
    cpu, calls = run_seconds(server.group) - cpu, _calls(server) - calls
    beats, latencies = beaten.beats, beaten.latencies
    return Heartbeats(
        running.place.name,
        per_sec,
        cpu / beats,
        latencies.quantile(0.5),
        latencies.quantile(0.99),
        calls / beats,
        beats / secs,
    )


def _beaten(port: int, asked: Sequence[bytes], per_sec: int, secs: float, number: int) -> Beaten:
    if per_sec == FULL_SPEED:
        return at_full_speed(port, asked, secs, 2 * CONNECTIONS)
    return paced(port, asked, per_sec, secs, number)


def _calls(server: Server) -> int:
    """Writes to the store, whichever it is."""
    return counter(server, "store_batches_total") + counter(server, "store_writes_total")


def _least(results: Iterable[Heartbeats]) -> Heartbeats:
    """The round with the least CPU, and the least latencies of any: noise only adds."""
    rounds = sorted(results, key=lambda each: each.cpu)
    best = rounds[0]
    return Heartbeats(
        best.store,
        best.per_sec,
        best.cpu,
        min(each.median for each in rounds),
        min(each.slow for each in rounds),
        best.calls,
        max(each.answered_per_sec for each in rounds),
    )
