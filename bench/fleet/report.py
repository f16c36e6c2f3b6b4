"""The figures of a run: what they are, one line while it goes on, a table at its end, and whether it went well."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from bench.fleet import observer
from bench.fleet.latencies import Latencies
from bench.fleet.ledger import Ledger
from bench.fleet.observer import Observer, Samples
from bench.fleet.plan import Plan
from bench.fleet.population import PopulationCounts
from bench.fleet.relays import RelayCounts, Relays
from bench.fleet.watchers import Watcher

MIB = 1024 * 1024


class Spread(Struct, frozen=True):
    """Latencies in milliseconds; `count` of them."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class Heartbeats(Struct, frozen=True):
    """Beats of all relays: sent, answered 200, missed, which is late or unanswered."""

    sent: int
    answered: int
    per_second: float
    missed: int
    late: int
    unanswered: int
    first_fault: str
    latency: Spread


class Pools(Struct, frozen=True):
    """What happened to the pools, and how they were listed."""

    registered: int
    deregistered: int
    changed: int
    refused: int
    expired: int
    false_expiries: int
    lists_judged: int


class Events(Struct, frozen=True):
    """What the watchers got. `expected`: changes that the service took."""

    expected: int
    heard_of: int
    received: int
    per_second: float
    disordered: int
    duplicate: int
    missing: int
    lost: int
    resyncs: int
    endings: int
    watching: int
    faults: list[str]
    latency: Spread


class Service(Struct, frozen=True):
    """The service as its own /metrics show it, None where it does not say; whether it lists pools at the end."""

    answers: bool
    cpu_share: float | None
    cpu_us_per_heartbeat: float | None
    memory_mib: float | None
    greatest_growth_mib: float | None
    growth_mib: float | None
    stalls: float | None
    stalled_secs: float | None
    event_encodings: float | None
    watchers: float | None


class Generator(Struct, frozen=True):
    """This process and the machine: figures of a generator that was short of time say little about the service."""

    cpu_share: float
    longest_lag_ms: float
    load_average: float


class Result(Struct, frozen=True):
    """All figures of a run."""

    plan: Plan
    seconds: float
    heartbeat_secs: float
    lease_secs: float
    heartbeats: Heartbeats
    pools: Pools
    events: Events
    service: Service
    generator: Generator

    @property
    def is_good(self) -> bool:
        """Whether no pool was taken for dead and no event went astray."""
        events = self.events
        astray = events.disordered + events.duplicate + events.missing + events.lost
        is_watched = events.watching == self.plan.watchers
        return self.pools.false_expiries == 0 and astray == 0 and is_watched and self.service.answers


class Seen(Struct, frozen=True):
    """What was measured while the fleet acted; see Result."""

    plan: Plan
    seconds: float
    lease_secs: float
    interval_secs: float
    relays: RelayCounts
    population: PopulationCounts
    before: Samples
    after: Samples
    greatest_bytes: float
    lists: int
    cpu_share: float
    longest_lag_secs: float
    load: float


def result_of(seen: Seen, ledger: Ledger, watchers: Sequence[Watcher], *, answers: bool) -> Result:
    """The figures, when the last events have come; `answers`: whether the service lists pools then."""
    relays, population = seen.relays, seen.population
    tracks = [watcher.track for watcher in watchers if watcher.has_begun]
    return Result(
        plan=seen.plan,
        seconds=round(seen.seconds, 3),
        heartbeat_secs=seen.interval_secs,
        lease_secs=seen.lease_secs,
        heartbeats=Heartbeats(
            sent=relays.sent,
            answered=relays.answered,
            per_second=round(relays.answered / seen.seconds, 1),
            missed=relays.late + relays.unanswered,
            late=relays.late,
            unanswered=relays.unanswered,
            first_fault=relays.first_fault,
            latency=spread(relays.latencies),
        ),
        pools=Pools(
            registered=population.registered,
            deregistered=population.deregistered,
            changed=population.changed,
            refused=population.refused,
            expired=ledger.expired,
            false_expiries=ledger.false_expiries,
            lists_judged=seen.lists,
        ),
        events=Events(
            expected=ledger.heard_of + ledger.lost(tracks),
            heard_of=ledger.heard_of,
            received=ledger.received,
            per_second=round(ledger.received / seen.seconds, 1),
            disordered=sum(track.disordered for track in tracks),
            duplicate=sum(track.duplicates for track in tracks),
            missing=sum(track.missing(ledger.known) for track in tracks),
            lost=ledger.lost(tracks),
            resyncs=sum(track.resyncs for track in tracks),
            endings=sum(watcher.endings for watcher in watchers),
            watching=len(tracks),
            faults=sorted({watcher.fault for watcher in watchers if watcher.fault})[:3],
            latency=spread(ledger.latencies),
        ),
        service=_service(seen, answers=answers),
        generator=Generator(round(seen.cpu_share, 3), round(seen.longest_lag_secs * 1000, 1), round(seen.load, 2)),
    )


