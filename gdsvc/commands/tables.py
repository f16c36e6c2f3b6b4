"""Lists as rows of texts, and rows laid out: aligned by columns for pipes and files, with rich for a terminal.

Every text of a stranger goes through gdsvc.commands.visible on its way into a row.
"""

import unicodedata
from collections.abc import Iterable
from io import StringIO
from typing import Final

from msgspec import Struct

from gdsvc.commands.documents import Pool, PoolList, RouterList, Source
from gdsvc.commands.visible import excerpt, key_text, visible

UNKNOWN: Final = "-"
NUMBERS: Final = frozenset({"CAPACITY", "RELAYS"})
GAP: Final = "  "  # between columns
MOST_RICH_ROWS: Final = 500  # rich takes about a millisecond a row: beyond, a terminal gets the plain layout at once


class Table(Struct, frozen=True):
    """Heads and rows; every row has a cell for each head."""

    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


def pool_table(pools: Iterable[Pool]) -> Table:
    """A row for each pool; what it did not say is a hyphen."""
    return Table(("POOL", "MODEL", "REGION", "FRONTENDS", "CAPACITY", "RELAYS"), [_pool_row(pool) for pool in pools])


def router_table(routers: RouterList) -> Table:
    """A row for each router replica."""
    return Table(("ROUTER", "URL"), [(visible(router.id), excerpt(router.url)) for router in routers.routers])


def summary(answer: PoolList | RouterList) -> str:
    """How many there are, and whether that is all: one sentence."""
    count, one = (len(answer.pools), "pool") if isinstance(answer, PoolList) else (len(answer.routers), "router")
    number = f"{count} {one}{'' if count == 1 else 's'}"
    return f"{number}; {completeness(answer.complete, answer.sources)}"


def completeness(complete: bool, sources: Iterable[Source]) -> str:
    """Whether a list may be taken for the whole fleet, in words."""
    if complete:
        return "the list is complete"
    waiting = ", ".join(visible(source.name) for source in sources if not source.complete)
    return (
        f"the list is not complete yet{f' (waiting for {waiting})' if waiting else ''}: some that live may be missing"
    )


def plain(table: Table) -> str:
    """One line for the heads and for each row, columns two spaces apart, nothing cut, nothing wrapped."""
    widths = _widths(table)
    return "".join(_line(cells, widths) for cells in (table.heads, *table.rows))


def styled(table: Table, width: int) -> str:
    """The table for a terminal of `width` columns, with rich: long texts fold inside their column.

    Whether there is colour is rich's to say, from NO_COLOR and TERM.
    """
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    shares = _shares(_widths(table), width - len(GAP) * (len(table.heads) - 1))
    for head, share in zip(table.heads, shares, strict=True):
        rich_table.add_column(head, overflow="fold", width=share, style="" if rich_table.columns else "cyan")
    for row in table.rows:
        rich_table.add_row(*(Text(cell) for cell in row))  # a Text is never read as markup
    screen = StringIO()
    Console(file=screen, width=width, force_terminal=True, highlight=False).print(rich_table)
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


def layout(table: Table, width: int | None) -> str:
    """The table for a terminal of `width` columns, or for what is none."""
    return plain(table) if width is None or len(table.rows) > MOST_RICH_ROWS else styled(table, width)


def fitting(table: Table, width: int) -> Table:
    """The table without the numbers at its right end as far as a terminal of `width` columns has no room for them.

    A row on one line without its capacity reads better than one whose texts fold.
    """
    widths = _widths(table)
    count = len(widths)
    while table.heads[count - 1] in NUMBERS and sum(widths[:count]) + len(GAP) * (count - 1) > width:
        count -= 1
    return Table(table.heads[:count], [row[:count] for row in table.rows])


def _shares(wanted: list[int], room: int) -> list[int]:
    """How many of `room` columns each text gets. Left to itself, rich leaves out the last where the first are long.

    The name, to copy from, gets half if it wants it, and all that the others leave; they share alike what is left.
    """
    name, *others = wanted
    shares = [min(name, max(room // 2, room - sum(others))), *others]
    left = room - shares[0]
    for done, place in enumerate(sorted(range(1, len(wanted)), key=wanted.__getitem__)):
        shares[place] = max(1, min(wanted[place], left // (len(others) - done)))
        left -= shares[place]
    return shares


def _pool_row(pool: Pool) -> tuple[str, ...]:
    region = pool.location.region if pool.location else None
    most = pool.capacity.max_concurrency if pool.capacity else None
    return (
        key_text(pool.key.site_id, pool.key.namespace, pool.key.dgd_name),
        excerpt(pool.model) if pool.model else UNKNOWN,
        excerpt(region) if region else UNKNOWN,
        _first_of(pool.frontends or ()),
        UNKNOWN if most is None else str(most),
        str(len(pool.relay_identities or ())),
    )


def _first_of(urls: tuple[str, ...]) -> str:
    """The first, and how many more there are: a pool of a hundred frontends is one line all the same."""
    if not urls:
        return UNKNOWN
    return excerpt(urls[0]) + (f" +{len(urls) - 1}" if len(urls) > 1 else "")


def _widths(table: Table) -> list[int]:
    return [max(map(_width, column)) for column in zip(table.heads, *table.rows, strict=True)]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True))
    return GAP.join(padded).rstrip() + "\n"


def _width(text: str) -> int:
    """Columns that a terminal takes for a visible text: two for East Asian wide letters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
