"""The three forms of an answer: the table or sentences that people read, the body as it came, and YAML of it."""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import cast

from gdsvc.commands.screen import Screen
from gdsvc.commands.visible import json_text
from gdsvc.model import decode_json

YAML_COLUMNS = 1_000  # longer texts are folded


class Form(Enum):
    """What --output chooses."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_document(screen: Screen, form: Form, body: bytes) -> None:
    """Writes a JSON `body` as it is, or as YAML; an empty one is nothing in both. Raises NotJson."""
    if not body:
        return
    if form is Form.YAML:
        screen.write(yaml_text(body, screen.can_show))
    else:
        screen.write_bytes((json_text(body) if screen.is_terminal else body) + b"\n")


def yaml_text(body: bytes, can_show: Callable[[str], bool] = str.isprintable) -> str:
    """A JSON document as YAML, its members in their order. Raises NotJson.

    Where any of its texts is one that the output cannot show, all that is not ASCII is written as escapes.
    """
    import yaml

    document = decode_json(body)
    dump = cast("Callable[..., str]", yaml.dump)  # pyright: ignore[reportUnknownMemberType]
    return dump(
        document,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),  # the one in C is ten times as fast
        sort_keys=False,
        allow_unicode=all(map(can_show, _texts(document))),
        width=YAML_COLUMNS,
    )


def _texts(document: object) -> Iterable[str]:
    """Every text in the document, names of members included; it nests 32 levels at most."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for name, value in cast("dict[str, object]", document).items():
            yield name
            yield from _texts(value)
    elif isinstance(document, list):
        for value in cast("list[object]", document):
            yield from _texts(value)
