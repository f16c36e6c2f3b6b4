"""Standard output and standard error of a command: bytes and lines, whole or not at all, and quiet when nobody reads.

Decides what a terminal is, how text becomes bytes, and what a failed write means. What is written is not its business.
"""

import io
import os
import shutil
import stat
import sys
from typing import BinaryIO, Final, TextIO

from gdsvc.commands.failures import Unwritable
from gdsvc.commands.visible import visible

NARROWEST: Final = 40  # columns: what is narrower is laid out for this many, and wraps


class ReaderLeft(Exception):
    """Whoever read the output has had enough: no error, the command ends quietly."""


class Screen:
    """Where a command's output goes. `width` is None where that is no terminal; `fd` None where it has none."""

    def __init__(self, stream: BinaryIO, encoding: str = "utf-8", width: int | None = None) -> None:
        self._stream = stream
        self._encoding = encoding
        self.width = width
        self._writing = False

    def is_writing(self) -> bool:
        """Whether a write has begun and not ended: it may wait for a reader."""
        return self._writing

    @property
    def is_terminal(self) -> bool:
        return self.width is not None

    def can_show(self, text: str) -> bool:
        """Whether `text` is printable, and all of it in the encoding of the output."""
        try:
            text.encode(self._encoding)
        except UnicodeEncodeError:
            return False
        return text.isprintable()

    def write(self, text: str) -> None:
        """Writes `text` at once; what the encoding lacks, as an escape. Raises ReaderLeft, Unwritable."""
        self.write_bytes(text.encode(self._encoding, "backslashreplace"))

    def write_bytes(self, data: bytes) -> None:
        """Writes `data` as it is, at once. Raises ReaderLeft, Unwritable, and what a signal raises."""
        self._writing = True
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderLeft from None
        except OSError as error:
            raise Unwritable(f"cannot write the output: {error.strerror}") from None
        except BaseException:  # a signal broke it off
            leave_quietly()
            raise
        finally:
            self._writing = False

    def pipe(self) -> int | None:
        """The descriptor of the pipe that is written to, whose far end may be closed; None where it is none."""
        try:
            descriptor = self._stream.fileno()
            return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
        except OSError:  # io.UnsupportedOperation is one
            return None


def standard_output() -> Screen:
    """The process's own; what is written goes nowhere where it has none."""
    if sys.stdout is None:
        return Screen(io.BytesIO())
    width = max(shutil.get_terminal_size().columns, NARROWEST) if sys.stdout.isatty() else None
    return Screen(sys.stdout.buffer, sys.stdout.encoding, width)


def say(line: str, stream: TextIO | None = None) -> None:
    """One line on standard error, harmless whatever it quotes; nobody is told where that cannot be written to."""
    stream = sys.stderr if stream is None else stream
    if stream is None:
        return
    try:
        stream.write(f"{visible(line)}\n")
        stream.flush()
    except (OSError, ValueError):
        pass


def leave_quietly() -> None:
    """Keeps the interpreter from writing at its end what could not be written before, and from reporting that."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
