"""What came of asking several URLs: which answer is good enough, and the sentence for each that gave none."""

import os
import ssl
from typing import Final, NoReturn

import aiohttp

from gdsvc.client.answer import Answer, harmless
from gdsvc.client.errors import NotDiscovery, Unreachable
from gdsvc.errors import GdsvcError

TRY_ANOTHER: Final = frozenset({429, 500, 502, 503, 504})  # another replica, or what stands before it, may do better


class Foreign(GdsvcError):
    """What answered is no discovery service; the text says by what one sees it."""


class NoToken(GdsvcError):
    """The caller's token function failed. Its own text may hold a secret and is left out."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the token function failed ({type(error).__name__})")


# UnicodeError: a host name with a label that is too long. ClientError covers what is no HTTP.
FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError, UnicodeError, Foreign, NoToken)


class Attempts:
    """One request's way along the URLs."""

    def __init__(self) -> None:
        self._reasons: list[tuple[str, str]] = []
        self._foreign = False
        self._fallback: Answer | None = None

    def failed(self, url: str, error: BaseException) -> None:
        """`url` gave no answer: `error` is one of FAILURES."""
        self._reasons.append((url, reason(error)))
        self._foreign = self._foreign or isinstance(error, (Foreign, aiohttp.ClientResponseError))

    def take(self, answer: Answer) -> bool:
        """Whether to ask nobody else; where another URL may do better, `answer` is kept for the end."""
        if answer.status not in TRY_ANOTHER and not answer.unrouted:
            return True
        if self._fallback is None or (self._fallback.unrouted and not answer.unrouted):
            self._fallback = answer
        return False

    def best(self) -> Answer:
        """The first answer that was kept, a service's own before a proxy's. Raises NotDiscovery, Unreachable."""
        if self._fallback is None:
            self._raise()
        return self._fallback

    def _raise(self) -> NoReturn:
        raise (NotDiscovery if self._foreign else Unreachable)(self._reasons)


def check_discovery(answer: Answer) -> None:
    """Raises Foreign for what no discovery service answers: redirects and web pages."""
    if 300 <= answer.status < 400 and answer.status != 304:
        raise Foreign(f"it redirects elsewhere (status {answer.status})")
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/html":
        raise Foreign(f"it answers with a web page (status {answer.status})")


_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, "no answer in time"),  # aiohttp's own are of this kind, too
    (UnicodeError, "its host is no name"),
    (aiohttp.ClientConnectorDNSError, "its host name is not known"),
    (aiohttp.ClientResponseError, "it does not speak HTTP"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "the answer broke off"),
)


def reason(error: BaseException) -> str:
    """What happened, in a few words without a secret, the same each time it happens."""
    for kind, sentence in _SENTENCES:
        if isinstance(error, kind):
            return sentence
    cause = _cause(error)
    match cause:
        case Foreign() | NoToken():
            return str(cause)
        case ssl.SSLError():
            return _tls_reason(cause)
        case OSError() if cause.errno:
            return os.strerror(cause.errno).lower()
        case _:
            return f"the connection failed ({type(cause).__name__})"


def _cause(error: BaseException) -> BaseException:
    """What aiohttp has wrapped."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return error.certificate_error
        case aiohttp.ClientConnectorError():
            return error.os_error
        case aiohttp.ClientOSError() if isinstance(error.__cause__, ssl.SSLError):
            return error.__cause__  # an alert after the handshake, such as that a client certificate is missing
        case _:
            return error


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return harmless(f"its certificate is not trusted ({error.verify_message})")
    return harmless(f"TLS failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})")
