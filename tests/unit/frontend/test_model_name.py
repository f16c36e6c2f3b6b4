"""Which model a request asks for, and what is said where that cannot be told."""

import pytest

from gdsvc.frontend.model_name import MOST_NAME_BYTES, BadBody, BadModel, model_of


def body_for(name: str) -> bytes:
    return b'{"messages":[],"model":"%b"}' % name.encode()


@pytest.mark.parametrize("whole", [True, False])
def test_the_model_is_found_whether_or_not_all_of_the_body_is_there(whole: bool) -> None:
    assert model_of(body_for("org/model-7b"), whole=whole) == "org/model-7b"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is no JSON object: expected more, but the bytes end (byte 0)"),
        (b"model=a", "the body is no JSON object: expected an object (byte 0)"),
        (b'{"model":"\xff"}', "the body is no JSON: model is no UTF-8"),
    ],
)
def test_what_is_no_json_is_refused_with_its_fault(body: bytes, said: str) -> None:
    with pytest.raises(BadBody) as caught:
        model_of(body, whole=True)
    assert not isinstance(caught.value, BadModel)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("body", "whole", "said"),
    [
        (b"{}", True, "the body names no model"),
        (b'{"messages":["', False, "the first 14 bytes of the body name no model"),
        (b'{"model":""}', True, "model: expected a name, not an empty string"),
        (b'{"model":null}', True, "model: expected a string"),
    ],
)
def test_json_without_a_model_is_refused_for_that(body: bytes, whole: bool, said: str) -> None:
    with pytest.raises(BadModel) as caught:
        model_of(body, whole=whole)
    assert str(caught.value) == said


@pytest.mark.parametrize("letter", ["m", "é", "池"])
def test_a_name_is_bounded_in_bytes(letter: str) -> None:
    longest = letter * (MOST_NAME_BYTES // len(letter.encode()))
    assert model_of(body_for(longest), whole=True) == longest
    with pytest.raises(BadModel, match="at most 1024 bytes"):
        model_of(body_for(longest + letter), whole=True)


def test_a_name_of_megabytes_is_refused_without_being_shown() -> None:
    with pytest.raises(BadModel) as caught:
        model_of(body_for("m" * 2_000_000), whole=True)
    assert len(str(caught.value)) < 100
