"""What is made of answers that somebody else wrote."""

import pytest

from gdsvc.client.answer import MOST_MESSAGE_CHARACTERS, Answer


def answer(body: bytes, **headers: str) -> Answer:
    return Answer(503, {name.replace("_", "-"): value for name, value in headers.items()}, body, "http://gds")


def test_the_services_own_sentence_is_the_message() -> None:
    assert answer(b'{"error":{"message":"not yet","field":"$"}}').message == "not yet"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b'{"error":{"message":7}}', b"\xff", b"[" * 100_000, b'{"error":{"message":""}}']
)
def test_without_one_the_status_is(body: bytes) -> None:
    assert answer(body).message == "status 503"


def test_a_message_is_one_harmless_line() -> None:
    message = answer(b'{"error":{"message":"a\\nb\\u001b[31m\\u202ec"}}').message
    assert message == "a b [31m c"
    assert len(answer(b'{"error":{"message":"%s"}}' % (b"x" * 10_000)).message) == MOST_MESSAGE_CHARACTERS + 1


@pytest.mark.parametrize(
    ("value", "secs"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 10, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_seconds(value: str, secs: float | None) -> None:
    assert answer(b"", retry_after=value).retry_after_secs == secs


def test_no_retry_after_is_none() -> None:
    assert answer(b"").retry_after_secs is None
