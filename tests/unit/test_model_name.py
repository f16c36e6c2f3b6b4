"""The search for `model` agrees with msgspec on whole bodies, and finds in a cut one whatever stands before the cut."""

import json

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gdsvc._model_name import model_in


class Asked(msgspec.Struct):
    model: str


DECODER = msgspec.json.Decoder(Asked)


def by_msgspec(body: bytes) -> str | None:
    try:
        return DECODER.decode(body).model
    except msgspec.MsgspecError:
        return None


def by_us(body: bytes, *, whole: bool = True) -> str | None:
    try:
        return model_in(body, whole)
    except (ValueError, TypeError):
        return None


def refusal(body: bytes, *, whole: bool = True) -> str:
    with pytest.raises(ValueError, match="expected") as caught:
        model_in(body, whole)
    return str(caught.value)


KEYS = [
    rb'"model"',
    rb'"mo\u0064el"',
    rb'"\u006d\u006F\u0064\u0065\u006c"',
    rb'"models"',
    rb'"mode"',
    rb'"Model"',
    rb'""',
]
STRINGS = [
    rb'"a"',
    rb'"\ud83d\ude00"',
    rb'"\ud83d"',
    rb'"\ude00"',
    rb'"\ud83d\u0041"',
    rb'"\ud83dx"',
    rb'"\n\t\r\b\f\/\\\""',
    rb'"\u00e9\u6c60\u0000"',
    rb'"\x"',
    rb'"\u12"',
    rb'"\u00zz"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    "é池𝛑".join('""').encode(),
    b'"\n"',
    b'"\x7f"',
    b'"1234567890123456\x1f"',
    b'"12345678901234567890"',
    b'"',
    b"\\",
]
OTHERS = [
    *b"{ } [ ] : , 1 0 -0 01 -1 1.5 1. .5 - +1 1e5 1E+5 1e 1e- 1e999 -9.9e-9 true false null tru nulll nan".split()
]
SPACES = [b"", b"", b"", b" ", b"\n", b"\r\n\t", b"\x0b", b"\0"]
TOKENS = st.sampled_from([*KEYS, *STRINGS, *OTHERS, *SPACES])
SPACE = st.sampled_from(SPACES)
VALUES = st.recursive(
    st.sampled_from([*STRINGS, *OTHERS]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: b"[" + b",".join(items) + b"]")
        | st.lists(st.builds(b"%b:%b".__mod__, st.tuples(st.sampled_from(KEYS), inner)), max_size=3).map(
            lambda members: b"{" + b",".join(members) + b"}"
        )
    ),
    max_leaves=4,
)
MEMBERS = st.builds(b"%b%b%b:%b%b%b".__mod__, st.tuples(SPACE, st.sampled_from(KEYS), SPACE, SPACE, VALUES, SPACE))
OBJECTS = st.lists(MEMBERS, max_size=4).map(lambda members: b"{" + b",".join(members) + b"}")
SOUND_STRINGS = [text for text in STRINGS if by_us(b'{"model":%b}' % text) is not None]
SOUND = st.lists(
    st.sampled_from([b"%b : %b" % (key, text) for key in KEYS for text in SOUND_STRINGS])
    | st.sampled_from([b'"a":{"model":"b"}', b'"a" : [ {"b":[]}, -1.5e9 , null ]', b'"a":"model"', b'"a":{}']),
    max_size=5,
).map(lambda members: b" { " + b" ,\n".join(members) + b" } ")
BODIES = SOUND | OBJECTS | st.lists(TOKENS, max_size=8).map(b"".join) | st.tuples(OBJECTS, TOKENS).map(b"".join)


@settings(max_examples=300)
@given(BODIES)
@example(b"")
@example(b" ")
@example(b"{}")
@example(b'{"model":"a","model":"b"}')
@example(b'{"model":1,"model":"b"}')
@example(b'{"model":"a"} x')
@example(b'{"model":"\xff","model":"b"}')
@example(b'\xef\xbb\xbf{"model":"a"}')
@example(b'{"a":1,"model":"b",}')
@example(b'{"a":[1,],"model":"b"}')
@example(b'{"a":{"model":"c"},"model":"b","d":[{"model":"e"}]}')
def test_a_whole_body_gives_what_msgspec_reads_or_is_refused_by_both(body: bytes) -> None:
    assert by_us(body) == by_msgspec(body)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
def test_a_name_comes_out_as_it_was_encoded(name: str, ascii_only: bool) -> None:
    body = json.dumps({"messages": [], "model": name}, ensure_ascii=ascii_only).encode()
    assert model_in(body, True) == name


