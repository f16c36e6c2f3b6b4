"""The command line and the environment of a command, read into one frozen Order. Reads no file and asks nobody.

Decides names, defaults and precedence: the command line wins over the environment, an empty variable is unset.
"""

import math
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NoReturn

from msgspec import Struct

from gdsvc.commands.failures import Usage
from gdsvc.commands.keys import read_key
from gdsvc.commands.manual import EXIT_CODES_TEXT, MANUALS, Manual
from gdsvc.commands.renderings import Form
from gdsvc.errors import Invalid
from gdsvc.model import PoolKey

DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_SECS: Final = 10.0
LONGEST_TIMEOUT_SECS: Final = 3_600.0
HELP_COLUMNS: Final = 100
ASKS_FOR_HELP: Final = frozenset({"-h", "--help"})

_MEANINGS: Final = {
    "--url": f"a discovery service; repeatable: tried in turn (default: $GDSVC_URL, else {DEFAULT_URL})",
    "--ca-path": "PEM file of the CAs to trust instead of the system's ($GDSVC_CA_PATH)",
    "--client-cert-path": "PEM file of a client certificate to show ($GDSVC_CLIENT_CERT_PATH)",
    "--client-key-path": "PEM file of its private key ($GDSVC_CLIENT_KEY_PATH)",
    "--token-file": "file with a bearer token, read anew for each request ($GDSVC_TOKEN_FILE; or the token itself in "
    "$GDSVC_TOKEN)",
    "--timeout-secs": f"how long an answer may take ($GDSVC_TIMEOUT_SECS, else {DEFAULT_TIMEOUT_SECS:.0f})",
}


class Connection(Struct, frozen=True, kw_only=True):
    """How to reach the service. A token's text stands in `token`, or in the file at `token_path`: never both."""

    urls: tuple[str, ...]
    ca_path: Path | None
    client_cert_path: Path | None
    client_key_path: Path | None
    token: str | None
    token_path: Path | None
    timeout_secs: float


class ListPools(Struct, frozen=True):
    """`gdsvc pools`; `filters` are (query parameter, value)."""

    filters: tuple[tuple[str, str], ...]


class ListRouters(Struct, frozen=True):
    """`gdsvc routers`."""


class Watch(Struct, frozen=True):
    """`gdsvc watch`."""

    kind: Literal["pools", "routers"]
    filters: tuple[tuple[str, str], ...]


class Register(Struct, frozen=True):
    """`gdsvc register`; `path` is None for standard input."""

    path: Path | None
    deregister: bool


class Deregister(Struct, frozen=True):
    """`gdsvc deregister`."""

    key: PoolKey


class Why(Struct, frozen=True):
    """`gdsvc why`."""

    key: PoolKey


Command = ListPools | ListRouters | Watch | Register | Deregister | Why


class Order(Struct, frozen=True):
    """What was asked for."""

    command: Command
    connection: Connection
    form: Form


def help_text(name: str) -> str:
    """The whole --help of the command `name`."""
    return _parser(name).format_help()


def read(name: str, argv: Sequence[str], environ: Mapping[str, str]) -> Order:
    """The order that `argv`, without the command's name, and `environ` give. Raises Usage."""
    known, unknown = _parser(name).parse_known_args(list(argv))
    if unknown:
        raise Usage(_unknown(unknown[0]))
    return Order(_command(name, known), _connection(known, environ), Form(known.output))


class _Parser(ArgumentParser):
    """argparse, but a fault is raised, not printed; no flag may be abbreviated."""

    def error(self, message: str) -> NoReturn:
        raise Usage(message.removeprefix("argument "))


def _parser(name: str) -> ArgumentParser:
    manual = MANUALS[name]
    parser = _Parser(
        prog=f"gdsvc {name}",
        description=_description(manual),
        epilog=_epilog(manual),
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=HELP_COLUMNS),
        allow_abbrev=False,
    )
    match name:
        case "pools":
            _add_filters(parser)
        case "watch":
            parser.add_argument(
                "kind", nargs="?", choices=("pools", "routers"), default="pools", metavar="pools|routers"
            )
            _add_filters(parser)
        case "register":
            parser.add_argument("-f", "--file", required=True, metavar="FILE", help="JSON file; - is standard input")
            parser.add_argument("--deregister", action="store_true", help="take the pool out at the end")
        case "deregister" | "why":
            parser.add_argument("key", metavar="KEY", help="site/namespace/name; names may be percent-encoded")
        case _:
            pass
    _add_output(parser)
    _add_connection(parser)
    return parser


