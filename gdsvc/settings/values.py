"""What the text of one flag means: converters from text to value, and how a text is shown in a fault.

Converters raise Expected with a phrase that begins "expected …" and never echo the text: shown() alone does.
"""

import ipaddress
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from gdsvc.model import base_url_fault, text_fault

SHOWN_CHARACTERS = 80  # of a faulty value: enough to recognise it, too little to fill a log
HOST_BYTES = 253  # the longest DNS name
MOST = 10**18 - 1  # 18 digits fit 64 bits; of thousands of digits int() itself raises

# All that may hold a user and a password: up to the last @, and what a query may carry. An id and a scheme are kept.
_USER = re.compile(r"\A((?:[^=:/?@]*=)?(?:[a-z][a-z0-9+.-]{0,20}://)?).*@", re.DOTALL | re.IGNORECASE)
_QUERY = re.compile(r"\?.*", re.DOTALL)
_LISTEN = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)
_SERVICE_URL = re.compile(r"(https?://[^/?#@\\\s]+)(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*", re.ASCII | re.IGNORECASE)
_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "error",
}

Converter = Callable[[str], object]


class Expected(ValueError):
    """A text that is no value of its flag; str() says what was expected."""


def shown(text: str) -> str:
    """`text` quoted for a fault: on one line, without credentials, cut after about 80 characters."""
    quoted = repr(_QUERY.sub("?***", _USER.sub(r"\1***@", text)))
    return quoted if len(quoted) <= SHOWN_CHARACTERS + 2 else quoted[:SHOWN_CHARACTERS] + "…" + quoted[0]


def text(value: str) -> str:
    """Any text but the empty one."""
    if not value:
        raise Expected("expected a non-empty text")
    return value


def dynamodb_table(value: str) -> str:
    """The name of a table, by AWS's rule for names."""
    if not re.fullmatch(r"[a-zA-Z0-9_.-]{3,255}", value):
        raise Expected("expected the name of a table: 3 to 255 letters, digits, dots, hyphens and underscores")
    return value


def aws_region(value: str) -> str:
    """The name of a region, which becomes a part of a host name."""
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", value):
        raise Expected("expected the name of an AWS region, for example us-east-2")
    return value


def kubernetes_namespace(value: str) -> str:
    """The name of a Kubernetes namespace, which is a DNS label."""
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", value):
        raise Expected("expected the name of a namespace: up to 63 lower-case letters, digits and hyphens")
    return value


def fraction(value: str) -> float:
    """A decimal number from 0 to 1, both included, such as 0.3."""
    if not re.fullmatch(r"[0-9](?:\.[0-9]{1,9})?", value) or not 0 <= float(value) <= 1:
        raise Expected("expected a number from 0 to 1, for example 0.3")
    return float(value)


def base_url(value: str) -> str:
    """A bare base URL, by the rule of the wire types."""
    if fault := base_url_fault(value):
        raise Expected(fault)
    return value


def switch(value: str) -> bool:
    """True or false, for what its name alone switches on."""
    if value.lower() not in ("true", "false", "1", "0"):
        raise Expected("expected true or false")
    return value.lower() in ("true", "1")


def share(value: str) -> float:
    """A decimal fraction above 0, at most 1."""
    if not re.fullmatch(r"[01](?:\.[0-9]{1,6})?", value) or not 0 < float(value) <= 1:
        raise Expected("expected a number above 0 and at most 1, such as 0.8")
    return float(value)


def networks(value: str) -> tuple[str, ...]:
    """Addresses and networks, separated by commas."""
    try:
        return tuple(str(ipaddress.ip_network(part.strip(), strict=False)) for part in value.split(","))
    except ValueError:
        raise Expected("expected addresses or networks separated by commas, for example 10.0.0.0/8,::1") from None


def path(value: str) -> Path:
    """A path of a file; whether the file is there is not asked."""
    if not value or "\0" in value:
        raise Expected("expected the path of a file")
    return Path(value)


