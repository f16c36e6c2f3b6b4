"""How to reach the discovery service: URLs, TLS files, the token, times. Decides what is valid; opens nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from gdsvc.client.errors import InvalidOptions
from gdsvc.model import base_url_fault

# A path may follow, for services behind an ingress; user, query and fragment may not.
_URL = re.compile(r"(https?://[^/?#@\\\s]+)((?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*)", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)

Token = Callable[[], str | None]


class Options(msgspec.Struct, frozen=True):
    """Where the discovery service is and how to speak to it. Raises InvalidOptions.

    `urls` are tried in turn, beginning with the one that answered last. `ca_path` is the private CA (PEM) instead of
    the system's; `client_cert_path` and `client_key_path` (PEM, not encrypted) go together. `token` is asked before
    each request, so that it may rotate; what it returns is sent as a bearer token, over plain HTTP too.
    `request_timeout_secs` bounds one request to one URL; `poll_interval_secs` counts where there is no watch.
    """

    urls: tuple[str, ...]
    ca_path: str | Path | None = None
    client_cert_path: str | Path | None = None
    client_key_path: str | Path | None = None
    token: Token | None = None
    connect_timeout_secs: float = 5.0
    request_timeout_secs: float = 10.0
    poll_interval_secs: float = 5.0

    def __post_init__(self) -> None:
        given: object = self.urls  # a string is a sequence of strings as well
        urls = () if isinstance(given, str) else tuple(self.urls)
        if not urls:
            raise InvalidOptions("urls", "expected a tuple of one URL or more")
        msgspec.structs.force_setattr(self, "urls", tuple(_base(url) for url in urls))
        for name in ("connect_timeout_secs", "request_timeout_secs", "poll_interval_secs"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidOptions(name, "expected a number of seconds above zero")
        if self.client_key_path is not None and self.client_cert_path is None:
            raise InvalidOptions("client_key_path", "expected client_cert_path beside it")

    @property
    def speaks_tls(self) -> bool:
        """Whether TLS files are to be read: the system's CAs alone take 20 ms."""
        files = (self.ca_path, self.client_cert_path, self.client_key_path)
        return any(files) or any(url.lower().startswith("https:") for url in self.urls)


def _base(url: str) -> str:
    """`url` without a slash at its end. What is wrong is not echoed: it may hold a password."""
    match = _URL.fullmatch(url)
    if match is None:
        raise InvalidOptions("urls", "expected http:// or https://, a host, optionally a port and a path; no user")
    if fault := base_url_fault(match[1]):
        raise InvalidOptions("urls", fault)
    return url.rstrip("/")


def bearer(token: Token | None) -> str | None:
    """The value of the Authorization header; None where there is no token. Raises InvalidOptions for what is none."""
    text = token() if token is not None else None
    if not text:
        return None
    if _TOKEN.fullmatch(text) is None:
        raise InvalidOptions("token", "expected visible ASCII characters without white space")
    return f"Bearer {text}"
