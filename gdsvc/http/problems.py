"""Which status and which body an error becomes: one table, in the order in which it is searched."""

import msgspec

from gdsvc.asgi.body import BodyTooLarge, BodyTooSlow
from gdsvc.asgi.heads import BadHead
from gdsvc.asgi.responses import Response, retry_after
from gdsvc.errors import (
    Conflict,
    DoesNotFit,
    GdsvcError,
    Invalid,
    LimitReached,
    NotFound,
    NotJson,
    NotOffered,
    Unavailable,
)


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong; `field` is the path of the member at fault, where one is known."""

    message: str
    field: str | None = None


class ProblemBody(msgspec.Struct):
    """The body of every error."""

    error: Problem


class MethodNotAllowed(GdsvcError):
    """The route exists, but not for this method."""

    def __init__(self, allow: str, *, closes: bool = False) -> None:
        super().__init__(f"the method is not allowed here; allowed: {allow or 'none'}")
        self.allow = allow
        self.closes = closes


class UnsupportedMediaType(GdsvcError):
    """The body is declared to be something else than JSON."""


class BadRequest(GdsvcError):
    """The request itself is malformed; `closes`: so that what follows on its connection cannot be trusted."""

    def __init__(self, message: str, *, closes: bool = False) -> None:
        super().__init__(message)
        self.closes = closes


STATUSES: tuple[tuple[type[GdsvcError], int], ...] = (
    (BadHead, 400),
    (BadRequest, 400),
    (NotJson, 400),
    (NotFound, 404),
    (MethodNotAllowed, 405),
    (BodyTooSlow, 408),
    (Conflict, 409),
    (BodyTooLarge, 413),
    (DoesNotFit, 413),
    (UnsupportedMediaType, 415),
    (Invalid, 422),
    (LimitReached, 429),
    (NotOffered, 501),
    (Unavailable, 503),
)

_CLOSE = (b"connection", b"close")
_ENCODER = msgspec.json.Encoder()


def problem(error: GdsvcError) -> Response:
    """The response that `error` becomes."""
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    return Response(status, _body(str(error), getattr(error, "field", None)), headers=_headers(error))


def internal_problem() -> Response:
    """What the caller sees of a fault of ours; the log has the rest."""
    return Response(500, _body("internal error; it has been logged"))


def _body(message: str, field: str | None = None) -> bytes:
    return _ENCODER.encode(ProblemBody(Problem(message, field)))


def _headers(error: GdsvcError) -> tuple[tuple[bytes, bytes], ...]:
    match error:
        case LimitReached() | Unavailable():
            return (retry_after(error.retry_after_secs),)
        case BadHead(closes=True) | BadRequest(closes=True) | BodyTooSlow():
            return (_CLOSE,)
        case MethodNotAllowed():
            allow = (b"allow", error.allow.encode())
            return (allow, _CLOSE) if error.closes else (allow,)
        case _:
            return ()
