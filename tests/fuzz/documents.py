"""Near-misses of a registration as JSON text, and a second opinion on what is JSON, made of the standard library."""

import json
import math
from typing import Any

from hypothesis import strategies as st

MAX_NESTING = 32

_ODD_CHARACTERS = "\0\x1f\x7f\x85 \u00a0\u200e\u202e\u2066\u2028\ufeff\ufffd\U0001f44d'\"\\/,{}[]:"
_ODD_TEXTS = (
    "",
    " ",
    "a",
    "é" * 127,
    "a" * 253,
    "a" * 254,
    "null",
    "http://a",
    "http://[::1]:1/",
    "https://1.2.3.4:65536",
)
_ODD_STRINGS = (  # as they stand in the document
    rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud83d\udc4d"', rb'"\u0000"', rb'"\x"', rb'"\u12"', b'"\xff"', b'"\xc0\xaf"',
    b'"\xed\xa0\x80"', b'"\n"', b'"\t"', b'"', b"'a'",
)  # fmt: skip
_ODD_NUMBERS = (
    b"0", b"-0", b"-1", b"1.0", b"1e2", b"1E400", b"-1e999", b"1e-999", b"01", b"+1", b".5", b"1.", b"1e", b"0x1",
    b"NaN", b"Infinity", b"-Infinity", b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"0." + b"1" * 400,
)  # fmt: skip
_NAMES = (
    "key", "site_id", "namespace", "dgd_name", "location", "region", "cluster", "model", "frontends", "capacity",
    "live_workers", "max_concurrency", "capabilities", "id", "relay_identities", "sources", "extra", "", "Key",
)  # fmt: skip

_texts = st.one_of(st.sampled_from(_ODD_TEXTS), st.text(max_size=12), st.text(_ODD_CHARACTERS, max_size=5))


def _encoded(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _object(members: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"


_names = st.one_of(st.sampled_from(_NAMES), _texts).map(_encoded)
_leaves = st.one_of(
    _texts.map(_encoded),
    st.sampled_from((b"null", b"true", b"false", b"{}", b"[]", b"", b"None", b"nul", *_ODD_STRINGS, *_ODD_NUMBERS)),
    st.integers(-(2**65), 2**65).map(lambda number: b"%d" % number),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode()),
    st.integers(1, 40).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(1, 40).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth),
)
values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(_array), st.lists(st.tuples(_names, inner), max_size=4).map(_object)
    ),
    max_leaves=6,
)


def _near(members: dict[str, st.SearchStrategy[bytes]]) -> st.SearchStrategy[bytes]:
    """An object with most of these members, most as they should be, in any order, some twice, some unknown ones."""

    @st.composite
    def draw_object(draw: st.DrawFn) -> bytes:
        names = [name for name in members if draw(st.integers(0, 19))]
        drawn = [(_encoded(name), draw(members[name] if draw(st.integers(0, 9)) else values)) for name in names]
        drawn += draw(st.lists(st.tuples(_names, values), max_size=1))
        return _object(draw(st.permutations(drawn)))

    return draw_object()


_right_names = st.text("abz09-é", min_size=1, max_size=8).map(_encoded)
_counts = st.integers(0, 2**64 - 1).map(lambda number: b"%d" % number)
_urls = st.sampled_from(("http://10.0.0.1:8000", "https://a.b/", "http://[2001:db8::1]:1", "HTTP://A")).map(_encoded)
registrations = _near(
    {
        "key": _near({"site_id": _right_names, "namespace": _right_names, "dgd_name": _right_names}),
        "location": _near({"region": _right_names, "cluster": _right_names, "availability_zone": _right_names}),
        "model": _right_names,
        "frontends": st.lists(_urls, max_size=3).map(_array),
        "capacity": _near({"live_workers": _counts, "max_concurrency": _counts, "observed_ranks": _counts}),
        "capabilities": st.lists(_texts.map(_encoded), max_size=3).map(_array),
    }
)
routers = _near({"id": _right_names, "url": _urls})


@st.composite
def _damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A document of which some bytes are cut out, doubled, or others."""
    document = draw(whole)
    start = draw(st.integers(0, len(document)))
    end = draw(st.integers(start, min(len(document), start + 8)))
    return document[:start] + draw(st.one_of(st.binary(max_size=4), st.just(document[start:end] * 2))) + document[end:]


def bodies(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly documents of the kind of `whole`; also damaged ones, other JSON, and any bytes."""
    space = st.sampled_from((b"", b" ", b"\r\n\t", b"\xef\xbb\xbf", b"\0", b"\x0c"))
    spaced = st.tuples(space, values, space).map(b"".join)
    return st.one_of(whole, whole, whole, _damaged(whole), spaced, st.binary(max_size=64))


def is_json(body: bytes) -> bool:
    """Whether it is JSON that nests at most MAX_NESTING levels, all of it UTF-8, its numbers finite."""
    try:
        document = json.loads(body.decode(), object_pairs_hook=tuple, parse_constant=_refuse, parse_float=_finite)
        return _sound(document, MAX_NESTING)
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _sound(document: Any, levels: int) -> bool:
    """Objects are tuples of pairs here, so that of two members with one name both are judged."""
    match document:
        case str():
            document.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
            return True
        case list():
            return levels > 0 and all(_sound(item, levels - 1) for item in document)
        case tuple():
            return levels > 0 and all(_sound(name, levels) and _sound(item, levels - 1) for name, item in document)
        case _:
            return True
