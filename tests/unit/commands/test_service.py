"""What answers mean, where tokens come from, and whose clock counts."""

import email.utils
from pathlib import Path

import msgspec
import pytest

from gdsvc.client import Answer
from gdsvc.commands.arguments import Connection
from gdsvc.commands.documents import PoolList
from gdsvc.commands.failures import NoService, Refused, Usage, exit_code
from gdsvc.commands.service import failure, options_of, read, time_there

HERE = "http://127.0.0.1:8080"
PROBLEM = b'{"error":{"message":"no such pool is registered"}}'
PLAIN = Connection(
    urls=(HERE,),
    ca_path=None,
    client_cert_path=None,
    client_key_path=None,
    token=None,
    token_path=None,
    timeout_secs=3.0,
)


def answer(status: int, body: bytes = PROBLEM, **headers: str) -> Answer:
    return Answer(status, headers, body, HERE)


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, PROBLEM, Refused, 1),
        (409, PROBLEM, Refused, 1),
        (422, PROBLEM, Refused, 1),
        (429, PROBLEM, Refused, 1),
        (401, b"", Refused, 1),
        (403, b"<html>", Refused, 1),
        (503, PROBLEM, NoService, 3),
        (500, PROBLEM, NoService, 3),
        (404, b'{"detail":"Not Found"}', NoService, 3),
        (404, b"", NoService, 3),
        (302, b"", NoService, 3),
        (799, b"", NoService, 3),
    ],
)
def test_a_status_is_refusal_or_no_service(status: int, body: bytes, kind: type, code: int) -> None:
    error = failure(answer(status, body))
    assert type(error) is kind
    assert exit_code(error) == code
    assert str(status) in str(error)


@pytest.mark.parametrize(
    "piece", [b'"\xff"', b'"\\ud800"', b'{"key":"\xc3"}', b"9" * 5000, b"1e999", b"[" * 5000, b'{"key":{"site_id":7}}']
)
def test_a_list_of_nonsense_is_no_list(piece: bytes) -> None:
    with pytest.raises(NoService):
        read(answer(200, b'{"complete":true,"pools":[' + piece + b"]}"), PoolList)


def test_a_refusal_says_what_the_service_says() -> None:
    assert str(failure(answer(404))) == f"{HERE}: no such pool is registered (404)"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"pools":[]}', b'{"complete":1,"pools":[]}', b"<html>", b"[" * 100_000]
)
def test_an_answer_that_is_no_list_is_no_service(body: bytes) -> None:
    with pytest.raises(NoService, match="not as a discovery service does"):
        read(answer(200, body), PoolList)


def test_members_that_are_not_known_are_no_fault() -> None:
    body = b'{"complete":true,"pools":[{"key":{"site_id":"a","namespace":"b","dgd_name":"c","x":1},"y":2}],"z":3}'
    assert len(read(answer(200, body), PoolList).pools) == 1


def test_a_long_story_of_a_service_is_cut() -> None:
    body = b'{"error":{"message":"' + b"x" * 1_000_000 + b'"}}'
    assert len(str(failure(answer(404, body)))) < 1_100


# ----------------------------------------------------------------------------------------------------- options


def test_the_timeout_bounds_the_connecting_too() -> None:
    options = options_of(PLAIN)
    assert (options.connect_timeout_secs, options.request_timeout_secs) == (3.0, 3.0)
    options = options_of(msgspec.structs.replace(PLAIN, timeout_secs=60.0))
    assert (options.connect_timeout_secs, options.request_timeout_secs) == (5.0, 60.0)


@pytest.mark.parametrize(
    "url", ["", "ohio", "ftp://a", "http://", "http://user:s3cret@a", "http://a:99999", "http://a/?q"]
)
def test_what_is_no_url_is_wrong_usage_and_not_echoed(url: str) -> None:
    with pytest.raises(Usage, match="--url: expected") as caught:
        options_of(msgspec.structs.replace(PLAIN, urls=(url,)))
    assert "s3cret" not in str(caught.value)


def test_a_token_file_is_read_at_each_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    token = options_of(msgspec.structs.replace(PLAIN, token_path=path)).token
    assert token is not None
    assert token() == "first"
    path.write_text("second")
    assert token() == "second"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff", b"x" * 70_000])
def test_a_token_file_without_a_token_is_wrong_usage(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Usage, match="--token-file"):
        options_of(msgspec.structs.replace(PLAIN, token_path=path))


def test_without_a_token_none_is_sent() -> None:
    assert options_of(PLAIN).token is None


# ------------------------------------------------------------------------------------------------------- clocks


def dated(unix_secs: float) -> Answer:
    return answer(200, date=email.utils.formatdate(unix_secs, usegmt=True))


def test_clocks_that_agree_are_one() -> None:
    assert time_there(dated(1_000_000), 1_000_001.9) == 1_000_001.9


def test_where_clocks_differ_the_service_knows_its_own_time() -> None:
    assert time_there(dated(1_000_000), 1_000_060.0) == 1_000_000.0


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_without_a_date_our_clock_counts(date: str) -> None:
    assert time_there(answer(200, date=date), 5.0) == 5.0
    assert time_there(answer(200), 5.0) == 5.0
