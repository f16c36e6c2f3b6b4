"""The bounds of one client, each with its reason."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Durations in seconds; what counts connections does so for each origin."""

    connections: int = 1024  # in use at once; who comes later waits, `connect_secs` at most
    idle: int = 256  # kept for the next requests after a burst
    idle_secs: float = 4.0  # uvicorn, and with it vLLM, closes after 5
    age_secs: float = 300.0  # not used again beyond it, so that a name that moved is looked up in the end
    connect_secs: float = 5.0  # name, TCP and TLS together
    resolve_secs: float = 30.0  # the addresses of a name are taken from memory for so long
    head_bytes: int = 65536  # of a reply up to its body, with interim replies; of its trailers
    held_bytes: int = 65536  # of a body that nobody reads; up to one read of the socket (256 KiB) comes on top
    continue_secs: float = (
        1.0  # not every server says 100 Continue, so a client does not wait for ever (RFC 9110, 10.1.1)
    )
    silence_secs: float | None = None  # in which the upstream neither sends nor takes anything; None: any time
    stall_secs: float = 60.0  # in which the upstream takes nothing of a body that comes bit by bit; its caller is gone?
