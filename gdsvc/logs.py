"""How a line of the log looks, whoever wrote it: structlog, the standard library, granian, asyncio.

Decides shape, bounds, masks and what happens when nobody reads stderr. What is worth a line is decided elsewhere.
"""

import json
import logging
import math
import os
import re
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NoReturn, TextIO, cast

import structlog
from structlog.typing import EventDict

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
MAX_FIELD_CHARACTERS = 1_000
MAX_TRACEBACK_CHARACTERS = 8_000  # its end is kept: the error and the frames next to it
MAX_ITEMS, MAX_DEPTH = 20, 3  # of lists and mappings in a field: what is looked at, before it is cut
STALL_MS, PATIENCE_SECS = 20, 1.0  # a full pipe is waited for this long, this often at most; leases bear 2 %
ATOMIC_BYTES = 4096  # PIPE_BUF of Linux: a pipe that polls as writable takes this much without blocking

_SECRET_WORDS = frozenset(("authorization", "password", "token", "secret"))  # not "tokens": those are counted
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_USER_OF_URL = re.compile(r"(?<=://)[^\s/?#]*@")  # up to the last @: a password may hold one
_PLAIN = re.compile(r"[!#-&(-<>-~]+")  # shown without quotes on the console: no space, no quote, no =
_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))  # what a terminal obeys is written as \uXXXX

Fields = dict[str, Any]


class Logger:
    """A typed log. A line below the level ends at one comparison, before structlog binds anything."""

    __slots__ = ("_log",)

    def __init__(self, name: str) -> None:
        self._log = structlog.get_logger(name)

    def debug(self, event: str, **fields: object) -> None:
        if _output.threshold <= logging.DEBUG:
            self._log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if _output.threshold <= logging.INFO:
            self._log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if _output.threshold <= logging.WARNING:
            self._log.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        if _output.threshold <= logging.ERROR:
            self._log.error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """error() with the traceback of the exception in hand."""
        self.error(event, **{"exc_info": True, **fields})


def get(name: str) -> Logger:
    """The log of the module `name`; the name becomes the field `logger`. Safe at import, before configure()."""
    return Logger(name)


def configure(level: str, format: Literal["auto", "json", "console"], stream: TextIO | None = None) -> None:  # noqa: A002
    """Sends every line of the process to `stream` (None: sys.stderr as it is now) from `level` of LEVELS up.

    `auto` writes for people on a terminal and JSON elsewhere. May be called again.
    """
    stream = sys.stderr if stream is None else stream
    console = format == "console" or (format == "auto" and _is_terminal(stream))
    _output.point(LEVELS[level], _console_line if console else _json_line, Pipe(stream))
    structlog.configure(
        processors=_processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),  # Logger and _Output filter
        logger_factory=_Named,
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Handler(LEVELS[level])]
    root.setLevel(LEVELS[level])
    logging.captureWarnings(True)


class Pipe:
    """A stream that is written to and never waited for: what a reader does not take in time is dropped and counted."""

    def __init__(self, stream: TextIO | None) -> None:
        self.dropped = 0  # lines since the last that went through
        self._stream = stream
        self._torn = False  # the last line went out in part
        self._patient_at = 0.0  # monotonic time from which a wait is affordable again
        self._descriptor = _descriptor(stream)
        self._poll = select.poll()
        if self._descriptor is not None:
            self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> bool:
        """Whether the whole line, which ends in a newline, went out. Never raises, never blocks above STALL_MS."""
        try:
            written = self._write_text(line) if self._descriptor is None else self._write_to(self._descriptor, line)
        except (OSError, ValueError):  # EPIPE, a closed stream: nobody reads, which is no reason to stop serving
            written = False
        self.dropped = 0 if written else self.dropped + 1
        return written

    def _write_text(self, line: str) -> bool:
        if self._stream is None:
            return False
        self._stream.write(line)
        self._stream.flush()
        return True

    def _write_to(self, descriptor: int, line: str) -> bool:
        rest = line.encode(errors="backslashreplace")
        if self._torn:
            rest = b"\n" + rest
        while rest and (self._poll.poll(0) or self._wait()):
            rest = rest[os.write(descriptor, rest[:ATOMIC_BYTES]) :]
            self._torn = bool(rest)
        return not rest

    def _wait(self) -> bool:
        """Whether a reader that is behind made room in time. Asked seldom: a slow reader must not slow the service."""
        now = time.monotonic()
        if now < self._patient_at:
            return False
        self._patient_at = now + PATIENCE_SECS
        return bool(self._poll.poll(STALL_MS))


class _Output:
    """Where lines go, and from which level up; configure() points it."""

    def __init__(self) -> None:
        self.threshold = logging.INFO
        self._render: Callable[[Fields], str] = _json_line
        self._pipe = Pipe(None)
        self._lock = threading.RLock()  # re-entrant: a signal's handler may log in the middle of a line

    def point(self, threshold: int, render: Callable[[Fields], str], pipe: Pipe) -> None:
        with self._lock:
            self.threshold, self._render, self._pipe = threshold, render, pipe

    def process(self, logger: "_Named", level: str, event: EventDict) -> NoReturn:
        """The one structlog processor: writes, and ends the chain."""
        if self.threshold <= LEVELS[level]:
            fields = dict(event)
            self.emit(time.time(), level, fields.pop("event", ""), logger.name, fields)
        raise structlog.DropEvent

    def emit(self, now: float, level: str, event: object, name: str | None, fields: Mapping[str, object]) -> None:
        """Writes one line. `now` is the wall clock in seconds."""
        line = self._render(_entry(now, level, event, name, fields))
        with self._lock:
            lost = self._pipe.dropped
            if self._pipe.write(line) and lost:
                notice = _entry(
                    now, "warning", "log lines were dropped, stderr was not read", __name__, {"lines": lost}
                )
                self._pipe.write(self._render(notice))


