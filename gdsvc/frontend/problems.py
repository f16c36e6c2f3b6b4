"""Which status and which body in OpenAI's shape an error becomes: one table, in the order in which it is searched."""

from typing import Final, TypeAlias

import msgspec

from gdsvc.asgi.body import BodyTooLarge, BodyTooSlow, Disconnected
from gdsvc.asgi.heads import BadHead
from gdsvc.asgi.responses import Response, retry_after
from gdsvc.errors import GdsvcError, TryLater
from gdsvc.frontend.model_name import BadBody, BadModel
from gdsvc.frontend.selection import Refused
from gdsvc.frontend.upstream import Cause, Unsendable, UpstreamFailed
from gdsvc.frontend.upstream.failures import Closed

MOST_SHOWN: Final = 100  # characters of a name that are said back to who asked for it
NO_POOL_RETRY_AFTER_SECS: Final = 5  # the heartbeat that brings a pool back comes within that time
MODELS_RETRY_AFTER_SECS: Final = 1  # pools that did not list theirs are asked again after that
BUSY_RETRY_AFTER_SECS: Final = 1  # connections come free by the second

CAUSES: Final = {
    Cause.NOT_ESTABLISHED: "no connection could be made",
    Cause.NO_ROOM: "all connections to it are busy",
    Cause.UNREAD: "its connection ended before the request was read",
    Cause.RESET: "its connection was reset",
    Cause.NO_REPLY: "its connection ended before it answered",
    Cause.BROKEN_OFF: "its answer broke off",
    Cause.MALFORMED: "its answer is no HTTP/1.1",
    Cause.SILENT: "it was silent for too long",
}
"""What a caller is told of a failure; the addresses of the pools are not among it."""


class Problem(msgspec.Struct):
    """What went wrong; the members that OpenAI's clients read, `param` being the member of the request at fault."""

    message: str
    type: str
    param: str | None
    code: str


class ProblemBody(msgspec.Struct):
    """The body of every error."""

    error: Problem


class NoAnswer(GdsvcError):
    """The pool gave no answer, and the request is not sent again."""

    def __init__(self, pool_id: str, cause: Cause) -> None:
        super().__init__(f"the pool {_shown(pool_id)} gave no answer: {CAUSES[cause]}")
        self.pool_id = pool_id
        self.cause = cause


class NoPool(TryLater):
    """There is no pool to send a request for `model` to; `refused` says why."""

    def __init__(self, refused: Refused, model: str) -> None:
        super().__init__(f"the model {_shown(model)} cannot be served: {refused.value}", NO_POOL_RETRY_AFTER_SECS)
        self.refused = refused
        self.model = model


class NoModels(TryLater):
    """No model can be listed, and that there is none is not known either."""

    def __init__(self) -> None:
        super().__init__("which models are served is not known yet: no pool has said so", MODELS_RETRY_AFTER_SECS)


class Redirected(GdsvcError):
    """A pool answered with a redirect, which is not followed."""

    def __init__(self, pool_id: str, status: int) -> None:
        super().__init__(f"the pool {_shown(pool_id)} answered with a redirect ({status}), which is not followed")


class Looped(GdsvcError):
    """The request has come through a frontend before."""

    def __init__(self) -> None:
        super().__init__("the request has already come through a global frontend: its pools lead back to frontends")


class NotAllowed(GdsvcError):
    """The route exists, but not for this method; `allow` is the value of Allow."""

    def __init__(self, allow: str, *, closes: bool = False) -> None:
        super().__init__(f"the method is not allowed here; allowed: {allow or 'none'}")
        self.allow = allow
        self.closes = closes


class NoUpgrade(GdsvcError):
    """The request asks for another protocol, such as WebSocket."""

    def __init__(self) -> None:
        super().__init__("upgrades to other protocols are not offered: send the request over plain HTTP")


class UnknownPath(GdsvcError):
    """Nothing is served under this path."""

    def __init__(self) -> None:
        super().__init__("unknown path; the API is under /v1/")


Kind: TypeAlias = type[GdsvcError] | Refused | Cause

TABLE: Final[tuple[tuple[Kind, int, str], ...]] = (
    (BadHead, 400, "invalid_request"),
    (BadModel, 400, "invalid_model"),
    (BadBody, 400, "invalid_json"),
    (Disconnected, 400, "incomplete_body"),
    (Unsendable, 400, "invalid_request"),
    (Refused.UNKNOWN_MODEL, 404, "model_not_found"),
    (UnknownPath, 404, "unknown_url"),
    (NotAllowed, 405, "method_not_allowed"),
    (BodyTooSlow, 408, "request_timeout"),
    (BodyTooLarge, 413, "request_too_large"),
    (NoUpgrade, 501, "upgrade_not_offered"),
    (Cause.NO_ROOM, 503, "overloaded"),
    (NoAnswer, 502, "upstream_failed"),
    (Redirected, 502, "upstream_redirected"),
    (UpstreamFailed, 502, "upstream_failed"),
    (NoPool, 503, "no_pool_available"),
    (NoModels, 503, "no_pool_available"),
    (TryLater, 503, "overloaded"),
    (Closed, 503, "shutting_down"),
    (Looped, 508, "loop_detected"),
)
"""Status and code: by the class of an error, or by the reason that it carries where that has a status of its own."""

_OF_THE_MODEL: Final = frozenset(("invalid_model", "model_not_found"))
_CLOSE: Final = (b"connection", b"close")
_ENCODER: Final = msgspec.json.Encoder()


def problem(error: GdsvcError) -> Response:
    """The response that `error` becomes."""
    reason = getattr(error, "refused", None) or getattr(error, "cause", None)
    for kind, status, code in TABLE:
        if kind is reason or (isinstance(kind, type) and isinstance(error, kind)):
            return Response(status, _body(status, code, _message(error)), headers=_headers(error, status))
    return internal()


def internal() -> Response:
    """What the caller sees of a fault of ours; the log has the rest."""
    return Response(500, _body(500, "internal_error", "internal error; it has been logged"))


def _message(error: GdsvcError) -> str:
    if isinstance(error, UpstreamFailed):  # its own text names the address
        return f"the pool gave no answer: {CAUSES[error.cause]}"
    return str(error)


def _body(status: int, code: str, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    param = "model" if code in _OF_THE_MODEL else None
    return _ENCODER.encode(ProblemBody(Problem(message, kind, param, code)))


def _headers(error: GdsvcError, status: int) -> tuple[tuple[bytes, bytes], ...]:
    match error:
        case NotAllowed():
            allow = (b"allow", error.allow.encode())
            return (allow, _CLOSE) if error.closes else (allow,)
        case BadHead(closes=True) | BodyTooSlow():
            return (_CLOSE,)
        case TryLater() if status == 503:
            return (retry_after(error.retry_after_secs),)
        case _:
            return (retry_after(BUSY_RETRY_AFTER_SECS),) if status == 503 else ()


def _shown(name: str) -> str:
    """In quotes, cut, and with escapes for whatever a terminal or a page would not show as it is."""
    return repr(name if len(name) <= MOST_SHOWN else name[:MOST_SHOWN] + "…")
