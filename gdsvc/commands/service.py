"""The service as the commands see it: options from a command line, answers checked, everything else a failure.

Decides what is refused and what is no discovery service; the HTTP itself is the client library's.
"""

import email.utils
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar

from gdsvc.client import Answer, ClientError, DiscoveryApi, InvalidOptions, Options
from gdsvc.commands.arguments import Connection
from gdsvc.commands.documents import ProblemBody, decode
from gdsvc.commands.failures import NoService, Refused, Usage
from gdsvc.commands.visible import sentence
from gdsvc.errors import GdsvcError

MOST_TOKEN_BYTES: Final = 64 * 1024
CONNECT_SECS: Final = 5.0  # a network that needs longer is as good as down to who waits at a terminal
TRUSTED_SKEW_SECS: Final = 2.0  # clocks this close are one: Date counts whole seconds, and the answer took a moment
_LABELS: Final = {
    "urls": "--url",
    "ca_path": "--ca-path",
    "client_cert_path": "--client-cert-path",
    "client_key_path": "--client-key-path",
    "token": "the token of --token-file or GDSVC_TOKEN",
}

T = TypeVar("T")


def options_of(connection: Connection) -> Options:
    """The client's options. Raises Usage where a URL is none, or the token cannot be read."""
    token = _token(connection)
    try:
        if token is not None:
            token()  # a file that is not there is said at once, and before anything is sent
        return Options(
            urls=connection.urls,
            ca_path=connection.ca_path,
            client_cert_path=connection.client_cert_path,
            client_key_path=connection.client_key_path,
            token=token,
            connect_timeout_secs=min(CONNECT_SECS, connection.timeout_secs),
            request_timeout_secs=connection.timeout_secs,
        )
    except InvalidOptions as fault:
        raise usage(fault) from None
    except OSError as error:
        raise Usage(f"--token-file: {error.strerror or 'cannot be read'}") from None
    except ValueError:
        raise Usage("--token-file: expected a file that holds a token") from None


def usage(fault: InvalidOptions) -> Usage:
    """The client's complaint in the words of the command line."""
    expectation = str(fault).removeprefix(f"{fault.option}: ")
    return Usage(f"{_LABELS.get(fault.option, fault.option)}: {expectation}")


async def ask(
    api: DiscoveryApi, method: str, path: str, query: Sequence[tuple[str, str]] = (), body: bytes | None = None
) -> Answer:
    """The answer to one request, its status 2xx. Raises Refused, NoService, Usage."""
    try:
        answer = await api.request(method, path, query=query, body=body)
    except InvalidOptions as fault:
        raise usage(fault) from None
    except ClientError as error:
        raise NoService(f"{error} (--url or GDSVC_URL names another)") from None
    if not 200 <= answer.status < 300:
        raise failure(answer)
    return answer


def failure(answer: Answer) -> GdsvcError:
    """What an answer other than 2xx means."""
    problem = decode(answer.body, ProblemBody)
    status = f"{answer.status} {_phrase(answer.status)}".rstrip()
    if answer.status in (401, 403):
        return Refused(f"{answer.url} answered {status}: a token may be missing or wrong (--token-file, GDSVC_TOKEN)")
    if problem is None:
        return NoService(f"{answer.url} answered {status}, but not as a discovery service does")
    said = f"{answer.url}: {sentence(problem.error.message)} ({answer.status})"
    return Refused(said) if answer.status < 500 else NoService(said)


def read(answer: Answer, kind: type[T]) -> T:
    """The document in an answer. Raises NoService where it is another one."""
    document = decode(answer.body, kind)
    if document is None:
        raise NoService(
            f"{answer.url} answered, but not as a discovery service does (--url or GDSVC_URL names another)"
        )
    return document


def time_there(answer: Answer, now: float) -> float:
    """The service's own time when it answered: ours where both agree, else what its Date header says."""
    try:
        there = email.utils.parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return now
    return now if abs(now - there) <= TRUSTED_SKEW_SECS else there


def _token(connection: Connection) -> Callable[[], str | None] | None:
    if connection.token is not None:
        return lambda: connection.token
    path = connection.token_path
    return None if path is None else lambda: _read_token(path)


def _read_token(path: Path) -> str:
    """The token without the white space around it. Raises OSError, ValueError; neither quotes the file."""
    with path.open("rb") as file:
        content = file.read(MOST_TOKEN_BYTES + 1)
    token = content.decode("ascii").strip()
    if not token or len(content) > MOST_TOKEN_BYTES:
        raise ValueError("no token")
    return token


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
