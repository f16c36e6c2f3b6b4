"""From argv and environ to one frozen Settings, or to all faults of both together.

Decides which values win, which flags fit each other and the mode. What one text means is decided in values.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gdsvc.settings import tls, values
from gdsvc.settings.flags import CHOOSERS, CLUSTERS, DYNAMODB, KUBERNETES, SERVE_FLAGS, TABLE_FLAGS, Flag, Mode
from gdsvc.settings.manual import SERVE, TABLE, TABLE_COMMANDS, help_text, version_text
from gdsvc.settings.sources import Given, merge, read_argv
from gdsvc.settings.values import Expected, shown

LEVEL_VARIABLE = "DYN_LOG"  # what the other programs of the fleet read their level from
KUBECONFIG_VARIABLE = "KUBECONFIG"


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """What is set for the modes that read EndpointSlices; `kubeconfig` None means the pod's service account."""

    router_namespace: str | None  # these three are set together or not at all
    router_service: str | None
    router_port_name: str | None
    pool_service_suffix: str
    frontend_service_suffix: str
    frontend_port_name: str
    locations: tuple[tuple[str, str, str | None], ...]  # (cluster, region, availability zone)
    registrations: Literal["join", "off"]
    relist_interval_secs: int
    kubeconfig: str | None  # paths joined by colons


class DynamoDbSettings(Struct, frozen=True, kw_only=True):
    """What is set for registrations in DynamoDB. None of region and endpoint means what AWS's own chain finds."""

    dynamodb_table: str
    dynamodb_region: str | None
    dynamodb_endpoint_url: str | None
    dynamodb_poll_interval_secs: int


class KubernetesSettings(Struct, frozen=True, kw_only=True):
    """What is set for registrations in Leases. None means the pod's own namespace, and its service account."""

    kubernetes_namespace: str | None
    kubernetes_renew_fraction: float
    kubeconfig: str | None  # paths joined by colons


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that an operator can set, checked. Paths name files that passed their check at start."""

    listen_host: str  # an IP address without brackets, or a name
    listen_port: int  # 0 = any free port
    tls_cert_path: Path | None
    tls_key_path: Path | None
    tls_client_ca_path: Path | None
    pool_discovery: Literal["registrations", "karmada", "mcs"]
    registration_storage: Literal["memory", "dynamodb", "kubernetes"]
    heartbeat_interval_secs: int
    lease_duration_secs: int
    routers: tuple[tuple[str, str], ...]  # (id, base URL)
    max_pools: int | None
    max_watchers: int
    max_body_bytes: int
    shutdown_grace_secs: int
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["auto", "json", "console"]
    clusters: ClusterSettings | None = None  # where pool_discovery is karmada or mcs
    dynamodb: DynamoDbSettings | None = None  # where registration_storage is dynamodb
    kubernetes: KubernetesSettings | None = None  # where registration_storage is kubernetes


class Usage(Exception):
    """A command line that cannot be followed: `faults` holds one sentence for each reason, all of them."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def format_faults(faults: Sequence[str], prog: str = "gdsvc serve") -> str:
    """The faults one a line and a hint, ending in a newline: for stderr, before exit code 2."""
    return "".join(f"{line}\n" for line in (*faults, f"try '{prog} --help'"))


Show = Callable[[str], object]


def print_text(text: str) -> None:
    """The Show of a program that has no other."""
    sys.stdout.write(text)


def parse_serve(
    argv: Sequence[str], environ: Mapping[str, str], prog: str = "gdsvc serve", show: Show = print_text
) -> Settings:
    """The settings of the discovery service. `argv` is without the program's name.

    Raises Usage with all faults; SystemExit(0) after it gave `show` what --help or --version asked for.
    """
    flags = {flag.name: flag for flag in SERVE_FLAGS}
    line = read_argv(argv, flags)
    if line.asked is not None:
        show(help_text(prog, SERVE_FLAGS, SERVE) if line.asked == "--help" else f"{version_text()}\n")
        raise SystemExit(0)
    reading = Reading(flags, merge(line, environ, flags), line.faults)
    reading.read_modes()
    reading.read_others()
    reading.check_lease()
    reading.check_named_once()
    reading.check_clusters()
    reading.check_dynamodb()
    reading.check_tls()
    if reading.faults:
        raise Usage(tuple(reading.faults))
    return _settings(reading, environ)


