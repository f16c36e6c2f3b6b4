"""The result as Markdown: what it was measured on, then one table, one row a figure."""

from collections.abc import Iterable, Sequence

from bench.figures import Figure, Measured, Row

HOLDS, FAILS = "✓", "✗"
_HEAD = ("name", "what", "unit", "ours", "", "beside", "", "ratio", "must", "aim")


def table(description: Iterable[str], rows: Sequence[Row]) -> str:
    """A list of the lines of `description`, then the rows in their order. Ends with a newline."""
    lines = [f"* {line}" for line in description]
    lines += ["", _line(_HEAD), _line(["---", "---", "---", "---", "--:", "---", "--:", "--:", "--:", "--:"])]
    lines += [_line(_cells(row)) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    figure = row.figure
    if not isinstance(row, Measured):
        numbers = ["-", "-", f"not measured: {_plain(row.why)}", *_bounds(figure, None)]
    else:
        numbers = [number(row.ours), number(row.theirs), ratio(row.ratio), *_bounds(figure, row.ratio)]
    ours, theirs, *rest = numbers
    return [f"`{figure.name}`", figure.what, figure.unit, figure.ours, ours, figure.theirs, theirs, *rest]


def _bounds(figure: Figure, ratio: float | None) -> list[str]:
    return [bound(figure.must, ratio), bound(figure.aim, ratio)]


def bound(limit: float | None, ratio: float | None) -> str:
    """The limit and whether the ratio, rounded as it is shown, stays within it; `reported` where there is none."""
    if limit is None:
        return "reported"
    if ratio is None:
        return f"{limit:.2f}"
    return f"{limit:.2f} {HOLDS if round(ratio, 3) <= limit else FAILS}"


def ratio(value: float) -> str:
    """Three decimals, or two digits that count where these would be less."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.2g}"


def number(value: float) -> str:
    """Three digits that count: 0.123, 1.23, 12.3, 123, 1,230."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
