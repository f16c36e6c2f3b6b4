"""Where values come from: the command line, else the environment twin. Collects texts; what they mean is not asked."""

from collections import deque
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct

from gdsvc.settings.flags import Flag
from gdsvc.settings.values import shown

ASKED = {"-h": "--help", "--help": "--help", "--version": "--version"}


class Given(Struct, frozen=True):
    """What was set for one flag. `label` names the flag in a fault, and the variable if it came from there."""

    label: str
    texts: tuple[str, ...]


class CommandLine(Struct):
    """What an argv says: the texts of each known flag by name, what cannot be read, and whether help was asked for."""

    texts: dict[str, list[str]]
    faults: list[str]
    asked: str | None = None


def read_argv(argv: Sequence[str], flags: Mapping[str, Flag]) -> CommandLine:
    """Reads `--flag value` and `--flag=value`. Not by argparse, which stops at the first fault.

    As there, a token that begins with -- is never the value of the flag before it: --flag=--value says that.
    """
    line = CommandLine({}, [])
    rest = deque(argv)
    while rest:
        token = rest.popleft()
        name, equals, value = token.partition("=")
        if name in ASKED and not equals:
            line.asked = line.asked or ASKED[name]
        elif name not in flags:
            line.faults.append(_unknown(token, flags))
            if name.startswith("-") and not equals and _next_is_value(rest):
                rest.popleft()  # the unknown flag's value, which may be a secret
        elif (switched := flags[name].switch) is not None:
            if equals:
                line.faults.append(f"{name}: expected no value")
            line.texts[name] = [switched]
        elif equals or _next_is_value(rest):
            line.texts.setdefault(name, []).append(value if equals else rest.popleft())
        else:
            line.faults.append(f"{name}: expected a value, {flags[name].metavar}")
    return line


def merge(line: CommandLine, environ: Mapping[str, str], flags: Mapping[str, Flag]) -> dict[str, Given]:
    """What is set, by flag name. The command line wins; an empty variable is unset."""
    given: dict[str, Given] = {}
    for flag in flags.values():
        texts = line.texts.get(flag.name)
        from_environ = environ.get(flag.variable, "")
        if texts is not None:
            given[flag.name] = Given(flag.name, tuple(texts if flag.repeatable else texts[-1:]))
        elif from_environ:
            parts = from_environ.split() if flag.repeatable else [from_environ]
            given[flag.name] = Given(f"{flag.name} (from {flag.variable})", tuple(parts))
    return given


def _next_is_value(rest: deque[str]) -> bool:
    return bool(rest) and not rest[0].startswith("--") and rest[0] not in ASKED


def _unknown(token: str, flags: Mapping[str, Flag]) -> str:
    name, equals, _ = token.partition("=")
    if not token.startswith("-"):
        return f"unexpected argument {shown(token)}: expected only flags"
    if name in ASKED and equals:
        return f"{name}: expected no value"
    near = get_close_matches(name[:80], flags, n=1, cutoff=0.75)  # 80: the search is quadratic
    expected = f"did you mean {near[0]}?" if near else "expected one that --help lists"
    return f"unknown flag {shown(name)}: {expected}"
