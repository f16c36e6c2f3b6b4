"""What a run simulates, and where: numbers that were checked, nothing that runs."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct


class WrongUrl(ValueError):
    """The URL of the service is none."""


class Target(Struct, frozen=True):
    """Where the service listens; `ca` is a file of certificates to trust instead of the system's."""

    host: str
    port: int
    tls: bool = False
    ca: str | None = None

    @property
    def host_field(self) -> str:
        """The value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Plan(Struct, frozen=True):
    """The fleet and what happens to it. Rates are per second; `heartbeat_secs` None: as the service asks."""

    pools: int = 1000
    relays: int = 1
    watchers: int = 10
    stuck: int = 0
    changes: float = 0.0
    turnover: float = 0.0
    pauses: float = 0.0
    deaths: float = 0.0
    reconnects: float = 0.0
    seconds: float = 60.0
    heartbeat_secs: float | None = None
    jitter: float = 0.1
    connections: int = 4000


def target_of(url: str, ca: str | None = None) -> Target:
    """The target that a base URL names. Raises WrongUrl."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WrongUrl(f"{url!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise WrongUrl(f"{url!r}: expected http:// or https://, a host and perhaps a port")
    tls = parts.scheme == "https"
    return Target(parts.hostname, port or (443 if tls else 80), tls, ca)


def faults(plan: Plan, *, tls: bool = False) -> Iterator[str]:
    """What is wrong with a plan, each fault by its flag."""
    for name in ("pools", "relays", "connections"):
        if getattr(plan, name) < 1:
            yield f"--{name}: expected 1 or more"
    for name in ("watchers", "stuck", "changes", "turnover", "pauses", "deaths", "reconnects"):
        if getattr(plan, name) < 0:
            yield f"--{name}: expected 0 or more"
    if plan.seconds <= 0:
        yield "--seconds: expected more than 0"
    if plan.heartbeat_secs is not None and plan.heartbeat_secs <= 0:
        yield "--heartbeat-secs: expected more than 0"
    if not 0 <= plan.jitter < 1:
        yield "--jitter: expected a share from 0 up to, but not, 1"
    if plan.stuck and tls:
        yield "--stuck: only without TLS, whose handshake has to be read"
