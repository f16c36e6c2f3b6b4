"""For schemathesis, which imports it: leaves out the few requests that the schema takes and the service must not.

JSON Schema counts characters where the service counts bytes of UTF-8, takes 1.0 for an integer, which the relays'
language does not, and has no sound pattern for an IPv6 address. OpenAPI cannot say that a parameter is required with
one value of another.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address
from typing import Any

import schemathesis

MAX_NAME_BYTES = 253
_BRACKETED = re.compile(r"//\[(.*)\]")


@schemathesis.hook
def filter_case(context: schemathesis.HookContext, case: Any) -> bool:
    """Whether to send the case."""
    del context
    query = case.query or {}
    if query.get("targets") == "relays" and "port" not in query:
        return False
    return all(_sayable(value) for value in _values(case.body))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: Any, kwargs: dict[str, Any]) -> None:
    """Takes targets for Prometheus as they are: the lists of this service are never complete."""
    del context, kwargs
    if case.path == "/sd/prometheus":
        case.query = {"incomplete": "allow"} | (case.query or {})


def _values(document: Any) -> Iterator[Any]:
    match document:
        case dict():
            yield from (value for member in document.values() for value in _values(member))
        case list():
            yield from (value for item in document for value in _values(item))
        case _:
            yield document


def _sayable(value: Any) -> bool:
    """Whether the schema can tell if the service takes it."""
    if isinstance(value, float):
        return not value.is_integer()
    if not isinstance(value, str):
        return True
    if len(value) <= MAX_NAME_BYTES < len(value.encode(errors="surrogatepass")):
        return False
    bracketed = _BRACKETED.search(value)
    try:
        return bracketed is None or bool(IPv6Address(bracketed[1]))
    except AddressValueError:
        return False
