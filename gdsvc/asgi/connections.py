"""Looks at the connections of this process from outside: granian holds them, and tells an app only of requests."""

import os
import socket
from typing import Final, TypeAlias

Address: TypeAlias = tuple[str, int]  # host and port, without the zone of a link-local address

RESET: Final[Address] = ("", 0)  # in place of the peer of a connection that was reset: the kernel has forgotten it

_TCP_CLOSE: Final = 7  # of the states that begin struct tcp_info
_DESCRIPTORS: Final = "/proc/self/fd"


def descriptors() -> list[int]:
    """All that are open. Raises OSError where the system has no /proc."""
    return [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208 - a path for each costs more than the look


def connections_to(port: int) -> int:
    """Connected sockets of this process whose local port is `port`; 0 where the system has no /proc.

    Two system calls for each open descriptor: for scrapes, not for requests.
    """
    try:
        found = descriptors()
    except OSError:
        return 0
    return sum(_is_connection(descriptor, port) for descriptor in found)


def peer_of(descriptor: int) -> Address | None:
    """Who is at the other end, or RESET; None for what is no connection of TCP."""
    try:
        # Of whatever family it is; this one's addresses are the longest, and no longer ones are read than its own.
        borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:  # a file, or closed since it was listed
        return None
    try:
        peer = borrowed.getpeername()
    except OSError:  # a listener, a connection that was reset, or another kind of socket
        return RESET if _is_closed(borrowed) else None
    finally:
        borrowed.detach()  # its owner closes it
    match peer:
        case (str(host), int(port), *_):
            return host.partition("%")[0], port
        case _:
            return None


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE
    except OSError:
        return False


def _is_connection(descriptor: int, port: int) -> bool:
    try:
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:  # a file, or closed since it was listed
        return False
    try:
        return borrowed.getsockname()[1] == port and bool(borrowed.getpeername())
    except (OSError, IndexError, TypeError):  # a listener, or another kind of socket
        return False
    finally:
        borrowed.detach()  # its owner closes it
