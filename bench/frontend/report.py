"""The result as Markdown: what it was measured on, the trips, memory, selection, each with its bounds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from bench.figures import Figure, Row
from bench.table import bound, number, ratio, table

_MEMORY: Final = ("name", "what", "unit", "ours", "must", "aim", "beside", "", "ratio")
_SELECTION: Final = ("name", "what", "µs of CPU", "must", "aim", "instructions", "µs with guard and outcome")


class Memory(Struct, frozen=True):
    """The least of both sides in KiB a stream; `why` where there is none."""

    figure: Figure
    ours: float | None
    theirs: float | None
    why: str = ""


class Selection(Struct, frozen=True):
    """Of one policy and size: microseconds and instructions of Selector.select, and microseconds of the whole."""

    figure: Figure
    select: float | None
    instructions: float | None
    held: float | None
    why: str = ""


class Result(Struct, frozen=True):
    """All rows that were asked for, in order."""

    trips: Sequence[Row]
    memory: Sequence[Memory]
    selections: Sequence[Selection]


def report(description: Iterable[str], result: Result) -> str:
    """Ends with a newline. A part of which no row was asked for is left out."""
    text = table(description, result.trips) if result.trips else "".join(f"* {line}\n" for line in description)
    parts = [text]
    if result.memory:
        parts.append(_part("Idle streams", _MEMORY, map(_memory, result.memory)))
    if result.selections:
        parts.append(_part("Selection", _SELECTION, map(_selection, result.selections)))
    return "\n".join(parts)


def _part(heading: str, head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return "\n".join([f"## {heading}", "", *lines, ""])


def _memory(row: Memory) -> Iterator[str]:
    figure = row.figure
    yield from (f"`{figure.name}`", figure.what, figure.unit, _shown(row.ours, row.why))
    yield from _bounds(figure, row.ours)
    yield from (figure.theirs, _shown(row.theirs))
    yield "-" if not row.ours or not row.theirs else ratio(row.ours / row.theirs)


def _selection(row: Selection) -> Iterator[str]:
    yield from (f"`{row.figure.name}`", row.figure.what, _shown(row.select, row.why))
    yield from _bounds(row.figure, row.select)
    yield from (_shown(row.instructions), _shown(row.held))


def _bounds(figure: Figure, value: float | None) -> Iterator[str]:
    yield bound(figure.must, value)
    yield bound(figure.aim, value)


def _shown(value: float | None, why: str = "") -> str:
    if value is not None:
        return number(value)
    return f"not measured: {' '.join(why.replace('|', '/').split())}" if why else "-"
