"""Takes the request target apart: path segments and repeatable query parameters. Decides nothing about routes."""

import re
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def split_path(raw_path: bytes) -> tuple[str, ...] | None:
    """The decoded segments of an absolute path; None where it is not one, or does not decode to UTF-8.

    Segments are split before they are decoded, so `%2F` is part of a name: `/pools/a/b%2Fc` is ("pools", "a", "b/c").
    A trailing slash gives a last empty segment. Dot segments are names like any other.
    """
    if not raw_path.startswith(b"/") or (b"%" in raw_path and _BAD_ESCAPE.search(raw_path)):
        return None
    try:
        if b"%" not in raw_path:
            return tuple(raw_path[1:].decode().split("/"))
        return tuple(unquote_to_bytes(segment).decode() for segment in raw_path[1:].split(b"/"))
    except UnicodeDecodeError:
        return None


def query_values(query_string: bytes, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The values of the parameters in `names`, in the order sent; others are dropped, absent ones are no member.

    Form decoding (`+` is a space), blank values kept, what does not decode becomes U+FFFD. Never raises.
    """
    found: dict[str, list[str]] = {}
    for pair in query_string.split(b"&"):
        raw_name, _, raw_value = pair.partition(b"=")
        name = _form_text(raw_name)
        if name in names:
            found.setdefault(name, []).append(_form_text(raw_value))
    return {name: tuple(values) for name, values in found.items()}


def _form_text(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    return raw.decode("utf-8", "replace")
