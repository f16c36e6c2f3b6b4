"""Instants and durations as people read them; the time now is passed in, in seconds since 1970."""

import re
from datetime import UTC, datetime
from typing import Final

from gdsvc.commands.visible import excerpt

_UNITS: Final = (
    (2 * 86_400, 86_400, "days"),
    (2 * 3_600, 3_600, "h"),
    (120, 60, "min"),
)  # (from, seconds of one, name)


_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
LONGEST_SECS: Final = 1e12  # thirty thousand years: what a service says beyond is nonsense


def duration(secs: float) -> str:
    """`3.8 s`, `12 s`, `5 min`, `3 h`, `4 days`: two digits or so are what a person takes in."""
    secs = min(secs, LONGEST_SECS)
    for least, unit, name in _UNITS:
        if secs >= least:
            return f"{secs / unit:.0f} {name}"
    return f"{secs:.0f} s" if round(secs, 1) >= 10 else f"{secs:.1f} s"


def since(secs: float) -> str:
    """`12 s ago`, or `in 12 s` for what is still to come."""
    return f"{duration(secs)} ago" if secs >= 0 else f"in {duration(-secs)}"


def instant(unix_secs: float) -> str:
    """`2026-11-30 01:20:03 UTC`."""
    try:
        return datetime.fromtimestamp(unix_secs, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "a time that no calendar has"


def told(text: str, now: float) -> str:
    """A sentence of the service, every RFC 3339 instant in it both ways."""
    return _INSTANT.sub(lambda match: when(match[0], now), text)


def when(text: str, now: float) -> str:
    """An RFC 3339 instant both ways, `2026-11-30 01:20:03 UTC (12 s ago)`; what is none is shown as it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return excerpt(text)
    unix_secs = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return f"{instant(unix_secs)} ({since(now - unix_secs)})"
