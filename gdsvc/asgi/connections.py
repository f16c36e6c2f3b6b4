"""Counts the sockets of this process: an ASGI app cannot see idle connections, and granian does not tell."""

import os
import stat
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


def open_sockets() -> int:
    """Sockets this process holds; 0 where the system has no /proc. Takes about a microsecond for each descriptor."""
    count = 0
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return 0
    for name in names:
        try:
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except OSError:  # closed since it was listed
            continue
    return count