def _add_filters(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("filters, each repeatable")
    group.add_argument("--model", action="append", default=[], metavar="NAME", help="pools that serve this model")
    group.add_argument("--region", action="append", default=[], metavar="NAME", help="pools in this region")
    group.add_argument("--site-id", action="append", default=[], metavar="ID", help="pools of this site")


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        choices=[form.value for form in Form],
        default=Form.TABLE.value,
        help="for people; the service's answer as it came; or YAML of it (default: table)",
    )


def _add_connection(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("the service")
    for flag, meaning in _MEANINGS.items():
        match flag:
            case "--url":
                group.add_argument(flag, action="append", metavar="URL", help=meaning)
            case "--timeout-secs":
                group.add_argument(flag, type=_timeout, metavar="N", help=meaning)
            case _:
                group.add_argument(flag, metavar="FILE", help=meaning)


def _description(manual: Manual) -> str:
    return "\n".join(
        line if line.startswith(" ") else textwrap.fill(line, HELP_COLUMNS) for line in manual.text.split("\n")
    )


def _epilog(manual: Manual) -> str:
    widest = max(len(line) for line, _ in manual.examples)
    examples = [
        f"  {line:<{widest}}{f'  # {comment}' if comment else ''}".rstrip() for line, comment in manual.examples
    ]
    return "\n".join(["examples:", *examples, "", textwrap.fill(EXIT_CODES_TEXT, HELP_COLUMNS)])


def _command(name: str, known: Namespace) -> Command:
    match name:
        case "pools":
            return ListPools(_filters(known))
        case "routers":
            return ListRouters()
        case "watch":
            filters = _filters(known)
            if filters and known.kind == "routers":
                raise Usage("--model, --region and --site-id are for pools: routers have none of them")
            return Watch(known.kind, filters)
        case "register":
            return Register(None if known.file == "-" else _path("--file", known.file), known.deregister)
        case "deregister":
            return Deregister(_key(known.key))
        case _:
            return Why(_key(known.key))


def _filters(known: Namespace) -> tuple[tuple[str, str], ...]:
    pairs = [(name, value) for name in ("model", "region", "site_id") for value in getattr(known, name)]
    for name, value in pairs:
        if not _is_unicode(value):
            raise Usage(f"--{name.replace('_', '-')}: expected a text in UTF-8")
    return tuple(pairs)


def _key(text: str) -> PoolKey:
    try:
        return read_key(text)
    except Invalid as fault:
        raise Usage(str(fault)) from None


def _connection(known: Namespace, environ: Mapping[str, str]) -> Connection:
    def path(flag: str) -> Path | None:
        text = getattr(known, flag.removeprefix("--").replace("-", "_")) or environ.get(_variable(flag))
        return _path(flag, text) if text else None

    cert, key = path("--client-cert-path"), path("--client-key-path")
    if (cert is None) != (key is None):
        raise Usage("--client-cert-path and --client-key-path: expected both or none")
    token = environ.get("GDSVC_TOKEN") or None
    return Connection(
        urls=tuple(known.url or environ.get("GDSVC_URL", "").split() or [DEFAULT_URL]),
        ca_path=path("--ca-path"),
        client_cert_path=cert,
        client_key_path=key,
        token=None if known.token_file else token,
        token_path=path("--token-file") if known.token_file or token is None else None,
        timeout_secs=known.timeout_secs or _timeout_of(environ),
    )


def _variable(flag: str) -> str:
    return "GDSVC_" + flag.removeprefix("--").replace("-", "_").upper()


def _path(flag: str, text: str) -> Path:
    if not text or "\0" in text:
        raise Usage(f"{flag}: expected the path of a file")
    return Path(text)


def _timeout_of(environ: Mapping[str, str]) -> float:
    text = environ.get("GDSVC_TIMEOUT_SECS")
    if not text:
        return DEFAULT_TIMEOUT_SECS
    try:
        return _timeout(text)
    except ArgumentTypeError as fault:
        raise Usage(f"--timeout-secs (from GDSVC_TIMEOUT_SECS): {fault}") from None


def _timeout(text: str) -> float:
    """Seconds above zero. nan fails the comparison; int's limit of digits does not hold for float."""
    try:
        secs = float(text)
    except ValueError:
        secs = math.nan
    if not 0.0 < secs <= LONGEST_TIMEOUT_SECS:
        raise ArgumentTypeError(f"expected seconds above 0, at most {LONGEST_TIMEOUT_SECS:.0f}")
    return secs


def _is_unicode(text: str) -> bool:
    """False where bytes of the command line were not UTF-8: Python hands them over as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _unknown(token: str) -> str:
    """Names a flag, never its value: who tries --token has a secret behind it."""
    if token.startswith("-"):
        return f"unknown flag {token.partition('=')[0][:80]}"
    return f"unexpected argument {token[:80]!r}"
