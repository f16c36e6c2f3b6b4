"""What --help and --version say: the table of flags, laid out by argparse for the width of the terminal."""

import textwrap
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Iterable

from gdsvc import __version__
from gdsvc.settings.flags import Flag, Heading

EPILOG = (
    "Each flag has an environment variable, named beside it: an empty one counts as unset, and the command line wins. "
    "All faults of a command line are reported together, with exit code 2."
)


TABLE_COMMANDS = {
    "create-table": "make the table, with time to live and layout, as far as it is not there yet",
    "check": "look at keys, time to live, layout and clock, and try each permission that the service needs",
}


class _Formatter(HelpFormatter):
    """argparse's own layout, but for the names of flags: they are never broken at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def version_text() -> str:
    """Name and version of the program."""
    return f"gdsvc {__version__}"


def help_text(prog: str, flags: Iterable[Flag]) -> str:
    """The whole help, ending in a newline."""
    parser = ArgumentParser(
        prog=prog,
        usage="%(prog)s [--flag VALUE | --flag=VALUE]...",
        description="Serves the lists of live inference pools and router replicas over HTTP.",
        epilog=EPILOG,
        formatter_class=_Formatter,
        add_help=False,
    )
    groups = {heading: parser.add_argument_group(heading.value) for heading in Heading}
    groups[Heading.ALL].add_argument("-h", "--help", action="help", help="Show this help and exit.")
    groups[Heading.ALL].add_argument("--version", action="version", help="Show the version and exit.")
    for flag in flags:
        metavar = flag.metavar.replace("%", "%%")
        groups[flag.heading].add_argument(flag.name, metavar=metavar, help=_sentences(flag).replace("%", "%%"))
    return parser.format_help()


def table_help_text(prog: str, flags: Iterable[Flag]) -> str:
    """The help of the commands on the table of registrations, ending in a newline."""
    parser = ArgumentParser(
        prog=prog,
        usage=f"%(prog)s {{{','.join(TABLE_COMMANDS)}}} [--flag VALUE]...",
        description="Makes the DynamoDB table of --registration-storage dynamodb, and finds out what is wrong with it.",
        epilog=EPILOG,
        formatter_class=_Formatter,
        add_help=False,
    )
    commands = parser.add_argument_group("commands")
    for name, does in TABLE_COMMANDS.items():
        commands.add_argument(name, help=does.replace("%", "%%"), nargs="?")
    group = parser.add_argument_group("flags")
    for flag in flags:
        text = _sentences(flag).replace("%", "%%")
        if flag.switch is None:
            group.add_argument(flag.name, metavar=flag.metavar, help=text)
        else:
            group.add_argument(flag.name, action="store_true", help=text)
    return parser.format_help()


def _sentences(flag: Flag) -> str:
    return f"{flag.help} (default: {flag.default or 'none'}; environment: {flag.variable})"
