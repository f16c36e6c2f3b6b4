"""Read and write units, as DynamoDB's documentation counts them, and what they cost. Measures nothing.

Rules: the pages "Item sizes and formats" and "On-demand capacity mode" of its developer guide. An answer is charged by
the size of what it looked at, rounded up for each page, and an item's size is that of its names and values.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, Final

WRITE_BYTES: Final = 1024  # of one item, that one write unit takes
READ_BYTES: Final = 4096  # of one page, that one read unit takes; half a unit where it may be a second old
WRITES_USD: Final = 0.625  # for a million write units on demand, in us-east-1; the same for many regions
READS_USD: Final = 0.125
MONTH_SECS: Final = 30 * 86_400


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of an item of strings, numbers and truth values. Raises ValueError for any other."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    match dict(value):
        case {"S": str(text)}:
            return len(text.encode())
        case {"N": str(number)}:
            significant = number.lstrip("-").replace(".", "").strip("0")
            return ceil(len(significant) / 2) + 1
        case {"BOOL": bool()}:
            return 1
    raise ValueError(f"an attribute of a kind that is not counted: {value}")


def write_units(sizes: Iterable[int]) -> int:
    """For puts of items so large, one by one: in a batch each is still charged by itself."""
    return sum(max(1, ceil(size / WRITE_BYTES)) for size in sizes)


def query_units(pages: Iterable[int]) -> float:
    """For the pages of queries that may be a second old, each of so many bytes; an empty one is charged, too."""
    return sum(max(1, ceil(size / READ_BYTES)) / 2 for size in pages)


def month_usd(writes_per_sec: float, reads_per_sec: float) -> float:
    """For a month of 30 days, on demand."""
    return (writes_per_sec * WRITES_USD + reads_per_sec * READS_USD) * MONTH_SECS / 1e6
