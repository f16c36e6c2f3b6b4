"""Where an item stands in the table: the texts of its two keys.

`pk` is a shard, `s0` to `s<count - 1>`: one partition takes 1,000 writes a second, so about 5,000 pools at a heartbeat
of 5 s. `sk` is what the item is (`h` a heartbeat, `r` a registration), whose (`p` a pool, `r` a router replica), and
the names: `hp/ohio/dynamo/mocker-1`.
"""

from enum import Enum
from urllib.parse import quote_from_bytes, unquote_to_bytes

from blake3 import blake3
from xxhash import xxh3_64_intdigest

SORT_KEY_BYTES = 1024  # DynamoDB's limit for a sort key
LAYOUT_KEY = ("gdsvc", "layout")  # of the one item that says how many shards there are

_PLAIN = "!$&'()*+,:;=@ "  # what need not be escaped, beside letters, digits and -._~


class Kind(Enum):
    """Whose registration it is."""

    POOL = "p"
    ROUTER = "r"

    __hash__ = object.__hash__  # Enum's hashes the name, in Python: a tenth of what a pool costs in a poll


class Part(Enum):
    """What an item says of it."""

    RENEWAL = "h"
    REGISTRATION = "r"


def shard_of(kind: Kind, name: bytes, count: int) -> str:
    """The partition key of both items of a name; `name` is a sort key of the model: texts with NUL between them."""
    return f"s{xxh3_64_intdigest(kind.value.encode() + name) % count}"


def shards(count: int) -> list[str]:
    """The partition keys of all shards."""
    return [f"s{number}" for number in range(count)]


def text_of(name: bytes) -> str:
    """The names with slashes between them, escaped as in a URL."""
    return "/".join(quote_from_bytes(word, safe=_PLAIN) for word in name.split(b"\0"))


def name_of(text: str) -> bytes:
    """The name that `text` was made of."""
    if "%" not in text:  # as of most: a poll reads the name of every pool
        return text.replace("/", "\0").encode()
    return b"\0".join(unquote_to_bytes(word) for word in text.split("/"))


def sort_key_of(part: Part, kind: Kind, name: bytes) -> str:
    """Readable where it fits; else a digest, beside which the item must say the name."""
    text = text_of(name)
    if len(text) + 3 > SORT_KEY_BYTES:
        text = "~" + blake3(name).hexdigest()  # no name begins so: there is a slash behind it, or it is escaped
    return f"{part.value}{kind.value}/{text}"


def name_in(sort_key: str) -> tuple[Kind, bytes] | None:
    """Whose item it is, and its name, which is empty where the item must say it; None where it is none of ours."""
    head, slash, text = sort_key.partition("/")
    kind = _KINDS.get(head) if slash else None
    if kind is None:
        return None
    return kind, b"" if text.startswith("~") else name_of(text)


_KINDS = {part.value + kind.value: kind for part in Part for kind in Kind}