@given(SOUND)
def test_a_sound_body_is_refused_at_no_cut_and_gives_the_last_model_that_ends_before_it(body: bytes) -> None:
    found = None
    for cut in range(len(body) + 1):
        found = by_msgspec(body[:cut] + b"}") or found
        assert model_in(body[:cut], False) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", None),
        (b" ", None),
        (b"{", None),
        (b'{"model"', None),
        (b'{"model":', None),
        (b'{"model":"a', None),
        (b'{"model":"a\\', None),
        (b'{"model":"a\\u12', None),
        (b'{"model":"a"', "a"),
        (b'{"model":"a","model":"b', "a"),
        (b'{"a":{"model":"b"},"c":"model":', None),
        (b'{"model":"a","b":"\\ud83d', "a"),
        (b'{"model":"a","b":"\\ud83d\\', "a"),
        (b'{"model":"a","b":-', "a"),
        (b'{"model":"a","b":1e', "a"),
        (b'{"model":"a","b":tr', "a"),
        (b'{"model":"a","b":[[[{"c":', "a"),
        (b'{"model":"a"}\n', "a"),
    ],
)
def test_a_cut_body_gives_what_ends_before_the_cut(body: bytes, found: str | None) -> None:
    assert by_us(body, whole=False) == found
    assert by_us(body) == (found if body.endswith(b"}\n") else None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "expected more, but the bytes end (byte 0)"),
        (b'{"model":"a"', "expected more, but the bytes end (byte 12)"),
        (b"[1]", "expected an object (byte 0)"),
        (b"{1:2}", "expected a key in quotes or } (byte 1)"),
        (b'{"a":1,}', "expected a key in quotes (byte 7)"),
        (b'{"a" 1}', "expected a colon (byte 5)"),
        (b'{"a":}', "expected a value (byte 5)"),
        (b'{"a":[1,]}', "expected a value (byte 8)"),
        (b'{"a":1 "b"}', "expected a comma or } (byte 7)"),
        (b'{"a":[1 2]}', "expected a comma or ] (byte 8)"),
        (b'{"a":[1}', "expected a comma or ] (byte 7)"),
        (b'{"a":nil}', "expected a value (byte 5)"),
        (b'{"a":01}', "expected no digit behind a leading 0 (byte 5)"),
        (b'{"a":1.}', "expected a digit (byte 7)"),
        (b'{"a":"\n"}', "expected no control character within a string (byte 6)"),
        (b'{"a":"\\x"}', "expected an escape of JSON (byte 7)"),
        (b'{"a":"\\u00zz"}', "expected four hexadecimal digits (byte 7)"),
        (b'{"a":"\\udc00"}', "expected no second half of a surrogate pair alone (byte 12)"),
        (b'{"a":"\\ud83d!!"}', "expected the second half of a surrogate pair (byte 12)"),
        (b"{} {}", "expected nothing more (byte 3)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(body: bytes, said: str) -> None:
    assert refusal(body) == said


def test_a_fault_before_the_cut_is_one_in_a_cut_body_too() -> None:
    assert refusal(b'{"model":"a",]', whole=False) == "expected a key in quotes (byte 13)"


@pytest.mark.parametrize("value", [b"1", b"null", b"true", b"[", b"{", b'{"model":"a"}', b"x"])
def test_a_model_that_is_no_string_is_told_from_what_is_no_json(value: bytes) -> None:
    for body in (b'{"model":%b' % value, b'{"model":"a","model": %b}' % value):
        with pytest.raises(TypeError, match="expected a string"):
            model_in(body, False)


def test_a_name_that_is_not_utf8_is_told_apart_too() -> None:
    with pytest.raises(UnicodeDecodeError):
        model_in(b'{"model":"\xff"}', True)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_bounded_and_not_by_the_stack(opening: bytes, closing: bytes) -> None:
    deepest = b'{"model":"m","a":%b1%b}' % (opening * 1023, closing * 1023)
    assert by_us(deepest) == "m"
    too_deep = b'{"model":"m","a":%b' % (opening * 1_000_000)
    assert "at most 1024 levels" in refusal(too_deep, whole=False)


@pytest.mark.parametrize("length", range(40))
def test_a_string_of_any_length_ends_where_it_ends(length: int) -> None:
    for byte, expected in ((b'"', "b"), (b"\x1f", None), (b"\x00", None), (b"\\", None), (b" ", None)):
        for plain in (b"x", b"\xff", b"\x7f", b"!", b"#", b"[", b"]", b" "):
            body = b'{"a":"%b%b,"model":"b"}' % (plain * length, byte)
            assert by_us(body) == by_msgspec(body) == expected, (plain, byte)


@pytest.mark.parametrize("wrong", [None, "{}", bytearray(b"{}")])
def test_a_body_is_bytes(wrong: object) -> None:
    with pytest.raises(TypeError):
        model_in(wrong, True)  # type: ignore[arg-type]
