"""From argv and environ to one frozen FrontendSettings, or to all faults of both together.

Decides which flags of the Global Frontend fit each other. Which policies there are is told by the caller.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gdsvc.settings.frontend_flags import MANUAL, POLICY, frontend_flags
from gdsvc.settings.manual import help_text, version_text
from gdsvc.settings.parse import Reading, Show, Usage, log_level, print_text
from gdsvc.settings.sources import merge, read_argv

PROG = "gdsvc frontend"


class FrontendSettings(Struct, frozen=True, kw_only=True):
    """Everything that an operator can set, checked. Either `pools` or `discovery_urls` is there, not both."""

    listen_host: str  # an IP address without brackets, or a name
    listen_port: int  # 0 = any free port
    tls_cert_path: Path | None
    tls_key_path: Path | None
    tls_client_ca_path: Path | None
    pools: tuple[tuple[str, tuple[str, ...]], ...]  # (id, base URLs)
    discovery_urls: tuple[str, ...]
    region: str | None
    router_policy: str
    use_selection_core: bool
    upstream_ca_path: Path | None
    upstream_idle_secs: int | None
    trusted_proxies: tuple[str, ...]
    max_in_flight: int
    max_body_bytes: int
    max_buffer_bytes: int
    shutdown_grace_secs: int
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["auto", "json", "console"]
    access_log: bool
    load_headroom: float = 0.8  # these three are read by policies that go by load and sessions
    session_pin_ttl_secs: int = 300
    relay_port: int | None = None


def parse_frontend(
    argv: Sequence[str],
    environ: Mapping[str, str],
    policies: tuple[str, ...],
    prog: str = PROG,
    show: Show = print_text,
) -> FrontendSettings:
    """The settings of the Global Frontend. `argv` is without the program's name, `policies` are those installed.

    Raises Usage with all faults; SystemExit(0) after it gave `show` what --help or --version asked for.
    """
    rows = frontend_flags(policies)
    flags = {flag.name: flag for flag in rows}
    line = read_argv(argv, flags)
    if line.asked is not None:
        show(help_text(prog, rows, MANUAL) if line.asked == "--help" else f"{version_text()}\n")
        raise SystemExit(0)
    reading = Reading(flags, merge(line, environ, flags), line.faults, (POLICY,))
    reading.read_modes()
    reading.read_others()
    reading.check_named_once()
    reading.check_tls()
    reading.faults += [*_pool_faults(reading), *_core_faults(reading), *_limit_faults(reading)]
    if reading.faults:
        raise Usage(tuple(reading.faults))
    return _settings(reading, environ)


def _pool_faults(reading: Reading) -> list[str]:
    pool, discovery = "--pool", "--discovery-url"
    if pool in reading.given and discovery in reading.given:
        return [f"{reading.label(pool)}: expected without {reading.label(discovery)}: pools come from one of them"]
    if pool not in reading.given and discovery not in reading.given:
        return [f"expected {pool} or {discovery}: where do the pools come from?"]
    return []


def _core_faults(reading: Reading) -> list[str]:
    core, policy = "--use-selection-core", reading.values.get(POLICY)
    if not reading.values.get(core) or policy in (None, "round-robin"):
        return []
    return [f"{reading.label(core)}: expected only with {POLICY} round-robin, but {reading.label(POLICY)} is {policy}"]


def _limit_faults(reading: Reading) -> list[str]:
    body, buffer = "--max-body-bytes", "--max-buffer-bytes"
    one, together = reading.values.get(body), reading.values.get(buffer)
    if isinstance(one, int) and isinstance(together, int) and one > together:
        return [f"{reading.label(buffer)}: expected at least {reading.label(body)}, got {together} and {one}"]
    return []


def _settings(reading: Reading, environ: Mapping[str, str]) -> FrontendSettings:
    fields = {name.removeprefix("--").replace("-", "_"): value for name, value in reading.values.items()}
    fields["listen_host"], fields["listen_port"] = msgspec.convert(fields["listen"], tuple[str, int])
    fields["pools"], fields["discovery_urls"] = fields["pool"], fields["discovery_url"]
    fields["trusted_proxies"] = fields["trusted_proxies"] or ()
    fields["log_level"] = log_level(reading, environ)
    return msgspec.convert(fields, FrontendSettings)
