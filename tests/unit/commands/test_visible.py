"""What a terminal gets to see of texts that strangers wrote."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.commands.keys import read_key
from gdsvc.commands.visible import MOST_CHARACTERS, excerpt, json_text, key_text, visible
from gdsvc.errors import Invalid
from gdsvc.model import PoolKey

HOSTILE = ["\x1b[2J", "\x9b31m", "a\nb", "\u202eevil", "\u2066x\u2069", "zero\u200bwidth", "\x07", "a\x00b", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_obeys_or_hides_becomes_an_escape(text: str) -> None:
    assert visible(text).isprintable()
    assert visible(text) != text


@pytest.mark.parametrize("filler", "\u034f\u115f\u2800\u3164\ufe0f\uffa0\U000e0100\U000e0041")
def test_two_names_that_look_the_same_are_shown_apart(filler: str) -> None:
    lookalike = f"mocker-1{filler}"
    assert visible(lookalike) == "mocker-1" + filler.encode("unicode_escape").decode()
    assert key_text("s", "n", lookalike).isascii()
    assert read_key(key_text("s", "n", lookalike)) == PoolKey("s", "n", lookalike)
    assert json_text(json.dumps(lookalike, ensure_ascii=False).encode()).isascii()


@pytest.mark.parametrize("text", ["plain", "[bold]markup[/]", "Größe", "模型", "a b", "\\x1b", "🙂", ""])
def test_a_printable_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_the_escapes_are_those_that_people_know() -> None:
    assert visible("\x1b[31m\u202e\n") == "\\x1b[31m\\u202e\\n"


@given(st.text())
def test_no_text_at_all_gets_a_control_character_through(text: str) -> None:
    assert visible(text).isprintable()
    assert excerpt(text).isprintable()
    assert len(excerpt(text)) <= MOST_CHARACTERS


def test_a_long_text_is_cut_and_says_so() -> None:
    assert excerpt("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS
    assert excerpt("x" * (MOST_CHARACTERS + 1)) == "x" * (MOST_CHARACTERS - 1) + "…"


# ------------------------------------------------------------------------------------------------------- keys

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names, names, names)
def test_a_shown_key_reads_back_as_itself(site_id: str, namespace: str, dgd_name: str) -> None:
    try:
        key = PoolKey(site_id, namespace, dgd_name)
    except Invalid:
        return
    shown = key_text(site_id, namespace, dgd_name)
    assert read_key(shown) == key
    assert shown.isprintable()
    if shown.isascii():
        assert shlex.split(shown) == [shown]


@pytest.mark.parametrize(
    "hostile", ["$(reboot)", "a;b", "`id`", "~root", "-rf", "*", "a b", "'", '"', "%41", "a/b", "=x"]
)
def test_a_shown_key_is_safe_to_paste_into_a_shell(hostile: str) -> None:
    shown = key_text(hostile, "n", "d")
    assert shlex.quote(shown.replace("%", "")) == shown.replace("%", "")
    assert not shown.startswith("-")
    assert read_key(shown).site_id == hostile


def test_an_ordinary_key_is_shown_as_it_is() -> None:
    assert key_text("ohio", "dynamo", "qwen3-32b_v1.5") == "ohio/dynamo/qwen3-32b_v1.5"


# ------------------------------------------------------------------------------------------------------- JSON


@given(st.dictionaries(st.text(), st.text()))
def test_json_for_a_terminal_is_the_same_document(document: dict[str, str]) -> None:
    body = json.dumps(document).encode()
    raw = json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass")
    assert json.loads(json_text(body)) == document
    shown = json_text(raw).decode()
    assert shown.isprintable()


def test_json_without_hostile_characters_is_not_touched() -> None:
    body = '{"model": "模型 Größe",\n"n": [1, 2.5e3]}'.encode()
    assert json_text(body) == body


def test_json_escapes_what_is_not_printable_also_outside_the_first_plane() -> None:
    body = '{"a":"\u202e\x9b\x7f\U000e0041"}'.encode()
    assert json_text(body) == b'{"a":"\\u202e\\u009b\\u007f\\udb40\\udc41"}'
