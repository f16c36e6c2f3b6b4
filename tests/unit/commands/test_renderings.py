"""JSON as it came, and YAML of it."""

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.commands.renderings import Form, write_document, yaml_text
from gdsvc.commands.screen import Screen
from gdsvc.errors import NotJson

BODY = '{"complete":true, "pools":[{"model":"\u202e模型","n":18446744073709551615}]}'.encode()

documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def written(form: Form, body: bytes, width: int | None = None) -> bytes:
    stream = io.BytesIO()
    write_document(Screen(stream, width=width), form, body)
    return stream.getvalue()


def test_json_is_the_body_byte_for_byte_and_a_newline() -> None:
    assert written(Form.JSON, BODY) == BODY + b"\n"


def test_on_a_terminal_json_is_the_same_document_without_what_a_terminal_obeys() -> None:
    shown = written(Form.JSON, BODY, width=80)
    assert json.loads(shown) == json.loads(BODY)
    assert shown.decode().rstrip("\n").isprintable()


@pytest.mark.parametrize("form", [Form.JSON, Form.YAML])
def test_an_empty_body_writes_nothing(form: Form) -> None:
    assert written(form, b"") == b""


@given(documents)
def test_yaml_reads_back_as_the_same_document(document: Any) -> None:
    body = json.dumps(document).encode()
    try:
        text = yaml_text(body)
    except NotJson:  # lone surrogates
        return
    assert yaml.safe_load(text) == json.loads(body)
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_yaml_reads_back_the_same_whatever_the_encoding_of_the_output_lacks(encoding: str) -> None:
    stream = io.BytesIO()
    body = '{"模型":"東京 é"}'.encode()
    write_document(Screen(stream, encoding), Form.YAML, body)
    assert yaml.safe_load(stream.getvalue().decode(encoding)) == json.loads(body)


def test_yaml_keeps_the_order_of_members_and_the_letters_of_every_script() -> None:
    assert yaml_text('{"b":"模型","a":[],"no":"no"}'.encode()) == "b: 模型\na: []\n'no': 'no'\n"


def test_yaml_of_what_is_no_json_is_refused() -> None:
    with pytest.raises(NotJson):
        yaml_text(b"<html>")
