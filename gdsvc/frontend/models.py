"""The list of models in OpenAI's shape: of a catalog, or merged from the lists of pools; and how long one is kept.

Asks nobody, and reads no clock.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Final

import msgspec

FRESH_SECS: Final = 10.0  # a list so old is given without asking the pools
STALE_SECS: Final = 300.0  # and one so old where they list nothing: to many clients no model means that none is served
AGAIN_SECS: Final = 1.0  # after which pools that listed nothing are asked again
MOST_MODELS: Final = 10_000  # in a merged list
MOST_BYTES: Final = 4 * 2**20  # of a merged list

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Model(msgspec.Struct):
    """A model of the catalog. When it was created is not known, and clients want a number."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "gdsvc"


class ModelList(msgspec.Struct):
    """The body of GET /v1/models."""

    data: tuple[Model, ...]
    object: str = "list"


class _Reply(msgspec.Struct):
    data: list[msgspec.Raw]


class _Named(msgspec.Struct):
    id: Name


_ENCODER: Final = msgspec.json.Encoder()
_REPLIES: Final = msgspec.json.Decoder(_Reply)
_NAMED: Final = msgspec.json.Decoder(_Named)
_ODD: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_HEAD, _TAIL = b'{"object":"list","data":[', b"]}"
NOTHING: Final = _HEAD + _TAIL
"""A merged list without a model."""
UNKNOWN: Final = b""
"""In place of a list that nobody could give."""


def of_catalog(models: Iterable[str]) -> bytes:
    """The list of these models, in their order."""
    return _ENCODER.encode(ModelList(tuple(map(Model, models))))


def merged(replies: Iterable[bytes]) -> bytes:
    """One list of what several pools list, each model as the first pool that has it says.

    Passed over is what is no list of models, a model without a name, and what goes beyond MOST_MODELS or MOST_BYTES.
    """
    found: dict[str, bytes] = {}
    room = MOST_BYTES - len(NOTHING)
    for name, model in (pair for reply in replies for pair in _listed(reply)):
        if name not in found and len(found) < MOST_MODELS and len(model) < room:
            found[name] = model
            room -= len(model) + 1
    return _HEAD + b",".join(found.values()) + _TAIL


def _listed(reply: bytes) -> Iterator[tuple[str, bytes]]:
    """The models of one reply by name, each in the bytes that the pool wrote."""
    try:
        listed = _REPLIES.decode(reply).data
    except _ODD:
        return
    for raw in listed:
        with suppress(*_ODD):
            model = bytes(raw)
            name = _NAMED.decode(model).id
            model.decode()  # msgspec does not look into strings that it passes over
            yield name, model


class Kept:
    """The merged list that was asked for last. Instants are seconds, monotonic."""

    def __init__(self) -> None:
        self._body = NOTHING
        self._fresh_until = self._stale_until = -math.inf

    def fresh(self, now: float) -> bytes | None:
        """The list, while it can be given without asking the pools."""
        return self._body if now < self._fresh_until else None

    def put(self, body: bytes, now: float) -> bytes:
        """What is to be given: `body`, or instead of NOTHING and UNKNOWN, for STALE_SECS, the list before."""
        if body not in (NOTHING, UNKNOWN):
            self._body = body
            self._fresh_until, self._stale_until = now + FRESH_SECS, now + STALE_SECS
        elif now < self._stale_until:
            self._fresh_until = min(now + AGAIN_SECS, self._stale_until)
        else:
            self._body = body
            self._fresh_until = now + AGAIN_SECS
        return self._body