class TableSettings(Struct, frozen=True, kw_only=True):
    """What is set for a command on the table of registrations."""

    command: Literal["create-table", "check"]
    dynamodb_table: str
    dynamodb_region: str | None
    dynamodb_endpoint_url: str | None
    shards: int
    dry_run: bool


def parse_table(argv: Sequence[str], environ: Mapping[str, str], prog: str, show: Show = print_text) -> TableSettings:
    """The settings of `gdsvc dynamodb COMMAND`; `argv` begins with the command. Raises as parse_serve does."""
    flags = {flag.name: flag for flag in TABLE_FLAGS}
    command = argv[0] if argv and not argv[0].startswith("-") else None
    line = read_argv(argv if command is None else argv[1:], flags)
    if line.asked is not None:
        show(help_text(prog, TABLE_FLAGS, TABLE) if line.asked == "--help" else f"{version_text()}\n")
        raise SystemExit(0)
    reading = Reading(flags, merge(line, environ, flags), line.faults)
    if command not in TABLE_COMMANDS:
        given = "" if command is None else f", got {shown(command)}"
        reading.faults.insert(0, f"expected one of the commands {', '.join(TABLE_COMMANDS)}{given}")
    reading.read_others()
    if "--dynamodb-table" not in reading.given:
        reading.faults.append("--dynamodb-table: expected the table to work on")
    if reading.faults:
        raise Usage(tuple(reading.faults))
    fields = {name.removeprefix("--").replace("-", "_"): value for name, value in reading.values.items()}
    return msgspec.convert(fields | {"command": command, "dry_run": fields["dry_run"] == "yes"}, TableSettings)


