"""Texts of strangers, made harmless to show: nothing that a terminal obeys, nothing that hides or turns around.

Decides what a character looks like. Where a text stands, and how wide it may be, is decided elsewhere.
"""

import re
from typing import Final

MOST_CHARACTERS: Final = 200  # of one text in a line or a cell; JSON and YAML have the whole of it
MOST_OF_A_SENTENCE: Final = 1_000

# Printable in Unicode's sense, and yet nothing is seen of them: fillers, a joiner, vowels, variation selectors.
_FILLERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_NOT_ASCII_TEXT = re.compile(r"[^\t\n\r -~]")
_SAFE_IN_KEYS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:@+,")


def visible(text: str) -> str:
    r"""`text` on one line, as Python's own escapes where a character is not printable: `\x1b`, `\u202e`, `\n`.

    Controls, bidirectional controls, most invisible characters, unusual spaces and lone surrogates are none of them
    printable in Unicode's sense; _FILLERS are the rest. A backslash stays as it is: this is for people, JSON is there
    for programs.
    """
    if text.isprintable() and _FILLERS.isdisjoint(text):
        return text
    return "".join(
        character if _is_seen(character) else character.encode("unicode_escape").decode() for character in text
    )


def _is_seen(character: str) -> bool:
    return character.isprintable() and character not in _FILLERS


def excerpt(text: str, most: int = MOST_CHARACTERS) -> str:
    """`visible(text)`, cut to `most` characters."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def sentence(text: str) -> str:
    """What a service says, harmless and within bounds."""
    return excerpt(text, MOST_OF_A_SENTENCE)


def key_text(site_id: str, namespace: str, dgd_name: str) -> str:
    """A pool's key as the commands take it, `site/namespace/name`: safe to show, and to paste into a shell.

    Letters and digits of every script stay; a slash inside a name, spaces, what a shell reads and what cannot be seen
    are percent-encoded.
    """
    text = "/".join(_segment(name) for name in (site_id, namespace, dgd_name))
    return "%2D" + text[1:] if text.startswith("-") else text  # which would be read as a flag


def json_text(body: bytes) -> bytes:
    r"""A JSON document for a terminal: the same document, what is not printable in its strings as `\u` escapes.

    Outside strings JSON is ASCII, so that nothing but strings changes; most documents do not change at all.
    """
    return _NOT_ASCII_TEXT.sub(_json_escape, body.decode(errors="replace")).encode()


def _segment(name: str) -> str:
    return "".join(
        character
        if character in _SAFE_IN_KEYS or (not character.isascii() and _is_seen(character))
        else "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
        for character in name
    )


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    if _is_seen(character):
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