def whole_number(least: int, most: int = MOST) -> Converter:
    """A converter for decimal whole numbers from `least` to `most`, both included. No signs, no Unicode digits."""

    def convert(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or not least <= int(value) <= most:
            raise Expected(f"expected a whole number from {least} to {most}")
        return int(value)

    return convert


def one_of(*choices: str) -> Converter:
    """A converter that takes exactly the given words."""

    def convert(value: str) -> str:
        if value not in choices:
            raise Expected(f"expected one of {', '.join(choices)}")
        return value

    return convert


def log_level(value: str) -> str:
    """One of debug, info, warning, error; trace and warn are the words of other systems for the first and third."""
    try:
        return _LEVELS[value.lower()]
    except KeyError:
        raise Expected(f"expected one of {', '.join(_LEVELS)}") from None


def first_level(log_filter: str) -> str | None:
    """The first bare level of a Rust-style log filter such as `info,hyper=warn`; None where it has none."""
    words = (word.strip().lower() for word in log_filter.split(","))
    return next((_LEVELS[word] for word in words if word in _LEVELS), None)


def listen(value: str) -> tuple[str, int]:
    """(host without brackets, port) of HOST:PORT or [IPV6]:PORT; port 0 lets the system choose one."""
    match = _LISTEN.fullmatch(value)
    if match is None:
        raise Expected("expected HOST:PORT, an IPv6 address in brackets: 0.0.0.0:8080 or [::]:8080")
    port = int(match["port"])
    if port > 65535:
        raise Expected("expected a port from 0 to 65535")
    ipv6, host = match["ipv6"], match["host"]
    if not (_is_ipv6(ipv6) if ipv6 is not None else _is_host(host)):
        raise Expected("expected an IP address or a host name before the port")
    return (host if ipv6 is None else ipv6), port


def router(value: str) -> tuple[str, str]:
    """(id, URL) of ID=URL. The rules of both are those of the wire types, so they are asked there."""
    router_id, equals, url = value.partition("=")
    if not equals:
        raise Expected("expected ID=URL, for example ohio-0=http://10.0.0.7:8000")
    if not _is_unicode(router_id):
        raise Expected("expected an id in UTF-8")
    for part, fault in (("id", text_fault(router_id)), ("URL", base_url_fault(url))):
        if fault is not None:
            raise Expected(f"{fault} as the {part} of ID=URL")
    return router_id, url


def location(value: str) -> tuple[str, str, str | None]:
    """(cluster, region, availability zone or None) of CLUSTER=REGION[/ZONE]."""
    cluster, equals, place = value.partition("=")
    region, slash, zone = place.partition("/")
    if not equals or not _is_unicode(value):
        raise Expected("expected CLUSTER=REGION or CLUSTER=REGION/ZONE, for example east=us-east-2/us-east-2a")
    named = {"cluster": cluster, "region": region} | ({"zone": zone} if slash else {})
    for part, text_ in named.items():
        if (fault := text_fault(text_)) is not None:
            raise Expected(f"{fault} as the {part} of CLUSTER=REGION/ZONE")
    return cluster, region, zone or None


def name(value: str) -> str:
    """A name by the rule of the wire types, of a region, say."""
    if (fault := "expected UTF-8" if not _is_unicode(value) else text_fault(value)) is not None:
        raise Expected(fault)
    return value


def pool(value: str) -> tuple[str, tuple[str, ...]]:
    """(id, frontends) of ID=URL[,URL…]."""
    pool_id, equals, urls = value.partition("=")
    if not equals:
        raise Expected("expected ID=URL or ID=URL,URL, for example east=http://10.0.0.7:8000")
    if not _is_unicode(pool_id):
        raise Expected("expected an id in UTF-8")
    if (fault := text_fault(pool_id)) is not None:
        raise Expected(f"{fault} as the id of ID=URL")
    frontends = tuple(urls.split(","))
    for url in frontends:
        if (fault := base_url_fault(url)) is not None:
            raise Expected(f"{fault}; as each URL of ID=URL,URL")
    if len(set(frontends)) < len(frontends):
        raise Expected("expected each URL once")
    return pool_id, frontends


def service_url(value: str) -> str:
    """A base URL of a service, which may stand below a path, as behind an ingress."""
    match = _SERVICE_URL.fullmatch(value)
    if match is None or base_url_fault(match[1]) is not None:
        raise Expected("expected http:// or https://, a host, optionally a port and a path; no user, query or fragment")
    return value


def _is_unicode(value: str) -> bool:
    """False where bytes of the command line were not UTF-8: Python hands them over as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _is_ipv6(host: str) -> bool:
    """An IPv6 address, without a zone: those hold whatever text one likes."""
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    """An IPv4 address or a name. A name whose last label is a number is nothing but a mistyped address."""
    if not host.rstrip(".").rpartition(".")[2].isdecimal():
        return len(host) <= HOST_BYTES and _HOST_NAME.fullmatch(host) is not None
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True
