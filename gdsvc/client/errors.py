"""What can go wrong between a program and the discovery service. Every text is fit for a log: no token, one line."""

from collections.abc import Sequence

from gdsvc.client.answer import Answer
from gdsvc.errors import GdsvcError


class ClientError(GdsvcError):
    """Base of all that the client raises on purpose, save Unavailable and Invalid, which directories share."""


class InvalidOptions(ClientError, ValueError):
    """An option is not what was expected; `option` is its name."""

    def __init__(self, option: str, expectation: str) -> None:
        super().__init__(f"{option}: {expectation}")
        self.option = option


class _NoneAnswered(ClientError):
    """`reasons` holds (URL, what happened there) in the order tried."""

    said = ""

    def __init__(self, reasons: Sequence[tuple[str, str]]) -> None:
        super().__init__(f"{self.said}: " + "; ".join(f"{url}: {reason}" for url, reason in reasons))
        self.reasons = tuple(reasons)


class Unreachable(_NoneAnswered):
    """No URL answered."""

    said = "no discovery service answered"


class NotDiscovery(_NoneAnswered):
    """No URL is one of a discovery service, though something answered at one of them at least."""

    said = "what answered is no discovery service"


class Refused(ClientError):
    """The service answered a request for a stream with something else; `answer` is what it said."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.url} answered {answer.status}: {answer.message}")
        self.answer = answer


class StreamLost(ClientError):
    """A stream of events broke off, fell silent, or cannot be understood."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class EventTooLong(ClientError):
    """An event is longer than the reader is prepared to hold."""
