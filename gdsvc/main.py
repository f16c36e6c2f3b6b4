"""The programs: which command is meant. Loads what that command needs and no more; the rest is decided there."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from types import ModuleType
from typing import cast

from gdsvc import __version__
from gdsvc.commands.failures import DONE, FAULT, INTERRUPTED, USAGE, Unwritable, exit_code
from gdsvc.commands.manual import MANUALS, overview
from gdsvc.commands.screen import ReaderLeft, leave_quietly, say, standard_output

NAMES = ("serve", "frontend", "demo", "dynamodb", *MANUALS)
HELP = f"""\
usage: gdsvc COMMAND [flags]

Discovery of LLM inference pools and of the routers in front of them.

the service:
  serve       run the discovery service
  frontend    run the Global Frontend, which forwards OpenAI requests to the pools
  demo        a fleet to try on this machine: service, three mock pools, frontend
  dynamodb    create-table, check: the table of --registration-storage dynamodb

for people, who ask a service at --url or GDSVC_URL (default http://127.0.0.1:8080):
{overview()}
`gdsvc COMMAND --help` explains a command, with examples; `gdsvc --version` prints the version.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that `argv` (default: the process's own) names; the exit code. No error leaves a traceback."""
    return _shielded(_run, "gdsvc", argv)


def main_drop_in(argv: Sequence[str] | None = None) -> int:
    """`global-discovery-service`: the flags of `gdsvc serve` without the command."""
    prog = "global-discovery-service"
    return _shielded(lambda flags: _serve(flags, prog), prog, argv)


def _shielded(program: Callable[[Sequence[str]], int], prog: str, argv: Sequence[str] | None) -> int:
    """The exit code of a program whose output may not be read, or not be taken."""
    try:
        return program(list(sys.argv[1:] if argv is None else argv))
    except ReaderLeft:
        leave_quietly()
        return DONE
    except Unwritable as error:
        leave_quietly()
        say(f"{prog}: {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _serve(flags: Sequence[str], prog: str) -> int:
    with _without_rich():
        from gdsvc.cli import serve
    return serve(flags, prog, standard_output().write)


def _forward(flags: Sequence[str]) -> int:
    with _without_rich():
        from gdsvc.front import frontend
    return frontend(flags, "gdsvc frontend", standard_output().write)


@contextmanager
def _without_rich() -> Generator[None]:
    """structlog loads rich where it finds it, for tracebacks that we never let it write: a fifth of the time to start.

    So it does not find it.
    """
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    hidden = modules.setdefault("rich", None) is None
    yield
    if hidden:
        del modules["rich"]


def _run(argv: Sequence[str]) -> int:
    programs: dict[str, Callable[[Sequence[str]], int]] = {
        "serve": lambda flags: _serve(flags, "gdsvc serve"),
        "frontend": _forward,
        "demo": _demonstrate,
        "dynamodb": _run_on_table,
    }
    match argv:
        case [name, *rest] if name in programs:
            return programs[name](rest)
        case [name, *rest] if name in MANUALS:
            return _run_for_people(name, rest)
        case ["-h" | "--help" | "help"]:
            standard_output().write(HELP)
        case ["--version"]:
            standard_output().write(f"gdsvc {__version__}\n")
        case _:
            return _unknown(argv)
    return DONE


def _unknown(argv: Sequence[str]) -> int:
    if not argv:
        for line in HELP.splitlines():
            say(line)
        return USAGE
    near = get_close_matches(argv[0][:80], NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there is: {', '.join(NAMES)}"
    say(f"gdsvc: unknown command {argv[0][:80]!r}; {hint}")
    say("try 'gdsvc --help'")
    return USAGE


def _demonstrate(argv: Sequence[str]) -> int:
    from gdsvc.demo.run import demo

    return demo(argv, standard_output().write, os.environ)


def _run_on_table(argv: Sequence[str]) -> int:
    from gdsvc.tables import dynamodb

    return dynamodb(argv, standard_output().write)


def _run_for_people(name: str, argv: Sequence[str]) -> int:
    from gdsvc.commands.run import run

    try:
        return run(name, argv, os.environ)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        say(f"gdsvc {name}: a fault of ours: {type(error).__name__}: {error} (python -X dev -m gdsvc shows where)")
        return FAULT
