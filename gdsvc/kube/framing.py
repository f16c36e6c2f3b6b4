"""Cuts what a socket delivers into lines (of a watch) and items (of a list) as it arrives, within bounds.

A big list decoded in one go would block the event loop for its whole length; cut this way, no step is longer than one
item. Neither class does I/O.
"""

import re
from collections.abc import Iterator
from types import GenericAlias
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from gdsvc.errors import GdsvcError
from gdsvc.kube import objects

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_PENDING_BYTES: Final = 16 << 20  # of one line or item: etcd holds 1.5 MiB, JSON makes a few times as much of it
MAX_LIST_BYTES: Final = 1 << 30
STEP_BYTES: Final = 1 << 16  # handled between two turns of the event loop: about half a millisecond

_FIRST_ITEM: Final = re.compile(rb'"items"\s*:\s*\[\s*(?=\{\s*("[^"\\]*"))')
_BETWEEN: Final = re.compile(rb"\}\s*,\s*\{\s*\Z")
_HEAD_BYTES: Final = 1 << 20  # where the items must begin to be cut as they arrive
_MISSES: Final = 64  # wrong guesses, after which the rest is left to `close`: each costs a look at the whole item
_BETWEEN_SPAN: Final = 256  # bytes looked at before a first key: more white space than that is no API server's


class Decoder(Protocol[T_co]):
    """msgspec.json.Decoder, as far as it is used."""

    @property
    def type(self) -> object: ...
    def decode(self, buf: bytes | msgspec.Raw, /) -> T_co: ...


class TooLarge(GdsvcError):
    """A line, an item or a list is beyond its bound."""


class Lines:
    """Splits a stream at newlines. Empty lines are dropped."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. TooLarge where one is beyond MAX_PENDING_BYTES."""
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._keep(rest)
            return []
        lines = (bytes(self._pending) + head).split(b"\n")
        self._pending.clear()
        self._keep(rest)
        return [line for line in lines if line.strip()]

    def close(self) -> bytes | None:
        """What came after the last newline, None where nothing did: a line that was cut, as a rule."""
        rest = bytes(self._pending)
        return rest if rest.strip() else None

    def _keep(self, rest: bytes) -> None:
        if len(self._pending) + len(rest) > MAX_PENDING_BYTES:
            raise TooLarge(f"a line of the watch is longer than {MAX_PENDING_BYTES} bytes")
        self._pending += rest


class Unreadable(msgspec.Struct, frozen=True):
    """An item or line that is not what it should be."""

    message: str


class Items(Generic[T]):
    """Splits the body of a list into decoded items.

    The first key of the first item, which every other item begins with too, marks where an item may begin; that the
    bytes before are whole JSON values proves it, since no JSON object is the beginning of another. All that are there
    are decoded at once; after the first that cannot be read, one by one. Where the guess finds nothing, `close` decodes
    what is left in one go: slower, never wrong.
    """

    def __init__(self, decoder: Decoder[T]) -> None:
        self._decoder = decoder
        self._several: Decoder[list[T]] = msgspec.json.Decoder(GenericAlias(list, (decoder.type,)))
        self._one_by_one = False
        self._head = b""  # up to and with the bracket that opens the items
        self._first_key = b""
        self._pending = bytearray()
        self._searched = 0  # of pending: no first key begins before
        self._total = 0
        self._misses = 0

    def feed(self, chunk: bytes | memoryview) -> Iterator[T | Unreadable]:
        """The items that `chunk` completes; feed STEP_BYTES at a time. TooLarge beyond the bounds."""
        self._total += len(chunk)
        self._pending += chunk
        if len(self._pending) > MAX_PENDING_BYTES or self._total > MAX_LIST_BYTES:
            raise TooLarge(f"a list or one of its items is too large ({self._total} bytes so far)")
        if self._first_key or (self._total <= _HEAD_BYTES and self._begins()):
            yield from self._cut_several() or self._cut()

    def close(self) -> tuple[objects.ListMeta, list[T | Unreadable]]:
        """The list's own metadata and its last items. msgspec.DecodeError where the body is no list."""
        envelope = objects.LIST_ENVELOPE.decode(self._head + self._pending)
        return envelope.metadata, [decode(self._decoder, item) for item in envelope.items or ()]

    def _begins(self) -> bool:
        found = _FIRST_ITEM.search(self._pending)
        if found is None:
            return False
        self._head, self._first_key = bytes(self._pending[: found.end()]), bytes(found[1])
        del self._pending[: found.end()]
        self._searched = self._pending.index(self._first_key) + len(self._first_key)
        return True

    def _cut_several(self) -> list[T]:
        """All items before the last key, if that begins one; none where it does not, or where one cannot be read."""
        pending = self._pending
        at = -1 if self._one_by_one else pending.rfind(self._first_key, self._searched)
        between = _BETWEEN.search(pending, max(0, at - _BETWEEN_SPAN), at) if at >= 0 else None
        if between is None:
            return []
        with memoryview(pending) as view:
            several = decode(self._several, b"".join((b"[", view[: between.start() + 1], b"]")))
        if isinstance(several, Unreadable):
            self._one_by_one = True
            return []
        begin = pending.index(b"{", between.start() + 1)
        del pending[:begin]
        self._searched = at + len(self._first_key) - begin
        return several

    def _cut(self) -> Iterator[T | Unreadable]:
        """Item by item, each tried as far as the next key."""
        key, pending, begin = self._first_key, self._pending, 0
        while self._misses < _MISSES and (at := pending.find(key, self._searched)) >= 0:
            self._searched = at + len(key)
            between = _BETWEEN.search(pending, max(begin, at - _BETWEEN_SPAN), at)
            if between is None:
                continue
            item = bytes(pending[begin : between.start() + 1])
            if (decoded := self._whole(item)) is None:
                self._misses += 1
                continue
            yield decoded
            begin = pending.index(b"{", between.start() + 1)
        del pending[:begin]
        self._searched = max(self._searched - begin, len(pending) - len(key) + 1)

    def _whole(self, item: bytes) -> T | Unreadable | None:
        """The item, or None where the bytes are only a part of one."""
        decoded = decode(self._decoder, item)
        return None if isinstance(decoded, Unreadable) and not _is_json(item) else decoded


def decode(decoder: Decoder[T], text: bytes | msgspec.Raw) -> T | Unreadable:
    """What `text` says, or why it cannot be read; never raises for any bytes."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:  # msgspec's errors and UnicodeDecodeError are ValueErrors
        return Unreadable(str(error)[:200])


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
