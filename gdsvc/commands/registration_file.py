"""The file of `gdsvc register -f`: read whole, within bounds, and judged as the service will judge it."""

import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from gdsvc.commands.failures import Refused, Usage
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import PoolRegistration, decode_registration

MOST_BYTES: Final = 16 * 1024 * 1024  # the service takes 2 MiB unless told otherwise


class RegistrationFile(Struct, frozen=True):
    """What the file holds: its bytes, and the registration that they are."""

    body: bytes
    registration: PoolRegistration


def read_registration(path: Path | None) -> RegistrationFile:
    """The file at `path`, None for standard input. Blocks: standard input may be a person.

    Raises Usage where it cannot be read, and Refused for what the service would refuse.
    """
    name = "standard input" if path is None else str(path)
    body = _content(path, name)
    try:
        return RegistrationFile(body, decode_registration(body))
    except (NotJson, Invalid) as fault:
        raise Refused(f"{name}: {fault}") from None


def _content(path: Path | None, name: str) -> bytes:
    try:
        if path is None:
            content = b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Usage(f"-f {name}: {error.strerror or 'cannot be read'}") from None
    if len(content) > MOST_BYTES:
        raise Usage(f"-f {name}: expected at most {MOST_BYTES} bytes")
    return content
