"""What is wrong with the head of a request that granian let through, whatever it asks for."""

import re
from functools import lru_cache
from typing import Final

from gdsvc.asgi.types import Scope, header
from gdsvc.errors import GdsvcError

REFUSED_METHODS: Final = ("CONNECT", "TRACE")  # no route has them, and what follows a CONNECT is no request
# RFC 9110 section 7.2; header() makes a list with commas of two fields
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+;=-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")


class BadHead(GdsvcError):
    """The request cannot be read for sure; with `closes` the connection must carry no other."""

    def __init__(self, expectation: str, *, closes: bool = False) -> None:
        super().__init__(expectation)
        self.closes = closes


def check_head(scope: Scope) -> None:
    """Raises BadHead."""
    check_fields(header(scope, b"host"), header(scope, b"transfer-encoding"), scope["http_version"])


def check_fields(host: bytes | None, coding: bytes | None, http_version: str) -> None:
    """The same, by the values of Host and Transfer-Encoding. Raises BadHead."""
    if not (_is_host(host) if host else http_version != "1.1"):  # granian gives b"" where there is none
        raise BadHead("expected one Host header that names a host")
    if coding is not None and coding.lower() != b"chunked":  # others reach us half decoded, if at all
        raise BadHead("expected no transfer coding but chunked", closes=True)


@lru_cache(64)  # callers send one of a few
def _is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None
