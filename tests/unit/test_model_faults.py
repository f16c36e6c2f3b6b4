"""What the wire types refuse: what is no JSON, and what is JSON but wrong, with the member at fault."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc import model
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import (
    PoolCapacity,
    PoolKey,
    PoolLocation,
    PoolRegistration,
    RouterReplica,
    decode_listing,
    decode_registration,
    decode_router,
)

KEY = {"site_id": "ohio", "namespace": "dynamo", "dgd_name": "mocker-1"}
COUNTS = ("max_concurrency", "live_workers", "kv_capacity_blocks", "expected_ranks", "observed_ranks")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=8,
)


def short(value: object) -> str:
    """A test id that is no longer than a name."""
    return ascii(value)[:60]


def body(**members: Any) -> bytes:
    """A registration as a relay would send it."""
    return json.dumps({"key": KEY, **members}).encode()


def raw(member: bytes) -> bytes:
    """A registration with a member `x`, written as given, that we do not know."""
    return b'{"key":' + json.dumps(KEY).encode() + b',"x":' + member + b"}"


def kept(registration: bytes) -> Any:
    """What the member `x` says after decoding."""
    extra = decode_registration(registration).extra
    assert isinstance(extra, dict)
    return extra["x"]


# ------------------------------------------------------------------------------------------------- what is 400


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """A registration that nests `levels` deep, its own object included."""
    return raw(opening * (levels - 1) + closing * (levels - 1))


def test_thirty_two_levels_are_read() -> None:
    assert kept(nested(32)) == json.loads("[" * 31 + "]" * 31)
    assert kept(nested(32, b'{"a":', b"}").replace(b":}", b":1}")).keys() == {"a"}


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":', b' [ [1], {"b":[]}, '])
@pytest.mark.parametrize("levels", [33, 34, 500, 100_000])
def test_deeper_nesting_is_no_json_for_us(opening: bytes, levels: int) -> None:
    with pytest.raises(NotJson, match="32 levels"):
        decode_registration(raw(opening * (levels - 1)))


def test_thirty_three_levels_are_refused_where_they_close_too() -> None:
    with pytest.raises(NotJson, match="32 levels"):
        decode_registration(nested(33))


@pytest.mark.parametrize("text", [rb'"%s"' % (b"[{" * 100), rb'"\"%s"' % (b"[" * 100), rb'"\\\"%s\\"' % (b"{" * 100)])
def test_brackets_in_strings_nest_nothing(text: bytes) -> None:
    assert kept(raw(text)) == json.loads(text)


def test_many_brackets_side_by_side_nest_nothing() -> None:
    assert kept(raw(b"[" + b",".join([b"[[]]"] * 1000) + b"]")) == [[[]]] * 1000


@pytest.mark.parametrize(
    ("document", "piece"),
    [
        (b"", "empty"),
        (b" ", "truncated"),
        (b"\xef\xbb\xbf" + body(), "invalid character"),
        (body().decode().encode("utf-16"), "malformed|UTF-8"),
        (body() + body(), "trailing characters"),
        (body()[:-1], "truncated"),
        (b"{'key': 1}", "malformed"),
        (b'{"key":1,}', "trailing comma"),
        (b"// no\n{}", "malformed"),
        (raw(b"NaN"), "malformed"),
        (raw(b"Infinity"), "malformed"),
        (raw(b"-Infinity"), "malformed"),
        (raw(b"1e999"), "out of range"),
        (raw(b"-1e999"), "out of range"),
        (raw(b'[{"a":1e999}]'), "out of range"),
        (raw(b"01"), "malformed"),
        (raw(b"+1"), "malformed"),
        (raw(b".5"), "malformed"),
        (raw(b"1."), "malformed"),
        (raw(b"True"), "malformed"),
        (raw(b"9" * 5000), "out of range"),
        (raw(b'"\xff"'), "UTF-8"),
        (raw(b'"\xc0\x80"'), "UTF-8"),
        (raw(b'"\xed\xa0\x80"'), "UTF-8"),
        (raw(b'{"\xff":1}'), "UTF-8"),
        (raw(rb'"\ud800"'), "truncated|surrogate"),
        (raw(rb'"\ud800 and more"'), "surrogate"),
        (raw(rb'"\ud800\u0041"'), "surrogate"),
        (raw(rb'"\ud800\ud800"'), "surrogate"),
        (raw(rb'"\udc00"'), "surrogate|malformed"),
        (raw(rb'{"\udc00":1}'), "surrogate|malformed"),
        (raw(rb'"\x41"'), "escape"),
        (raw(b'"a\nb"'), "malformed"),
        (raw(b'"\x00"'), "malformed"),
    ],
    ids=short,
)
def test_what_is_no_json_is_told_from_what_is_merely_wrong(document: bytes, piece: str) -> None:
    with pytest.raises(NotJson, match=rf"(?i)no JSON.*({piece})"):
        decode_registration(document)


PLACES = {
    "top": b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"x":%s}',
    "key": b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c","x":%s}}',
    "location": b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"location":{"region":"r","x":%s}}',
    "capacity": b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"capacity":{"x":%s}}',
    "extra": b'{"key":{"site_id":"a","namespace":"b","dgd_name":"c"},"extra":{"x":%s}}',
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "value", [b"1e999", b'"\xff"', rb'"\ud800 alone"', b"NaN", b"[" * 50 + b"]" * 50, b"[" * 99_999], ids=short
)
def test_members_that_we_do_not_know_are_checked_wherever_they_stand(place: str, value: bytes) -> None:
    with pytest.raises(NotJson):
        decode_registration(PLACES[place] % value)
    decode_registration(PLACES[place] % b"1e99")


@pytest.mark.parametrize("decode", [decode_registration, decode_router, decode_listing])
def test_every_decoder_checks_every_byte(decode: Any) -> None:
    for document in (b"", b"{", b'{"x":1e999}', b'{"x":"\xff"}', b"[" * 50_000):
        with pytest.raises(NotJson):
            decode(document)


# ------------------------------------------------------------------------------------------------- what is 422


WRONG_DOCUMENTS = [
    ("null", "$", "got `null`"),
    ("[]", "$", "expected `object`"),
    ('"x"', "$", "expected `object`"),
    ("7", "$", "expected `object`"),
    ("{}", "$.key", "missing"),
    ('{"key":null}', "$.key", "expected `object`"),
    ('{"key":[]}', "$.key", "expected `object`"),
    ('{"key":{}}', "$.key.site_id", "missing"),
    ('{"key":{"site_id":"a","dgd_name":"c"}}', "$.key.namespace", "missing"),
    ('{"key":{"site_id":"a","namespace":"b"}}', "$.key.dgd_name", "missing"),
]
WRONG_MEMBERS = [
    ({"location": 1}, "$.location", "expected `object"),
    ({"location": {}}, "$.location.region", "missing"),
    ({"location": {"region": None}}, "$.location.region", "expected `str`"),
    ({"location": {"region": ""}}, "$.location.region", "not blank"),
    ({"location": {"region": " \t\u3000"}}, "$.location.region", "not blank"),
    ({"location": {"region": "eu", "availability_zone": 1}}, "$.location.availability_zone", "got `int`"),
    ({"location": {"region": "eu", "cluster": []}}, "$.location.cluster", "got `array`"),
    ({"location": {"region": "eu", "datacenter": {}}}, "$.location.datacenter", "got `object`"),
    ({"model": 1}, "$.model", "got `int`"),
    ({"model": ["m"]}, "$.model", "got `array`"),
    ({"frontends": "http://a"}, "$.frontends", "expected `array`"),
    ({"frontends": [None]}, "$.frontends[0]", "expected `str`"),
    ({"frontends": ["http://a", 5]}, "$.frontends[1]", "expected `str`"),
    ({"frontends": ["http://a", "a"]}, "$.frontends[1]", "bare base URL"),
    ({"capacity": []}, "$.capacity", "expected `object"),
    ({"capabilities": "x"}, "$.capabilities", "expected `array`"),
    ({"capabilities": ["x", 1]}, "$.capabilities[1]", "expected `str`"),
]


def check_invalid(document: bytes, field: str, piece: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode_registration(document)
    assert caught.value.field == field
    assert piece in caught.value.expectation
    assert str(caught.value) == f"{field}: {caught.value.expectation}"


@pytest.mark.parametrize(("document", "field", "piece"), WRONG_DOCUMENTS)
def test_a_document_of_the_wrong_shape_names_what_is_missing(document: str, field: str, piece: str) -> None:
    check_invalid(document.encode(), field, piece)


@pytest.mark.parametrize(("members", "field", "piece"), WRONG_MEMBERS)
def test_a_wrong_member_is_named_with_what_was_expected(members: dict[str, Any], field: str, piece: str) -> None:
    check_invalid(body(**members), field, piece)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    ("count", "piece"),
    [
        ("-1", "from 0 to 18446744073709551615"),
        ("18446744073709551616", "from 0 to 18446744073709551615"),
        ("9" * 4000, "from 0 to 18446744073709551615"),
        ("1.0", "got `float`"),
        ("1e3", "got `float`"),
        ("true", "got `bool`"),
        ('"1"', "got `str`"),
    ],
    ids=short,
)
def test_a_count_is_an_integer_of_64_bits(name: str, count: str, piece: str) -> None:
    document = f'{{"key":{json.dumps(KEY)},"capacity":{{"{name}":{count}}}}}'
    check_invalid(document.encode(), f"$.capacity.{name}", piece)


WRONG_NAMES = [
    ("", "non-empty"),
    (" ", "white space"),
    (" a", "white space"),
    ("a ", "white space"),
    ("a\u3000", "white space"),
    ("\u2003a", "white space"),
    ("\ta", "control"),
    ("a\nb", "control"),
    ("a\0b", "control"),
    ("a\x1f", "control"),
    ("a\x7f", "control"),
    ("é\x85", "control"),
    ("\x9fé", "control"),
    *[(f"a{bidi}b", "bidirectional") for bidi in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"],
    *[(f"a{bidi}b", "bidirectional") for bidi in "\u2066\u2067\u2068\u2069"],
    ("a" * 254, "253 bytes"),
    ("é" * 127, "253 bytes"),
    ("池" * 84 + "éa", "253 bytes"),
    ("𝛑" * 64, "253 bytes"),
]


@pytest.mark.parametrize("member", ["site_id", "namespace", "dgd_name"])
@pytest.mark.parametrize(("name", "piece"), WRONG_NAMES, ids=short)
def test_a_name_that_is_none_is_refused_in_every_member_of_a_key(member: str, name: str, piece: str) -> None:
    check_invalid(json.dumps({"key": {**KEY, member: name}}).encode(), f"$.key.{member}", piece)
    with pytest.raises(Invalid) as caught:
        PoolKey(**{**KEY, member: name})
    assert caught.value.field == member


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a b",
        "a/b",
        "é",
        "池",
        "a\u200bb",
        "~",
        "!",
        "\\",
        '"',
        "a" * 253,
        "é" * 126 + "a",
        "池" * 84 + "a",
        "𝛑" * 63 + "a",
    ],
    ids=short,
)
def test_names_of_up_to_253_bytes_in_any_script_are_names(name: str) -> None:
    assert decode_registration(json.dumps({"key": {**KEY, "dgd_name": name}}).encode()).key.dgd_name == name


@pytest.mark.parametrize("member", ["site_id", "namespace", "dgd_name"])
def test_a_name_is_a_string(member: str) -> None:
    for wrong in (None, 1, True, ["a"], {"a": 1}):
        check_invalid(json.dumps({"key": {**KEY, member: wrong}}).encode(), f"$.key.{member}", "expected `str`")


def test_a_fault_in_a_listing_is_named_too() -> None:
    with pytest.raises(Invalid) as caught:
        decode_listing(body())
    assert caught.value.field == "$.id"


def test_types_built_in_python_hold_the_same_rules() -> None:
    with pytest.raises(Invalid, match=r"^region: "):
        PoolLocation("  ")
    with pytest.raises(Invalid, match=r"^live_workers: "):
        PoolCapacity(live_workers=2**64)
    with pytest.raises(Invalid, match=r"^frontends\[0\]: "):
        PoolRegistration(PoolKey("a", "b", "c"), frontends=("a",))
    with pytest.raises(ValueError, match=r"^url: "):
        RouterReplica("r", "http://a/b")


@pytest.mark.parametrize(
    ("document", "field", "piece"),
    [
        ("[]", "$", "expected `object`"),
        ("{}", "$.id", "missing"),
        ('{"id":"a"}', "$.url", "missing"),
        ('{"id":1,"url":"http://a"}', "$.id", "expected `str`"),
        ('{"id":"a","url":null}', "$.url", "expected `str`"),
        ('{"id":"","url":"http://a"}', "$.id", "non-empty"),
        ('{"id":" a","url":"http://a"}', "$.id", "white space"),
        ('{"id":"a","url":"http://a/b"}', "$.url", "bare base URL"),
        ('{"id":"a","url":"http://a:0"}', "$.url", "port"),
    ],
)
def test_a_wrong_router_is_named_with_what_was_expected(document: str, field: str, piece: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode_router(document.encode())
    assert caught.value.field == field
    assert piece in caught.value.expectation


@pytest.mark.parametrize("levels", range(6))
@given(document=JSON)
def test_nesting_is_counted_as_a_parser_would(levels: int, document: Any) -> None:
    def depth(inner: Any) -> int:
        members = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else None
        return 0 if members is None else 1 + max(map(depth, members), default=0)

    assert model.nested_beyond(json.dumps(document).encode(), levels) is (depth(document) > levels)
