"""Takes what a service sends apart: heads of responses, chunks, server-sent events. Bytes in, parts out, no I/O."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

HEAD_BYTES: Final = 64 * 1024  # more is no answer of a discovery service
CHUNK_LINE_BYTES: Final = 1024


class Broken(Exception):
    """What came is not HTTP as a discovery service speaks it."""


class Head(Struct, frozen=True):
    """Status and header fields of a response, their names in lower case; `size`: bytes up to its body."""

    status: int
    fields: Mapping[bytes, bytes]
    size: int


def head_of(data: bytes) -> Head | None:
    """The head that `data` begins with; None where it has not come whole. Raises Broken."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > HEAD_BYTES or not data.startswith(b"HTTP/1."[: len(data)]):
            raise Broken(f"expected the head of an HTTP response, got {data[:60]!r}")
        return None
    first, *lines = data[:end].split(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise Broken(f"expected an HTTP response, got {first[:60]!r}")
    pairs = (line.partition(b":") for line in lines)
    return Head(int(words[1]), {name.lower(): value.strip() for name, _, value in pairs}, end + 4)


class Dechunker:
    """Takes chunked transfer coding off."""

    def __init__(self) -> None:
        self._rest = b""  # of a line with a size
        self._missing = 0  # bytes of the chunk, with the line end behind it
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """What `data` carries. Raises Broken."""
        data, self._rest = self._rest + data, b""
        carried: list[bytes] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._missing:
                part = data[at : at + self._missing]
                at += len(part)
                carried.append(part[: max(0, self._missing - 2)])
                self._missing -= len(part)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep(data[at:])
                break
            self._missing = _size(data[at:end])
            self.ended = self._missing == 2
            at = end + 2
        return b"".join(carried)

    def _keep(self, rest: bytes) -> None:
        if len(rest) > CHUNK_LINE_BYTES:
            raise Broken("expected the size of a chunk")
        self._rest = rest


def _size(line: bytes) -> int:
    """Bytes of a chunk with its line end. Raises Broken."""
    try:
        return int(line.partition(b";")[0], 16) + 2
    except ValueError:
        raise Broken(f"expected the size of a chunk, got {line[:20]!r}") from None


class Blocks:
    """Cuts a stream of server-sent events at its empty lines. Line ends are line feeds."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, text: bytes) -> list[bytes]:
        """The blocks that `text` completes."""
        if self._parts:
            if b"\n\n" not in self._parts[-1][-1:] + text:  # a resync of many pools comes in many pieces
                self._parts.append(text)
                return []
            text = b"".join([*self._parts, text])
        *blocks, rest = text.split(b"\n\n")
        self._parts = [rest] if rest else []
        return blocks


class Block(Struct, frozen=True):
    """One block: the event's name (none: a comment, or an id alone), its data, its id and what the id is made of."""

    event: bytes
    data: bytes
    id: bytes
    epoch: bytes
    revision: int


def block_of(block: bytes) -> Block:
    """Takes a block apart. Raises Broken where its id is not `EPOCH-REVISION`, perhaps with a filter's hash behind."""
    event, event_id = b"", b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
        elif name == b"id":
            event_id = value
    epoch, revision = _parts_of(event_id) if event_id else (b"", -1)
    if event and revision < 0:
        raise Broken(f"expected an id with the event {event[:60]!r}")
    return Block(event, b"\n".join(data), event_id, epoch, revision)


def _parts_of(event_id: bytes) -> tuple[bytes, int]:
    epoch, _, rest = event_id.partition(b"-")
    revision = rest.partition(b"-")[0]
    if not epoch or not revision.isdigit():
        raise Broken(f"expected an id of the form EPOCH-REVISION, got {event_id[:60]!r}")
    return epoch, int(revision)
