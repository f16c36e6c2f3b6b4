"""What can go wrong with one request, as data: its cause says whether it may be sent again. Does no I/O."""

from enum import Enum

from gdsvc.errors import GdsvcError
from gdsvc.frontend.upstream.origin import Origin


class Cause(Enum):
    """Why there is no reply, or no whole one."""

    NOT_ESTABLISHED = "not_established"  # no connection: the name, the address, TLS or the time was in the way
    NO_ROOM = "no_room"  # all connections that the limit allows were busy, or this process may open no more sockets
    UNREAD = "unread"  # a reused connection ended, and the peer's TCP had acknowledged nothing of the request
    RESET = "reset"  # a reused connection was reset: the peer closed it without reading (a sign, no proof)
    NO_REPLY = "no_reply"  # the connection ended in another way before the first byte of a reply
    BROKEN_OFF = "broken_off"  # the reply began and its end never came
    MALFORMED = "malformed"  # what came is no HTTP/1.1 reply, or its head is beyond the bound
    SILENT = "silent"  # nothing came or went for `Limits.silence_secs`

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same request may be sent once more, if all of it is still in hand: nothing has read it."""
        return self in _REPEATABLE

    @property
    def blames_the_upstream(self) -> bool:
        """Whether it counts against the health of the frontend; a stale connection or our own limit does not."""
        return self not in _BLAMELESS


_REPEATABLE = {Cause.NOT_ESTABLISHED, Cause.NO_ROOM, Cause.UNREAD, Cause.RESET}
_BLAMELESS = {Cause.NO_ROOM, Cause.UNREAD, Cause.RESET}


class UpstreamFailed(GdsvcError):
    """No whole reply from `origin`; `cause` says why."""

    def __init__(self, cause: Cause, origin: Origin, detail: str) -> None:
        super().__init__(f"{origin.url}: {detail}")
        self.cause = cause
        self.origin = origin


class Closed(GdsvcError):
    """The client was closed, before the exchange or while it was in hand."""

    def __init__(self) -> None:
        super().__init__("the client was closed")


class Malformed(GdsvcError):
    """The bytes are no reply that can be passed on."""


class Ending(Enum):
    """How a connection ended."""

    END_OF_STREAM = "the connection was closed"
    RESET = "the connection was reset"
    OTHER = "the connection was lost"


def ending_of(error: Exception | None) -> Ending:
    """What `connection_lost` was told. A write to a connection that was reset meanwhile gives a broken pipe."""
    if error is None:
        return Ending.END_OF_STREAM
    return Ending.RESET if isinstance(error, ConnectionResetError | BrokenPipeError) else Ending.OTHER


def cause_of(ending: Ending, *, begun: bool, reused: bool, unread: bool) -> Cause:
    """The cause when a connection ends before the end of a reply.

    `begun`: a byte of a reply was seen. `reused`: the connection has carried a whole exchange before. `unread`: as
    `is_unread` says.
    """
    if begun:
        return Cause.BROKEN_OFF
    if not reused or ending is Ending.OTHER:
        return Cause.NO_REPLY
    if unread:
        return Cause.UNREAD
    return Cause.RESET if ending is Ending.RESET else Cause.NO_REPLY


def is_unread(acknowledged: int | None, written_before: int) -> bool:
    """Whether the peer's TCP has acknowledged no byte of the request in hand.

    `acknowledged` is `tcpi_bytes_acked`, in which the SYN counts as one byte; `written_before` is what went out on
    the connection before this request. None, and 0 from a kernel that does not count, prove nothing.
    """
    return acknowledged is not None and 0 < acknowledged <= written_before + 1
