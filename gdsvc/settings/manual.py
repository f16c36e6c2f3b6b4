"""What --help and --version say: the table of flags, laid out by argparse for the width of the terminal."""

import textwrap
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from gdsvc import __version__
from gdsvc.settings.flags import Flag

EPILOG = (
    "Each flag has an environment variable, named beside it: an empty one counts as unset, and the command line wins. "
    "All faults of a command line are reported together, with exit code 2."
)


TABLE_COMMANDS = {
    "create-table": "make the table, with time to live and layout, as far as it is not there yet",
    "check": "look at keys, time to live, layout and clock, and try each permission that the service needs",
}


class Manual(Struct, frozen=True):
    """What help says beside the flags. `commands` are what stands before them, `examples` the end, as it is."""

    description: str
    commands: Mapping[str, str] = MappingProxyType({})
    examples: str = ""


SERVE = Manual("Serves the lists of live inference pools and router replicas over HTTP.")
TABLE = Manual(
    "Makes the DynamoDB table of --registration-storage dynamodb, and finds out what is wrong with it.", TABLE_COMMANDS
)


class _Formatter(HelpFormatter):
    """argparse's own layout, but for the names of flags: they are never broken at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def version_text() -> str:
    """Name and version of the program."""
    return f"gdsvc {__version__}"


def help_text(prog: str, flags: Iterable[Flag], manual: Manual) -> str:
    """The whole help, ending in a newline; groups stand in the order in which the flags bring them."""
    flags = tuple(flags)
    commands = f"{{{','.join(manual.commands)}}} " if manual.commands else ""
    parser = ArgumentParser(
        prog=prog,
        usage=f"%(prog)s {commands}[--flag VALUE | --flag=VALUE]...",
        description=manual.description,
        epilog=EPILOG,
        formatter_class=_Formatter,
        add_help=False,
    )
    if manual.commands:
        _explain(parser, manual.commands)
    groups = {heading: parser.add_argument_group(heading.value) for heading in dict.fromkeys(f.heading for f in flags)}
    first = groups[flags[0].heading]
    first.add_argument("-h", "--help", action="help", help="Show this help and exit.")
    first.add_argument("--version", action="version", help="Show the version and exit.")
    for flag in flags:
        text = _sentences(flag).replace("%", "%%")
        if flag.switch is None:
            groups[flag.heading].add_argument(flag.name, metavar=flag.metavar.replace("%", "%%"), help=text)
        else:
            groups[flag.heading].add_argument(flag.name, action="store_true", help=text)
    return parser.format_help() + manual.examples


def _explain(parser: ArgumentParser, commands: Mapping[str, str]) -> None:
    group = parser.add_argument_group("commands")
    for name, does in commands.items():
        group.add_argument(name, help=does.replace("%", "%%"), nargs="?")


def _sentences(flag: Flag) -> str:
    return f"{flag.help} (default: {flag.default or 'none'}; environment: {flag.variable})"