def spread(latencies: Latencies) -> Spread:
    """Median, 99th percentile and maximum."""
    values = (latencies.quantile(0.5), latencies.quantile(0.99), latencies.max)
    return Spread(latencies.count, *(round(value * 1000, 2) for value in values))


def _service(seen: Seen, *, answers: bool) -> Service:
    def grown(name: str) -> float | None:
        if name not in seen.before or name not in seen.after:
            return None
        return seen.after[name] - seen.before[name]

    cpu, memory = grown(observer.CPU), seen.before.get(observer.MEMORY)
    return Service(
        answers=answers,
        cpu_share=_rounded(cpu and cpu / seen.seconds, 3),
        cpu_us_per_heartbeat=_rounded(cpu and cpu / max(1, seen.relays.answered) * 1e6, 1),
        memory_mib=_rounded(memory and memory / MIB, 1),
        greatest_growth_mib=_rounded(memory and max(0.0, seen.greatest_bytes - memory) / MIB, 1),
        growth_mib=_rounded(memory and (grown(observer.MEMORY) or 0.0) / MIB, 1),
        stalls=grown(observer.STALLS),
        stalled_secs=_rounded(grown(observer.STALLED), 3),
        event_encodings=grown(observer.ENCODINGS),
        watchers=seen.after.get(observer.WATCHERS),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


# ------------------------------------------------------------------------------------------------------------ text


def progress(seconds: float, relays: Relays, ledger: Ledger, watched: Observer) -> str:
    """One line while a run goes on."""
    beats, events = spread(relays.latencies), spread(ledger.latencies)
    memory = watched.samples.get(observer.MEMORY)
    parts = [
        f"{seconds:5.0f} s",
        f"{relays.answered / seconds:,.0f} beats/s (p99 {beats.p99_ms} ms, {relays.late + relays.unanswered} missed)",
        f"{ledger.received / seconds:,.0f} events/s (p99 {events.p99_ms} ms)",
        f"{ledger.expired} expired, {ledger.false_expiries} of them falsely",
    ]
    return "; ".join(parts + ([f"service {memory / MIB:.0f} MiB"] if memory else []))


def table(result: Result) -> str:
    """All figures, one a line, by what they are of."""
    lines: list[str] = []
    for name in ("plan", "heartbeats", "pools", "events", "service", "generator"):
        lines += ["", name, *(f"  {figure:<28}{value}" for figure, value in _figures(getattr(result, name)))]
    run = f"{result.seconds:.1f} s, heartbeats every {result.heartbeat_secs:g} s, leases of {result.lease_secs:g} s"
    verdict = "good: no pool was taken for dead, no event went astray"
    return "\n".join(
        [run, *lines, "", verdict if result.is_good else f"NOT GOOD: {', '.join(_complaints(result))}", ""]
    )


def _figures(part: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field, value in msgspec.structs.asdict(part).items():
        name = prefix + field.replace("_", " ")
        if isinstance(value, Spread):
            yield from _figures(value, name + " ")
        elif isinstance(value, list):
            yield from ((name, text) for text in value)
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif value is not None and value != "":
            yield name, f"{value:,}" if isinstance(value, int | float) else str(value)


def _complaints(result: Result) -> Iterator[str]:
    events = result.events
    counted = {
        "false expiries": result.pools.false_expiries,
        "events out of order": events.disordered,
        "duplicate events": events.duplicate,
        "missing events": events.missing,
        "lost events": events.lost,
        "watchers without a stream": result.plan.watchers - events.watching,
    }
    yield from (f"{count} {what}" for what, count in counted.items() if count)
    if not result.service.answers:
        yield "no list of pools at the end"
