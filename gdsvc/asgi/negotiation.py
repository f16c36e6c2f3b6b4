"""Reads what a request says about representations: content codings, entity tags, JSON media types. Raises nothing."""

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Coding: TypeAlias = Literal["zstd", "gzip", "identity"]

# Client libraries send one of a handful of short values; longer ones are parsed each time, so that none fills memory.
_CACHED_VALUES: Final = 64
_CACHED_LENGTH: Final = 128

_QUALITY = re.compile(rb"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")  # RFC 9110 section 12.4.2
_ENTITY_TAG = re.compile(rb'[ \t]*(?:(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?:,[ \t,]*|\Z)')  # section 8.8.3
_MEDIA_TYPE = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+/(?:json|[!#$%&'*+.^_`|~0-9a-z-]+\+json)")


def content_coding(accept_encoding: bytes | None) -> Coding:
    """The coding to answer in: the most wanted of zstd and gzip, zstd where both are wanted alike.

    `identity` when neither is acceptable, and when it is asked for by name with a strictly greater quality.
    """
    if not accept_encoding:
        return "identity"
    if len(accept_encoding) > _CACHED_LENGTH:
        return _negotiated(accept_encoding)
    return _negotiated_before(accept_encoding)


def _negotiated(accept_encoding: bytes) -> Coding:
    wanted: dict[bytes, float] = {}
    for item in accept_encoding.lower().split(b","):
        name, _, parameter = item.partition(b";")
        quality = _quality(parameter)
        if quality is not None:
            wanted[name.strip()] = quality
    others = wanted.get(b"*", 0.0)
    gzip = wanted.get(b"gzip", wanted.get(b"x-gzip", others))
    zstd = wanted.get(b"zstd", others)
    if max(gzip, zstd) == 0.0 or wanted.get(b"identity", 0.0) > max(gzip, zstd):
        return "identity"
    return "zstd" if zstd >= gzip else "gzip"


_negotiated_before = lru_cache(_CACHED_VALUES)(_negotiated)


def _quality(parameter: bytes) -> float | None:
    """Of `q=0.5`, or of nothing (1.0); None for what is no quality: such an item is left out."""
    parameter = parameter.strip()
    if not parameter:
        return 1.0
    name, _, value = parameter.partition(b"=")
    return float(value) if name == b"q" and _QUALITY.fullmatch(value) else None


def none_match(if_none_match: bytes, etag: bytes) -> bool:
    """Whether the condition names `etag` (RFC 9110 section 13.1.2), so that a GET is answered with 304.

    Weak comparison; `*` names every tag; a comma within quotes is part of a tag. A malformed list names nothing.
    """
    if if_none_match.strip() == b"*":
        return True
    opaque = etag.removeprefix(b"W/")
    named = False
    position = 0
    while position < len(if_none_match):
        item = _ENTITY_TAG.match(if_none_match, position)
        if item is None:
            return False
        named = named or item[1] == opaque
        position = item.end()
    return named


def is_json(content_type: bytes | None) -> bool:
    """Whether a body of this Content-Type is read as JSON: `application/json`, any `…+json`, or none given."""
    media_type = (content_type or b"").partition(b";")[0].strip().lower()
    if media_type in (b"", b"application/json"):
        return True
    return media_type.endswith(b"+json") and _MEDIA_TYPE.fullmatch(media_type) is not None
