"""Which status, body and headers an error becomes."""

import json

import pytest

from gdsvc import errors
from gdsvc.asgi import body as asgi_body
from gdsvc.asgi import heads
from gdsvc.asgi.body import BodyTooLarge, BodyTooSlow
from gdsvc.errors import Conflict, GdsvcError, Invalid, LimitReached, NotFound, NotJson, Unavailable
from gdsvc.http import problems
from gdsvc.http.problems import STATUSES, BadRequest, MethodNotAllowed, UnsupportedMediaType, internal_problem, problem

EXPECTED: list[tuple[GdsvcError, int, dict[str, str]]] = [
    (BadRequest("m"), 400, {}),
    (BadRequest("m", closes=True), 400, {"connection": "close"}),
    (NotJson("m"), 400, {}),
    (NotFound("m"), 404, {}),
    (MethodNotAllowed("GET, HEAD"), 405, {"allow": "GET, HEAD"}),
    (BodyTooSlow("m"), 408, {"connection": "close"}),
    (Conflict("m"), 409, {}),
    (BodyTooLarge(7), 413, {}),
    (UnsupportedMediaType("m"), 415, {}),
    (Invalid("expected x", "$.a"), 422, {}),
    (LimitReached("m", 5), 429, {"retry-after": "5"}),
    (Unavailable("m", 3), 503, {"retry-after": "3"}),
]


@pytest.mark.parametrize(("error", "status", "headers"), EXPECTED, ids=lambda value: type(value).__name__)
def test_every_error_has_its_status_message_and_headers(
    error: GdsvcError, status: int, headers: dict[str, str]
) -> None:
    response = problem(error)
    assert response.status == status
    framing = {"content-type": "application/json", "content-length": str(len(response.body))}
    assert {name.decode(): value.decode() for name, value in response.headers} == headers | framing
    assert json.loads(response.body)["error"]["message"] == str(error)


def test_the_field_is_named_where_one_is_known_and_absent_elsewhere() -> None:
    assert json.loads(problem(Invalid("expected a string", "$.key.site_id")).body) == {
        "error": {"message": "$.key.site_id: expected a string", "field": "$.key.site_id"}
    }
    assert json.loads(problem(NotJson("no JSON")).body) == {"error": {"message": "no JSON"}}


def test_an_internal_error_tells_nothing_of_itself() -> None:
    response = internal_problem()
    assert (response.status, json.loads(response.body)) == (
        500,
        {"error": {"message": "internal error; it has been logged"}},
    )


def test_the_table_has_every_error_that_is_raised_on_purpose() -> None:
    def leaves(kind: type[GdsvcError]) -> set[type[GdsvcError]]:
        below = kind.__subclasses__()
        return set().union(*map(leaves, below)) if below else {kind}

    known = (errors.__name__, problems.__name__, asgi_body.__name__, heads.__name__)
    to_answer = {kind for kind in leaves(GdsvcError) if kind.__module__ in known} - {asgi_body.Disconnected}
    assert to_answer == {kind for kind, _ in STATUSES}


def test_messages_that_hold_what_a_caller_wrote_stay_json() -> None:
    awkward = 'a"b\\c\u2028\x00\N{GRINNING FACE}'
    assert json.loads(problem(Invalid(awkward, "$")).body)["error"]["message"] == f"$: {awkward}"
