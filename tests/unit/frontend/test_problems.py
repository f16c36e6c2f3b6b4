"""Each error as its caller sees it: the status, OpenAI's shape, and nothing of the pools' addresses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gdsvc.asgi.body import BodyTooLarge, BodyTooSlow, Disconnected
from gdsvc.asgi.responses import Response
from gdsvc.errors import GdsvcError, LimitReached, Unavailable
from gdsvc.frontend import problems
from gdsvc.frontend.model_name import BadBody, BadModel
from gdsvc.frontend.problems import (
    MOST_SHOWN,
    Looped,
    NoAnswer,
    NoModels,
    NoPool,
    NotAllowed,
    NoUpgrade,
    Redirected,
    UnknownPath,
    internal,
    problem,
)
from gdsvc.frontend.selection import Refused
from gdsvc.frontend.upstream import Cause, Origin, Unsendable, UpstreamFailed
from gdsvc.frontend.upstream.failures import Closed

POOL = "pool-v1-2d83"


def told(response: Response) -> dict[str, Any]:
    body = json.loads(response.body)
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    assert dict(response.headers)[b"content-type"] == b"application/json"
    error: dict[str, Any] = body["error"]
    return error


def every_error() -> Iterator[tuple[GdsvcError, int, str]]:
    yield BadBody("x"), 400, "invalid_json"
    yield BadModel("x"), 400, "invalid_model"
    yield Disconnected("x"), 400, "incomplete_body"
    yield Unsendable("x"), 400, "invalid_request"
    yield NoPool(Refused.UNKNOWN_MODEL, "m"), 404, "model_not_found"
    yield UnknownPath(), 404, "unknown_url"
    yield NotAllowed("POST"), 405, "method_not_allowed"
    yield BodyTooSlow("x"), 408, "request_timeout"
    yield BodyTooLarge(1), 413, "request_too_large"
    yield NoUpgrade(), 501, "upgrade_not_offered"
    yield Redirected(POOL, 307), 502, "upstream_redirected"
    for cause in Cause:
        expected = (503, "overloaded") if cause is Cause.NO_ROOM else (502, "upstream_failed")
        yield NoAnswer(POOL, cause), *expected
        yield UpstreamFailed(cause, Origin.of("http://10.0.0.9:80"), "x"), *expected
    for refused in set(Refused) - {Refused.UNKNOWN_MODEL}:
        yield NoPool(refused, "m"), 503, "no_pool_available"
    yield NoModels(), 503, "no_pool_available"
    yield LimitReached("x", 1), 503, "overloaded"
    yield Unavailable("x", 1), 503, "overloaded"
    yield Closed(), 503, "shutting_down"
    yield Looped(), 508, "loop_detected"


@pytest.mark.parametrize(("error", "status", "code"), list(every_error()), ids=lambda value: str(value)[:60])
def test_an_error_has_its_status_in_the_shape_that_clients_of_openai_read(
    error: GdsvcError, status: int, code: str
) -> None:
    response = problem(error)
    said = told(response)
    assert (response.status, said["code"]) == (status, code)
    assert said["type"] == ("invalid_request_error" if status < 500 else "server_error")
    assert said["param"] == ("model" if "model" in code else None)
    assert said["message"]
    assert (b"retry-after" in dict(response.headers)) is (status == 503)


def test_every_row_of_the_table_is_reached() -> None:
    assert {(status, code) for _, status, code in every_error()} == {(row[1], row[2]) for row in problems.TABLE}


def test_a_limit_says_when_to_come_back() -> None:
    assert (b"retry-after", b"7") in problem(LimitReached("x", 7)).headers
    assert (b"retry-after", b"5") in problem(NoPool(Refused.NOT_KNOWN_YET, "m")).headers


def test_a_method_that_is_not_allowed_is_told_those_that_are() -> None:
    assert (b"allow", b"GET, HEAD") in problem(NotAllowed("GET, HEAD")).headers


def test_a_connection_whose_body_stands_still_is_closed() -> None:
    assert (b"connection", b"close") in problem(BodyTooSlow("x")).headers


@pytest.mark.parametrize("cause", Cause)
def test_no_address_of_a_pool_is_told(cause: Cause) -> None:
    failed = UpstreamFailed(cause, Origin.of("http://10.0.0.9:8123"), "detail of 10.0.0.9")
    said = told(problem(failed))["message"]
    assert "10.0.0.9" not in said
    assert problems.CAUSES[cause] in said
    assert problems.CAUSES[cause] in told(problem(NoAnswer(POOL, cause)))["message"]
    assert POOL in told(problem(NoAnswer(POOL, cause)))["message"]


@pytest.mark.parametrize("refused", Refused)
def test_who_asks_for_a_model_is_told_which_and_why_not(refused: Refused) -> None:
    said = told(problem(NoPool(refused, "org/model-7b")))["message"]
    assert "'org/model-7b'" in said
    assert refused.value in said


@pytest.mark.parametrize(
    "name", ["m" * 10_000_000, "池" * 500, "\x00\x1b[31m\r\n\u202e\u2028\x85" * 50, "\ud800", "'\"\\"]
)
def test_a_hostile_model_is_shown_cut_and_with_what_is_not_printable_escaped(name: str) -> None:
    response = problem(NoPool(Refused.UNKNOWN_MODEL, name))
    said = told(response)["message"]
    assert said.isprintable()
    assert len(response.body) < 20 * MOST_SHOWN


def test_a_name_is_shown_whole_up_to_the_bound() -> None:
    for length, is_whole in ((MOST_SHOWN, True), (MOST_SHOWN + 1, False)):
        said = told(problem(NoPool(Refused.UNKNOWN_MODEL, "m" * length)))["message"]
        assert ("'" + "m" * length + "'" in said) is is_whole
        assert "m" * MOST_SHOWN in said


class Unforeseen(GdsvcError):
    """None of the table."""


def test_what_nobody_foresaw_is_a_500_that_tells_nothing() -> None:
    for response in (problem(Unforeseen("a secret")), internal()):
        assert response.status == 500
        assert told(response) == {
            "message": "internal error; it has been logged",
            "type": "server_error",
            "param": None,
            "code": "internal_error",
        }
