"""The result as Markdown: the machine, heartbeats, readings, and what both come to for a pool and a minute."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.stores.heartbeats import FULL_SPEED, POOLS, Heartbeats
from bench.stores.readings import POLL_SECS, Reading
from bench.stores.tables import Charge, Check
from bench.stores.units import month_usd
from bench.table import number, ratio

EVERY_SECS: Final = (5, 15)  # heartbeats, of which a month is reckoned
REPLICAS: Final = 3
_BEATS = ("store", "heartbeats/s", "CPU us each", "beside memory", "p50 ms", "p99 ms", "calls each", "renewals a call")
_READS = (
    *("store", "pools", "quiet CPU ms/s", "beside memory", "one poll ms", "us a pool"),
    *("CPU us a renewal seen", "calls/min", "KB received/min", "read units a poll"),
)
_POOL = ("store", "CPU ms", "beside memory", "calls", "write units", "read units")
_MONTH = ("pools", "heartbeat", "writes, million", "reads, million", "USD")


class Result(Struct, frozen=True):
    """All that was measured; `missing` says of each store that is not there why."""

    heartbeats: Sequence[Heartbeats]
    readings: Sequence[Reading]
    checks: Sequence[Check]
    missing: Mapping[str, str]


def report(description: Iterable[str], result: Result) -> str:
    """Ends with a newline."""
    lines = [f"* {line}" for line in description]
    lines += [f"* {store} is not measured: {why}" for store, why in result.missing.items()]
    lines += ["", "## Heartbeats", "", *_table(_BEATS, _heartbeats(result.heartbeats))]
    lines += ["", "## What is read", "", *_table(_READS, _readings(result.readings))]
    lines += ["", f"## A pool and minute: 1,000 pools, a heartbeat of 5 s, a poll every {POLL_SECS} s, one replica", ""]
    lines += _table(_POOL, _for_a_pool(result))
    if any(each.charge for each in result.readings):
        lines += ["", "## Units", "", *_units(result)]
    return "\n".join(lines) + "\n"


def _heartbeats(rows: Sequence[Heartbeats]) -> Iterator[Iterable[str]]:
    memory = {row.per_sec: row.cpu for row in rows if row.store == "memory"}
    for row in sorted(rows, key=lambda row: row.per_sec or 1e9):
        rate = f"{row.answered_per_sec:,.0f}, as fast as it goes" if row.per_sec == FULL_SPEED else f"{row.per_sec}"
        calls = (ratio(row.calls), number(1 / row.calls)) if row.calls else ("-", "-")
        yield (
            *(row.store, rate, number(row.cpu * 1e6), ratio(row.cpu / memory[row.per_sec])),
            *(number(row.median * 1e3), number(row.slow * 1e3), *calls),
        )


def _readings(rows: Sequence[Reading]) -> Iterator[Iterable[str]]:
    memory = {row.pools: row.quiet for row in rows if row.store == "memory"}
    for row in sorted(rows, key=lambda row: row.pools):
        yield (
            *(row.store, f"{row.pools:,}", number(row.quiet * 1e3), ratio(row.quiet / memory[row.pools])),
            *(_or_none(row.poll, 1e3), _or_none(row.poll, 1e6 / row.pools), _or_none(row.renewal, 1e6)),
            *(_or_none(row.calls or None), _or_none(row.received or None, 1e-3)),
            "-" if row.charge is None else f"{row.charge.read_units:g} in {row.charge.queries} queries",
        )


def _for_a_pool(result: Result) -> Iterator[Iterable[str]]:
    """At the rate that POOLS of them beat at."""
    beats = {row.store: row for row in result.heartbeats if row.per_sec == POOLS // 5}
    reads = {row.store: row for row in result.readings if row.pools == POOLS}
    a_minute = 60 / 5

    def cpu(store: str) -> float:
        return a_minute * beats[store].cpu + 60 * (reads[store].quiet - reads["memory"].quiet) / POOLS

    for store, beat in beats.items():
        if store not in reads:
            continue
        read, charge = reads[store], reads[store].charge
        units = ("-", "-")
        if charge is not None:
            units = number(a_minute * charge.write_units), number(60 / POLL_SECS * charge.read_units / POOLS)
        calls = a_minute * beat.calls + read.calls / POOLS
        yield (
            store,
            number(cpu(store) * 1e3),
            ratio(cpu(store) / cpu("memory")),
            number(calls) if calls else "-",
            *units,
        )


def _units(result: Result) -> Iterator[str]:
    charges = {row.pools: row.charge for row in result.readings if row.charge is not None}
    charge = next(iter(charges.values()))
    yield (
        f"* a renewal of this bench takes {charge.renewal_bytes} bytes as DynamoDB counts them, "
        f"a registration {charge.registration_bytes}"
    )
    for check in result.checks:
        verdict = "the same" if check.by_rule == check.said else f"{check.said:g}"
        yield f"* {check.what}: {check.by_rule:g} units by the documented rules; ministack says {verdict}"
    yield f"* a month of 30 days on demand, {REPLICAS} replicas, one relay for each pool:"
    yield ""
    rows = (_month(pools, every, charges[pools]) for pools in charges if pools >= POOLS for every in EVERY_SECS)
    yield from _table(_MONTH, rows)


def _month(pools: int, every_secs: int, charge: Charge) -> Iterable[str]:
    writes = pools / every_secs * charge.write_units
    reads = REPLICAS * charge.read_units / POLL_SECS
    millions = (number(each * 30 * 86_400 / 1e6) for each in (writes, reads))
    return f"{pools:,}", f"{every_secs} s", *millions, number(month_usd(writes, reads))


def _or_none(value: float | None, times: float = 1.0) -> str:
    return "-" if value is None else number(value * times)


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    for cells in (head, ["--:" for _ in head], *rows):
        yield f"| {' | '.join(cells)} |"
