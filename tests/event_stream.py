"""Server-sent events as the HTML standard has them parsed, and a slow and obvious client that applies ours."""

import json
from typing import Any

from msgspec import Struct


class Event(Struct, frozen=True):
    """One event that was dispatched; `id` is what the stream is at after it."""

    name: str
    data: str
    id: str

    def json(self) -> Any:
        return json.loads(self.data)


class Parser:
    """Takes the bytes of a stream, however they are cut; lines end with LF, as ours do. Half an event is none."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self.comments: list[str] = []
        self.ids: list[str] = []  # each id that the stream said it was at, those behind comments too
        self._unread: list[bytes] = []
        self._block: dict[str, list[str]] = {}

    def feed(self, received: bytes) -> list[Event]:
        """The events that end in `received`."""
        self._unread.append(received)
        if b"\n" not in received:  # a list of megabytes is one line
            return []
        *lines, rest = b"".join(self._unread).split(b"\n")
        self._unread = [rest]
        events = [self._take(line.decode()) for line in lines]
        return [event for event in events if event is not None]

    def _take(self, line: str) -> Event | None:
        if not line:
            return self._end_of_block()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:
            self.comments.append(value)
        elif name == "retry":
            self.retry_ms = int(value)
        else:
            self._block.setdefault(name, []).append(value)
        return None

    def _end_of_block(self) -> Event | None:
        block, self._block = self._block, {}
        assert block.keys() <= {"event", "data", "id"}, block
        if "id" in block:
            (self.last_id,) = block["id"]
            self.ids.append(self.last_id)
        if "data" not in block:
            return None
        (name,), (data,) = block["event"], block["data"]
        return Event(name, data, self.last_id)


class View:
    """What a client knows that believes every event, and that no event tells it what it knew already."""

    def __init__(self) -> None:
        self.items: dict[str, Any] = {}
        self.complete: bool | None = None
        self.resyncs = 0

    def apply(self, event: Event) -> None:
        """Fails where an event cannot follow what came before it."""
        document = event.json()
        if event.name == "resync":
            self.resyncs += 1
            self.complete = document["complete"]
            self.items = {_key(item): item for item in document["pools" if "pools" in document else "routers"]}
        elif event.name == "upserted":
            assert self.complete is not None, "a stream starts with a resync"
            assert self.items.get(_key(document)) != document, "nothing changed"
            self.items[_key(document)] = document
        else:
            assert event.name == "removed", event
            del self.items[_key(document)]

    def list(self) -> list[Any]:
        """What is known, in the order of a list."""
        return [self.items[key] for key in sorted(self.items)]


def _key(item: Any) -> str:
    """What tells an item from others and sorts as the lists do."""
    key = item.get("key")
    return str(item["id"]) if key is None else "\0".join((key["site_id"], key["namespace"], key["dgd_name"]))
