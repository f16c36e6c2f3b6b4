"""Server-Sent Events as a machine: bytes in, events out, cut wherever the network cuts them.

Follows the event stream section of the HTML standard; does no I/O and knows nothing of what the events mean.
"""

import re
from typing import Final

from msgspec import Struct

from gdsvc.client.errors import EventTooLong

MOST_EVENT_BYTES: Final = 256 * 1024 * 1024  # a Resync is a whole list: 100,000 ordinary pools are 40 MB

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"[\r\n]")
_DIGITS: Final = re.compile(rb"[0-9]{1,15}")


class ServerSentEvent(Struct, frozen=True):
    """One block of the stream. `data` is UTF-8 as sent; `id` is the last one the stream gave, None before the first.

    A block without data is no event, but what it says counts: it is given with an empty `event` where it moved the
    id or named a reconnection time (`retry_ms`, None elsewhere).
    """

    event: str
    data: bytes
    id: str | None
    retry_ms: int | None


class EventParser:
    """Takes a stream apart. Holds at most one event, of `most_bytes` at most."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._line = bytearray()  # the beginning of a line whose end has not come
        self._at_start = True
        self._after_cr = False  # a LF that comes next belongs to it
        self._last_id: str | None = None
        self._begin_block()

    def _begin_block(self) -> None:
        self._event = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._retry_ms: int | None = None
        self._told_id = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that `chunk` completes. Raises EventTooLong; after that the parser is of no more use."""
        events: list[ServerSentEvent] = []
        start = 0
        while (end := self._end_of_line(chunk, start)) >= 0:
            line = bytes(self._line) + chunk[start:end] if self._line else chunk[start:end]
            self._line.clear()
            ended_by_cr = chunk[end] == 0x0D
            start = end + 1
            if not (self._after_cr and not ended_by_cr and not line):
                self._take(line, events)
            self._after_cr = ended_by_cr
        self._line += chunk[start:]
        self._check(len(self._line))
        return events

    @staticmethod
    def _end_of_line(chunk: bytes, start: int) -> int:
        match = _LINE_END.search(chunk, start)
        return match.start() if match else -1

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._end_block(events)
            return
        name, _, value = line.partition(b":")
        self._set(name, value.removeprefix(b" "))

    def _set(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                self._data.append(value)
                self._data_bytes += len(value) + 1
                self._check(0)
            case b"event":
                self._event = value
            case b"id" if b"\0" not in value:
                self._last_id = value.decode(errors="replace")
                self._told_id = True
            case b"retry" if _DIGITS.fullmatch(value):
                self._retry_ms = int(value)
            case _:  # a comment, or a field that we do not know
                pass

    def _end_block(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            name = self._event.decode(errors="replace") or "message"
            events.append(ServerSentEvent(name, b"\n".join(self._data), self._last_id, self._retry_ms))
        elif self._told_id or self._retry_ms is not None:
            events.append(ServerSentEvent("", b"", self._last_id, self._retry_ms))
        self._begin_block()

    def _check(self, more: int) -> None:
        if self._data_bytes + more > self._most_bytes:
            raise EventTooLong(f"an event is longer than {self._most_bytes} bytes")
