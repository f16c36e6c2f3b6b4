"""Where a frontend listens: scheme, host and port, taken out of a bare base URL."""

from typing import Self
from urllib.parse import urlsplit

from msgspec import Struct

from gdsvc.errors import Invalid
from gdsvc.model import base_url_fault

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(Struct, frozen=True, cache_hash=True):
    """`host` is a name or an address, an IPv6 one without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Self:
        """The origin of a bare base URL such as `http://[2001:db8::1]:8000`. Raises Invalid."""
        if fault := base_url_fault(url):
            raise Invalid(fault, "url")
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """What stands in a Host header: brackets around IPv6, the port where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"
