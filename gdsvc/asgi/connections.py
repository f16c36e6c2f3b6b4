"""Counts client connections: an ASGI app cannot see the idle ones, and granian does not tell."""

import os
import socket


def connections_to(port: int) -> int:
    """Connected sockets of this process whose local port is `port`; 0 where the system has no /proc.

    Two system calls for each open descriptor: for scrapes, not for requests.
    """
    try:
        descriptors = [entry.name for entry in os.scandir("/proc/self/fd")]
    except OSError:
        return 0
    return sum(_is_connection(int(descriptor), port) for descriptor in descriptors)


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
