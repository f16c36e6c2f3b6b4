"""The result as Markdown: the machine, a row a size, the sync under heartbeats, and the figures with their bounds."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from bench.clusters.beats import LEASE_SECS, POOLS, Beaten
from bench.clusters.sides import Taken
from bench.table import bound, number, ratio

SYNC_MUST, EVENT_MUST = 0.08, 1.5
_HEAD = (
    *("slices x endpoints", "sync CPU ms", "beside", "ratio", "to exact ms", "beside", "CPU us an endpoint", "beside"),
    *("bytes an endpoint", "beside", "longest stall ms", "beside", "steps", "event CPU us", "beside"),
)


class Size(Struct, frozen=True):
    """So many slices with so many endpoints each."""

    slices: int
    endpoints: int

    @property
    def total(self) -> int:
        """Endpoints in all."""
        return self.slices * self.endpoints


class Measured(Struct, frozen=True):
    """The least of each figure; `theirs` None where that side is not measured."""

    size: Size
    ours: Taken
    theirs: Taken | None


def report(description: Iterable[str], rows: Sequence[Measured], beats: Beaten) -> str:
    """Ends with a newline. `beside` is kubernetes_asyncio with its models and its Watch."""
    lines = [f"* {line}" for line in description]
    lines += ["", _line(_HEAD), _line("--:" for _ in _HEAD), *(_line(_cells(row)) for row in rows)]
    lines += ["", *_figures(rows), _beats(beats)]
    return "\n".join(lines) + "\n"


def _cells(row: Measured) -> Iterator[str]:
    ours, theirs, total = row.ours, row.theirs, row.size.total

    def pair(figure: Callable[[Taken], float]) -> Iterator[str]:
        yield number(figure(ours))
        yield "-" if theirs is None else number(figure(theirs))

    yield f"{row.size.slices:,} x {row.size.endpoints}"
    yield from pair(lambda taken: taken.sync_cpu * 1e3)
    yield "-" if theirs is None else ratio(ours.sync_cpu / theirs.sync_cpu)
    yield from pair(lambda taken: taken.sync_secs * 1e3)
    yield from pair(lambda taken: taken.sync_cpu / total * 1e6)
    yield from pair(lambda taken: taken.memory / total)
    yield from pair(lambda taken: taken.stall_secs * 1e3)
    yield str(ours.steps)
    yield from pair(lambda taken: taken.event_cpu * 1e6)


def _figures(rows: Sequence[Measured]) -> Iterator[str]:
    by_size = {(row.size.slices, row.size.endpoints): row for row in rows}
    judged = by_size.get((1_000, 100))
    if judged is not None and judged.theirs is not None:
        value = judged.ours.sync_cpu / judged.theirs.sync_cpu
        what = "first sync of 1,000 x 100, CPU beside kubernetes_asyncio"
        yield f"* {what}: {ratio(value)}, must {bound(SYNC_MUST, value)}"
    for endpoints in (10, 100):
        few, many = by_size.get((100, endpoints)), by_size.get((10_000, endpoints))
        if few is not None and many is not None:
            value = many.ours.event_cpu / few.ours.event_cpu
            what = f"one event to Upserted, CPU at 10,000 slices of {endpoints} beside 100"
            yield f"* {what}: {ratio(value)}, must {bound(EVENT_MUST, value)}"


def _beats(beats: Beaten) -> str:
    return (
        f"* first sync by `gdsvc serve` while {POOLS:,} pools beat on {LEASE_SECS} s leases: {beats.expired} expired, "
        f"{beats.stalls} stalls of a second; longest wait of {beats.beats:,} beats {beats.longest_secs * 1e3:.0f} ms "
        f"(before the sync {beats.longest_before_secs * 1e3:.0f} ms); ready after {beats.sync_secs:.2f} s, "
        f"CPU {beats.service_cpu_secs:.2f} s"
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