class Reading:
    """One command line while it is read: values by flag name so far, faults so far.

    `choosers` are the flags that choose a mode.
    """

    def __init__(
        self,
        flags: Mapping[str, Flag],
        given: Mapping[str, Given],
        faults: list[str],
        choosers: Sequence[str] = CHOOSERS,
    ) -> None:
        self.flags = flags
        self.given = given
        self.faults = faults
        self.choosers = choosers
        self.values: dict[str, object] = {}

    def label(self, name: str) -> str:
        return self.given[name].label if name in self.given else name

    def read_modes(self) -> None:
        """The flags that choose a mode, on which it depends which others may be set."""
        for name in self.choosers:
            self._read(self.flags[name])

    def read_others(self) -> None:
        for name, flag in self.flags.items():
            if name not in self.choosers and self._fits_mode(flag):
                self._read(flag)

    def _fits_mode(self, flag: Flag) -> bool:
        """Whether the flag is to be read: its mode is chosen. A fault where it is set for another mode."""
        mode = flag.only_with
        if mode is None or mode.flag not in self.flags:  # a command that has no modes
            return True
        chosen = self.values.get(mode.flag)
        if chosen is not None and chosen not in mode.choices and flag.name in self.given:
            self.faults.append(self._misplaced(flag.name, mode, str(chosen)))
        return chosen in mode.choices

    def _misplaced(self, name: str, mode: Mode, chosen: str) -> str:
        return f"{self.label(name)}: expected only with {mode}, but {self.label(mode.flag)} is {chosen}"

    def _read(self, flag: Flag) -> None:
        """Converts what was given, else the default. A faulty flag leaves no value."""
        given = self.given.get(flag.name)
        default = () if flag.default is None else (flag.default,)
        texts = default if given is None else given.texts
        converted = [value for text in texts if (value := self._convert(flag, text)) is not None]
        if flag.repeatable:
            self.values[flag.name] = tuple(converted)
        elif converted or given is None:
            self.values[flag.name] = converted[0] if converted else None

    def _convert(self, flag: Flag, text: str) -> object | None:
        try:
            return flag.convert(text)
        except Expected as expected:
            self.faults.append(f"{self.label(flag.name)}: {expected}, got {shown(text)}")
            return None

    def check_lease(self) -> None:
        heartbeat, lease = "--heartbeat-interval-secs", "--lease-duration-secs"
        beat, duration = self.values.get(heartbeat), self.values.get(lease)
        if isinstance(beat, int) and isinstance(duration, int) and beat >= duration:
            self.faults.append(
                f"{self.label(heartbeat)}: expected less than {self.label(lease)}, got {beat} and {duration}"
            )

    def check_named_once(self) -> None:
        """What is given twice under one name contradicts itself."""
        for flag, word in (("--router", "id"), ("--location", "cluster"), ("--pool", "id")):
            given = msgspec.convert(self.values.get(flag, ()), tuple[tuple[object, ...], ...])
            for name, count in Counter(str(first) for first, *_ in given).items():
                if count > 1:
                    self.faults.append(
                        f"{self.label(flag)}: expected each {word} once, got {shown(name)} {count} times"
                    )

    def check_clusters(self) -> None:
        routers = ("--router-namespace", "--router-service", "--router-port-name")
        missing = [name for name in routers if self.values.get(name) is None]
        for name in routers:
            if self.values.get(name) is not None and missing:
                self.faults.append(f"{self.label(name)}: expected together with {' and '.join(missing)}")
        relay, frontend = "--pool-service-suffix", "--frontend-service-suffix"
        if self.values.get(relay) is not None and self.values.get(relay) == self.values.get(frontend):
            same = shown(str(self.values[relay]))
            self.faults.append(f"{self.label(frontend)}: expected another suffix than {self.label(relay)}, got {same}")

    def check_dynamodb(self) -> None:
        if self.values.get("--registration-storage") not in DYNAMODB.choices:
            return
        table, poll, lease = "--dynamodb-table", "--dynamodb-poll-interval-secs", "--lease-duration-secs"
        if table not in self.given:
            self.faults.append(f"{table}: expected with {self.label('--registration-storage')} dynamodb")
        every, duration = self.values.get(poll), self.values.get(lease)
        if isinstance(every, int) and isinstance(duration, int) and every >= duration:
            self.faults.append(
                f"{self.label(poll)}: expected less than {self.label(lease)}, got {every} and {duration}"
            )

    def check_tls(self) -> None:
        cert, key, ca = "--tls-cert-path", "--tls-key-path", "--tls-client-ca-path"
        for name, others in ((cert, (key,)), (key, (cert,)), (ca, (cert, key))):
            missing = [other for other in others if other not in self.given]
            if name in self.given and missing:
                self.faults.append(f"{self.label(name)}: expected together with {' and '.join(missing)}")
        checks = ((cert, tls.check_certificates), (key, tls.check_key), (ca, tls.check_certificates))
        passed = {name: path for name, check in checks if (path := self._checked_file(name, check)) is not None}
        if cert in passed and key in passed:
            self._checked_file(key, lambda path: tls.check_pair(passed[cert], path))

    def _checked_file(self, name: str, check: Callable[[Path], None]) -> Path | None:
        """The path of the flag if it is set and its file passes the check."""
        path = self.values.get(name)
        if not isinstance(path, Path):
            return None
        try:
            check(path)
        except Expected as expected:
            self.faults.append(f"{self.label(name)}: {expected}, got {shown(str(path))}")
            return None
        return path


def log_level(reading: Reading, environ: Mapping[str, str]) -> object:
    """The level that counts: what is set for us, else what the fleet's own variable says, else the default."""
    fallback = values.first_level(environ.get(LEVEL_VARIABLE, ""))
    return fallback if fallback and "--log-level" not in reading.given else reading.values["--log-level"]


def _settings(reading: Reading, environ: Mapping[str, str]) -> Settings:
    fields = {name.removeprefix("--").replace("-", "_"): value for name, value in reading.values.items()}
    fields["listen_host"], fields["listen_port"] = msgspec.convert(fields["listen"], tuple[str, int])
    fields["routers"] = fields.get("router", ())
    fields["kubeconfig"] = environ.get(KUBECONFIG_VARIABLE) or None
    if fields["pool_discovery"] in CLUSTERS.choices:
        fields["locations"] = fields["location"]
        fields["clusters"] = msgspec.convert(fields, ClusterSettings)
    if fields["registration_storage"] in DYNAMODB.choices:
        fields["dynamodb"] = msgspec.convert(fields, DynamoDbSettings)
    if fields["registration_storage"] in KUBERNETES.choices:
        fields["kubernetes"] = msgspec.convert(fields, KubernetesSettings)
    fields["log_level"] = log_level(reading, environ)
    return msgspec.convert(fields, Settings)
