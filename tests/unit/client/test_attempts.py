"""Which answer of several URLs counts, and the sentences for those that gave none."""

import errno
import ssl

import aiohttp
import pytest

from gdsvc.client import Answer, NotDiscovery, Unreachable
from gdsvc.client.attempts import Attempts, Foreign, NoToken, check_discovery, reason

A, B = "http://a", "http://b"
WORDED = b'{"error":{"message":"as a service says it"}}'


def answer(status: int, url: str = A, content_type: str = "application/json", body: bytes = WORDED) -> Answer:
    return Answer(status, {"content-type": content_type}, body, url)


def tls_error(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "a text with numbers in it")
    error.reason = name
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TimeoutError(), "no answer in time"),
        (aiohttp.SocketTimeoutError(), "no answer in time"),
        (aiohttp.ConnectionTimeoutError(), "no answer in time"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "no answer in time"),
        (UnicodeError("label too long"), "its host is no name"),
        (aiohttp.ServerDisconnectedError(), "it closed the connection without an answer"),
        (aiohttp.ClientPayloadError("x"), "the answer broke off"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.1', 80)"), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer"),
        (OSError("no number"), "the connection failed (OSError)"),
        (aiohttp.ClientError("a secret"), "the connection failed (ClientError)"),
        (tls_error("WRONG_VERSION_NUMBER"), "TLS failed (wrong version number)"),
        (
            caused(aiohttp.ClientOSError(1, "x"), tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED")),
            "TLS failed (tlsv13 alert certificate required)",
        ),
        (NoToken(OSError("a secret")), "the token function failed (OSError)"),
        (Foreign("it answers with a web page"), "it answers with a web page"),
    ],
)
def test_each_failure_has_its_sentence_and_no_secret(error: Exception, sentence: str) -> None:
    assert reason(error) == sentence


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_answer_that_another_url_may_better_is_kept_for_the_end(status: int) -> None:
    attempts = Attempts()
    assert not attempts.take(answer(status, A))
    assert not attempts.take(answer(503, B))
    attempts.failed("http://c", TimeoutError())
    assert attempts.best() == answer(status, A)


@pytest.mark.parametrize("status", [200, 204, 304, 400, 401, 404, 405, 409, 413, 415, 422, 501])
def test_every_other_answer_is_final(status: int) -> None:
    assert Attempts().take(answer(status))


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("body", [b"", b"default backend - 404", b"{}", b'{"error":"no route"}', b"\xff"])
def test_a_404_or_405_that_no_service_worded_leads_to_the_next_url(status: int, body: bytes) -> None:
    attempts = Attempts()
    assert not attempts.take(answer(status, A, body=body))
    assert attempts.best() == answer(status, A, body=body)
    assert attempts.take(answer(status, B))


def test_of_the_answers_that_were_kept_a_services_own_goes_before_a_proxys() -> None:
    attempts = Attempts()
    attempts.take(answer(404, A, body=b""))
    attempts.take(answer(503, B))
    attempts.take(answer(404, "http://c", body=b""))
    assert attempts.best() == answer(503, B)


def test_where_none_answered_every_url_is_named() -> None:
    attempts = Attempts()
    attempts.failed(A, TimeoutError())
    attempts.failed(B, ConnectionRefusedError(errno.ECONNREFUSED, "x"))
    with pytest.raises(Unreachable) as unreachable:
        attempts.best()
    assert unreachable.value.reasons == ((A, "no answer in time"), (B, "connection refused"))
    assert str(unreachable.value) == f"no discovery service answered: {A}: no answer in time; {B}: connection refused"


def test_where_something_else_answered_that_is_said() -> None:
    attempts = Attempts()
    attempts.failed(A, TimeoutError())
    attempts.failed(B, Foreign("it answers with a web page"))
    with pytest.raises(NotDiscovery):
        attempts.best()


@pytest.mark.parametrize(
    ("status", "content_type"),
    [(301, "application/json"), (307, ""), (200, "text/html"), (404, "Text/HTML; charset=x")],
)
def test_redirects_and_web_pages_are_foreign(status: int, content_type: str) -> None:
    with pytest.raises(Foreign):
        check_discovery(answer(status, content_type=content_type))


@pytest.mark.parametrize(("status", "content_type"), [(304, ""), (200, "text/plain"), (422, "text/plain"), (204, "")])
def test_what_a_service_may_say_is_not(status: int, content_type: str) -> None:
    check_discovery(answer(status, content_type=content_type))
