"""What can stop a command, and the exit code of each kind: the one place that decides it."""

from typing import Final

from gdsvc.errors import GdsvcError

DONE: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
FAULT: Final = 70  # EX_SOFTWARE of sysexits.h: ours, not the caller's and not the service's
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it


class Usage(GdsvcError):
    """The command line, or a file that it names, cannot be followed."""


class Refused(GdsvcError):
    """The service answered that it will not: no such pool, not allowed, or wrong."""


class NoService(GdsvcError):
    """Nothing answered, or something that is no discovery service, or one that cannot answer now."""


class Unwritable(GdsvcError):
    """What was asked for is there, but the output does not take it."""


EXIT_CODES: Final[tuple[tuple[type[GdsvcError], int], ...]] = (
    (Usage, USAGE),
    (Refused, REFUSED),
    (Unwritable, REFUSED),
    (NoService, UNREACHABLE),
)


def exit_code(error: GdsvcError) -> int:
    """The exit code that `error` becomes."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAULT)