class _Named:
    """The innermost logger of structlog: a name, nothing else."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name


class _Handler(logging.Handler):
    """The standard library's lines, in our shape."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {} if record.exc_info is None else {"exc_info": record.exc_info}
        _output.emit(record.created, _level_name(record.levelno), _message(record), record.name, fields)


# ------------------------------------------------------------------------------------------------- fields


def _entry(now: float, level: str, event: object, name: str | None, fields: Mapping[str, object]) -> Fields:
    """A line's members in their order, each bounded and masked. ts, level, event and logger are never a field's."""
    entry: Fields = {
        "ts": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z",
        "level": level,
        "event": _text(_str(event)),
    }
    if name is not None:
        entry["logger"] = name
    for key, value in fields.items():
        if key == "exc_info":
            exception = _traceback(value)
            if exception is not None:
                entry["exception"] = exception
        else:
            entry.setdefault(_text(key), _field(key, value))
    return entry


def _field(key: str, value: object) -> object:
    field = _value(key, value, MAX_DEPTH)
    if isinstance(field, str | int | float | None):
        return field
    text = _JSON.encode(field)
    return field if len(text) <= MAX_FIELD_CHARACTERS else text[:MAX_FIELD_CHARACTERS] + "…"


def _value(key: str, value: object, depth: int) -> object:
    """`value` as JSON can hold it, its secrets masked. A list or mapping too deep inside becomes a text."""
    if _is_secret(key):
        return "***"
    if depth and isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        some = {_text(_str(name)): _value(_str(name), item, depth - 1) for name, item in islice(pairs, MAX_ITEMS)}
        return some if len(pairs) <= MAX_ITEMS else {**some, "…": len(pairs) - MAX_ITEMS}
    if depth and isinstance(value, list | tuple | set | frozenset):
        items = cast("Collection[object]", value)
        listed = [_value("", item, depth - 1) for item in islice(items, MAX_ITEMS)]
        return listed if len(items) <= MAX_ITEMS else [*listed, "…"]
    return _scalar(value)


@lru_cache(1024)
def _is_secret(key: str) -> bool:
    return not _SECRET_WORDS.isdisjoint(word.lower() for word in _WORD.findall(key))


def _scalar(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return _text(_str(value))


def _str(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return hex(value) if isinstance(value, int) else str(value)  # str() refuses integers of 5,000 digits
    except Exception:  # noqa: BLE001 - a line about a broken object must not break its writer
        return f"<{type(value).__name__}>"


def _text(value: str) -> str:
    """Masked, then cut: the other way round a cut could take the @ that tells a password."""
    clean = _clean(value)
    return clean if len(clean) <= MAX_FIELD_CHARACTERS else clean[:MAX_FIELD_CHARACTERS] + "…"


def _clean(value: str) -> str:
    """Without users of URLs, and without lone surrogates, which are no JSON to strict readers."""
    masked = _USER_OF_URL.sub("***@", value) if "://" in value else value
    return masked if masked.isascii() else masked.encode(errors="backslashreplace").decode()


def _traceback(exc_info: object) -> str | None:
    """The traceback that exc_info (True, an exception, or a triple) names."""
    if isinstance(exc_info, tuple):
        error = cast("tuple[object, ...]", exc_info)[1]
    else:
        error = sys.exception() if exc_info is True else exc_info
    if not isinstance(error, BaseException):
        return None
    text = _clean("".join(traceback.format_exception(error)).rstrip("\n"))
    return text if len(text) <= MAX_TRACEBACK_CHARACTERS else "…" + text[-MAX_TRACEBACK_CHARACTERS:]


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit the format: the format still says something
        return _str(record.msg)


def _level_name(number: int) -> str:
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "debug")


# -------------------------------------------------------------------------------------------------- lines


def _json_line(entry: Fields) -> str:
    return _JSON.encode(entry) + "\n"


def _console_line(entry: Fields) -> str:
    exception = entry.pop("exception", None)
    ts, level, event = entry.pop("ts"), entry.pop("level"), entry.pop("event")
    parts = [ts, f"{level:<8}", _escaped(event), *(f"{_escaped(key)}={_shown(value)}" for key, value in entry.items())]
    lines = [" ".join(parts)]
    if exception is not None:
        lines += [f"  | {_escaped(line)}" for line in exception.split("\n")]  # none can pass for a line of its own
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else repr(value)
    return _JSON.encode(value)


# ------------------------------------------------------------------------------------------------ streams


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _descriptor(stream: TextIO | None) -> int | None:
    """The file descriptor below the stream, emptied of what the stream itself holds; None for one in memory."""
    try:
        if stream is None:
            return None
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError):
        return None


_output = _Output()  # one a process, as there is one stderr
_processors = [_output.process]  # one list for good: loggers in use hold it, and structlog's capture_logs changes it
