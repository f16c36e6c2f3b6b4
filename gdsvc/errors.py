"""Every error that gdsvc raises on purpose; the faces (HTTP, command line) turn them into text, nobody else does."""


class GdsvcError(Exception):
    """Base of all; `str(error)` is a sentence fit for the caller and holds no secret."""


class NotJson(GdsvcError):
    """The bytes are no JSON document."""


class Invalid(GdsvcError, ValueError):
    """Well-formed, but not what was expected.

    `field` is the path of the member at fault, such as `$.key.namespace` for a decoded document, or the bare
    attribute name where a Struct was built in Python. A ValueError, so that msgspec reports it with its path.
    """

    def __init__(self, expectation: str, field: str) -> None:
        super().__init__(f"{field}: {expectation}")
        self.expectation = expectation
        self.field = field


class NotFound(GdsvcError):
    """The named pool or router is not known."""


class Conflict(GdsvcError):
    """The request contradicts something that outranks it, such as a router given on the command line."""


class DoesNotFit(GdsvcError):
    """What is to be kept is larger than the store behind a registrar can hold."""


class NotOffered(GdsvcError):
    """What the request asks for is not offered in the mode that the operator has chosen."""


class TryLater(GdsvcError):
    """Not now; trying again after `retry_after_secs` may work."""

    def __init__(self, message: str, retry_after_secs: int) -> None:
        super().__init__(message)
        self.retry_after_secs = retry_after_secs


class LimitReached(TryLater):
    """A limit set by the operator is in the way."""


class Unavailable(TryLater):
    """The store or the cache behind a directory cannot answer."""
