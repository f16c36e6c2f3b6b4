import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.settings import (
    ClusterSettings,
    DynamoDbSettings,
    KubernetesSettings,
    Settings,
    Usage,
    format_faults,
    parse_serve,
    parse_table,
)
from gdsvc.settings.flags import SERVE_FLAGS, Heading


def parse(*argv: str, **environ: str) -> Settings:
    return parse_serve(argv, environ)


def faults(*argv: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(Usage) as caught:
        parse_serve(argv, environ)
    return caught.value.faults


def fault(*argv: str, **environ: str) -> str:
    found = faults(*argv, **environ)
    assert len(found) == 1, found
    return found[0]


# ---------------------------------------------------------------------------------------- defaults and sources


def test_nothing_set_gives_the_documented_defaults() -> None:
    assert parse() == Settings(
        listen_host="0.0.0.0",
        listen_port=8080,
        tls_cert_path=None,
        tls_key_path=None,
        tls_client_ca_path=None,
        pool_discovery="registrations",
        registration_storage="memory",
        heartbeat_interval_secs=5,
        lease_duration_secs=15,
        routers=(),
        max_pools=None,
        max_watchers=1000,
        max_body_bytes=2097152,
        shutdown_grace_secs=20,
        log_level="info",
        log_format="auto",
    )


def test_a_value_may_follow_its_flag_or_an_equals_sign() -> None:
    assert parse("--max-pools", "7") == parse("--max-pools=7")


def test_of_a_flag_given_twice_the_last_wins() -> None:
    assert parse("--max-pools", "nonsense", "--max-pools=8").max_pools == 8


def test_a_variable_sets_what_its_flag_sets() -> None:
    assert parse(GDSVC_LEASE_DURATION_SECS="30").lease_duration_secs == 30


def test_the_command_line_wins_over_a_variable_even_a_faulty_one() -> None:
    assert parse("--lease-duration-secs=40", GDSVC_LEASE_DURATION_SECS="x").lease_duration_secs == 40


def test_an_empty_variable_is_unset() -> None:
    assert parse(GDSVC_LEASE_DURATION_SECS="", GDSVC_ROUTER_SERVICE="") == parse()


def test_unknown_variables_such_as_those_of_a_service_named_gdsvc_are_ignored() -> None:
    assert parse(GDSVC_PORT="tcp://10.0.0.1:80", GDSVC_SERVICE_HOST="10.0.0.1", GDSVC_X="y") == parse()


def test_a_fault_of_a_variable_names_variable_and_flag() -> None:
    assert fault(GDSVC_MAX_POOLS="0") == (
        "--max-pools (from GDSVC_MAX_POOLS): expected a whole number from 1 to 999999999999999999, got '0'"
    )


def test_every_flag_has_its_variable_in_capitals() -> None:
    assert {flag.variable for flag in SERVE_FLAGS} == {
        "GDSVC_" + flag.name[2:].upper().replace("-", "_") for flag in SERVE_FLAGS
    }


# ------------------------------------------------------------------------------------------------- command line


def test_all_faults_of_a_command_line_come_together() -> None:
    found = faults(
        *("--listen", "nowhere", "--rooter=x", "--lease-duration-secs", "5", "--max-watchers", "--log-level=loud"),
        *("--router", "a", "--tls-cert-path", "/nonexistent/cert", "extra"),
        GDSVC_MAX_BODY_BYTES="1023",
        GDSVC_DYNAMODB_TABLE="pools",
    )
    named = (
        "--rooter",
        "extra",
        "--max-watchers",
        "--listen",
        "--max-body-bytes",
        "--log-level",
        "--router",
        "dynamodb",
    )
    assert all(
        any(name in line for line in found) for name in (*named, "--heartbeat", "--tls-key-path", "/nonexistent")
    )
    assert len(found) == 11
    assert not any("\n" in line for line in found)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--rooter", "x"), "unknown flag '--rooter': did you mean --router?"),
        (("--max-pool", "1"), "unknown flag '--max-pool': did you mean --max-pools?"),
        (("--zzz=1",), "unknown flag '--zzz': expected one that --help lists"),
        (("-p", "hunter2"), "unknown flag '-p': expected one that --help lists"),
        (("8080",), "unexpected argument '8080': expected only flags"),
        (("",), "unexpected argument '': expected only flags"),
        (("--listen",), "--listen: expected a value, HOST:PORT"),
        (("--listen", "--max-pools", "1"), "--listen: expected a value, HOST:PORT"),
        (("--version=1",), "--version: expected no value"),
    ],
)
def test_what_is_no_flag_or_lacks_its_value_is_named(argv: tuple[str, ...], expected: str) -> None:
    assert fault(*argv) == expected


def test_faults_are_printed_one_a_line_with_a_hint() -> None:
    assert format_faults(("a", "b"), "gdsvc serve") == "a\nb\ntry 'gdsvc serve --help'\n"


@given(st.lists(st.text() | st.sampled_from([flag.name for flag in SERVE_FLAGS] + ["-h1", "--", "-", "=", "9" * 5000])))
def test_no_command_line_ends_in_anything_but_settings_or_faults(argv: list[str]) -> None:
    try:
        parse_serve([token for token in argv if token not in ("-h", "--help", "--version")], {})
    except Usage as usage:
        found = usage.faults
    else:
        found = ("none",)
    assert found
    assert all(line.isprintable() and len(line) < 300 for line in found)


# ------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("[::]:8080", "::", 8080),
        ("[::1]:1", "::1", 1),
        ("localhost:80", "localhost", 80),
        ("a-b.example.org.:80", "a-b.example.org.", 80),
    ],
)
def test_listen_takes_a_host_and_a_port(text: str, host: str, port: int) -> None:
    settings = parse("--listen", text)
    assert (settings.listen_host, settings.listen_port) == (host, port)


LISTEN_FAULTS = (
    "8080 :8080 host ::1:80 :::80 [::1] [::1]80 [x]:80 [1.2.3.4]:80 h:65536 h:-1 h:\u0663 h:999999 h:8.0 1.2.3:80"
)


@pytest.mark.parametrize(
    "text", [*LISTEN_FAULTS.split(), "256.1.1.1:80", "[fe80::1%eth0]:80", "a b:80", "ho\nst:80", "é:80", "", "-a:1"]
)
def test_listen_refuses_what_is_no_host_and_port(text: str) -> None:
    assert re.match("--listen: expected .*, got ", fault(f"--listen={text}"))


NUMBERS = {
    "--heartbeat-interval-secs": (1, None),
    "--lease-duration-secs": (6, 86400),
    "--max-pools": (1, None),
    "--max-watchers": (1, None),
    "--max-body-bytes": (1024, None),
    "--shutdown-grace-secs": (0, None),
}


@pytest.mark.parametrize(("name", "least"), [(name, least) for name, (least, _) in NUMBERS.items()])
def test_a_number_is_taken_from_its_least_value_on(name: str, least: int) -> None:
    assert getattr(parse(name, str(least)), name[2:].replace("-", "_")) == least
    assert name in fault(name, str(least - 1))


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+7", "7.0", "7s", " 7", "7\n", "1e3", "\u0667", "\uff17", "\u00b2", "9" * 19, "9" * 5000, "0x7", "1_0"],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_plain_decimal_digits(name: str, text: str) -> None:
    line = fault(f"{name}={text}")
    assert line.startswith(f"{name}: expected a whole number from ")
    assert len(line) < 200


@pytest.mark.parametrize(("lease", "accepted"), [("86400", True), ("86401", False)])
def test_a_lease_lasts_a_day_at_most(lease: str, accepted: bool) -> None:
    if accepted:
        assert parse("--lease-duration-secs", lease).lease_duration_secs == 86400
    else:
        assert "86400" in fault("--lease-duration-secs", lease)


@pytest.mark.parametrize(("beat", "lease"), [("14", "15"), ("1", "2"), ("86399", "86400")])
def test_a_heartbeat_below_the_lease_is_taken(beat: str, lease: str) -> None:
    settings = parse("--heartbeat-interval-secs", beat, "--lease-duration-secs", lease)
    assert (settings.heartbeat_interval_secs, settings.lease_duration_secs) == (int(beat), int(lease))


@pytest.mark.parametrize(("beat", "lease"), [("15", "15"), ("16", "15")])
def test_a_heartbeat_not_below_the_lease_is_a_fault_of_both(beat: str, lease: str) -> None:
    assert fault("--heartbeat-interval-secs", beat, GDSVC_LEASE_DURATION_SECS=lease) == (
        "--heartbeat-interval-secs: expected less than --lease-duration-secs (from GDSVC_LEASE_DURATION_SECS), "
        f"got {beat} and {lease}"
    )


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("trace", "debug"),
        ("DEBUG", "debug"),
        ("info", "info"),
        ("warn", "warning"),
        ("Warning", "warning"),
        ("error", "error"),
    ],
)
def test_a_level_is_read_without_regard_to_case(text: str, level: str) -> None:
    assert parse("--log-level", text).log_level == level


@pytest.mark.parametrize(
    ("log_filter", "level"),
    [
        ("debug", "debug"),
        ("hyper=warn,ERROR", "error"),
        ("info,hyper=warn,debug", "info"),
        (" trace ,x", "debug"),
        ("hyper=warn", "info"),
        ("gibberish", "info"),
        ("", "info"),
    ],
)
def test_dyn_log_sets_the_level_by_its_first_bare_one(log_filter: str, level: str) -> None:
    assert parse(DYN_LOG=log_filter).log_level == level


def test_dyn_log_gives_way_to_the_flag_and_to_its_variable() -> None:
    assert parse("--log-level=error", DYN_LOG="debug").log_level == "error"
    assert parse(DYN_LOG="debug", GDSVC_LOG_LEVEL="warn").log_level == "warning"


def test_a_word_is_taken_only_from_its_list() -> None:
    assert parse("--log-format=console").log_format == "console"
    assert fault("--log-format=Console") == "--log-format: expected one of auto, json, console, got 'Console'"


# ------------------------------------------------------------------------------------------------------ routers


def test_routers_keep_their_order() -> None:
    assert parse("--router", "b=http://b:1", "--router=a=https://[::1]/").routers == (
        ("b", "http://b:1"),
        ("a", "https://[::1]/"),
    )


def test_the_variable_of_routers_is_split_on_white_space() -> None:
    assert parse(GDSVC_ROUTER=" a=http://a\n\tb=http://b ").routers == (("a", "http://a"), ("b", "http://b"))


def test_routers_of_the_command_line_replace_those_of_the_variable() -> None:
    assert parse("--router=a=http://a", GDSVC_ROUTER="b=http://b").routers == (("a", "http://a"),)


def test_a_router_given_twice_is_a_fault_that_names_its_id() -> None:
    assert fault(GDSVC_ROUTER="a=http://a b=http://b a=http://c") == (
        "--router (from GDSVC_ROUTER): expected each id once, got 'a' 2 times"
    )


def test_a_router_id_has_at_most_253_bytes() -> None:
    assert parse(f"--router={'é' * 126}a=http://h").routers[0][0] == "é" * 126 + "a"
    assert "253 bytes" in fault(f"--router={'é' * 127}=http://h")


@pytest.mark.parametrize("router_id", ["", " a", "a ", "a\n", "a\x7fb", "a\u202eb", "a\udcffb"])
def test_a_router_id_is_a_plain_name(router_id: str) -> None:
    line = fault(f"--router={router_id}=http://h")
    assert line.startswith("--router: expected ")
    assert line.isprintable()


URL_FAULTS = "h ftp://h http:// http://h/p http://h? http://h?q=1 http://h#f http://h:0 http://h:65536 http://::1"


@pytest.mark.parametrize("url", [*URL_FAULTS.split(), ""])
def test_a_router_url_is_a_bare_base_url(url: str) -> None:
    assert re.match(r"--router: expected .* as the URL of ID=URL, got 'a=", fault(f"--router=a={url}"))


SECRETS = ["a=http://u:hunter2@h", "http://u:hunter2@h", "http://u:x=hunter2@h", "a=http://u:hunter2/@h", "hunter2@h"]


@pytest.mark.parametrize("value", [*SECRETS, f"a=http://u:hunter2{'x' * 99}@h", "a=http://h?password=hunter2"])
@pytest.mark.parametrize("flag", ["--router=", "--listen=", "--rooter=", "--tls-cert-path=", ""])
def test_no_fault_echoes_a_password(flag: str, value: str) -> None:
    assert not any("hunter2" in line for line in faults(flag + value))


def test_a_fault_echoes_eighty_characters_without_control_characters() -> None:
    line = fault("--log-format=\x1b[31m\n" + "x" * 999)
    assert line.isprintable()
    assert line.endswith("…'")
    assert line.count("x") < 80


# -------------------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("flag", [flag for flag in SERVE_FLAGS if flag.heading in (Heading.CLUSTERS, Heading.STORAGE)])
def test_a_flag_of_another_mode_is_refused_by_naming_both(flag: object) -> None:
    assert isinstance(flag, type(SERVE_FLAGS[0]))
    assert flag.only_with is not None
    set_by_flag = fault(flag.name, "x")
    assert flag.name in set_by_flag
    assert flag.only_with.flag in set_by_flag
    assert f"(from {flag.variable})" in fault(**{flag.variable: "x"})


def test_with_a_mode_that_nobody_knows_no_flag_counts_as_misplaced() -> None:
    assert fault("--pool-discovery=consul", "--router-service=x").startswith("--pool-discovery: expected one of")


# ----------------------------------------------------------------------------------------------- karmada and mcs

MCS = ("--pool-discovery", "mcs")


def test_without_a_cluster_mode_there_are_no_cluster_settings() -> None:
    assert parse_serve([], {"KUBECONFIG": "/there"}).clusters is None


@pytest.mark.parametrize("mode", ["karmada", "mcs"])
def test_the_defaults_of_the_cluster_modes(mode: str) -> None:
    clusters = parse_serve(["--pool-discovery", mode], {}).clusters
    assert clusters == ClusterSettings(
        router_namespace=None,
        router_service=None,
        router_port_name=None,
        pool_service_suffix="-pool-relay",
        frontend_service_suffix="-frontend",
        frontend_port_name="http",
        locations=(),
        registrations="join",
        relist_interval_secs=600,
        kubeconfig=None,
    )


@pytest.mark.parametrize(("value", "expected"), [("/a:/b", "/a:/b"), ("", None)])
def test_kubeconfig_is_read_and_an_empty_one_is_unset(value: str, expected: str | None) -> None:
    clusters = parse_serve(MCS, {"KUBECONFIG": value}).clusters
    assert clusters is not None
    assert clusters.kubeconfig == expected


def test_locations_come_with_and_without_a_zone() -> None:
    clusters = parse_serve((*MCS, "--location=a=us-east-2", "--location=b=eu/eu-1a"), {}).clusters
    assert clusters is not None
    assert clusters.locations == (("a", "us-east-2", None), ("b", "eu", "eu-1a"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "expected CLUSTER=REGION"),
        ("=r", "as the cluster of"),
        ("a=", "as the region of"),
        ("a=r/", "as the zone of"),
        ("a= r", "as the region of"),
    ],
)
def test_a_location_that_cannot_be_read_is_said_by_its_part(text: str, said: str) -> None:
    assert said in fault(*MCS, "--location", text)


def test_a_cluster_has_one_location() -> None:
    assert "expected each cluster once, got 'a' 2 times" in fault(*MCS, "--location=a=r", "--location=a=s")


@pytest.mark.parametrize("missing", ["--router-namespace", "--router-service", "--router-port-name"])
def test_the_three_router_flags_are_set_together(missing: str) -> None:
    names = ["--router-namespace", "--router-service", "--router-port-name"]
    names.remove(missing)
    found = faults(*MCS, *(part for name in names for part in (name, "x")))
    assert found == tuple(f"{name}: expected together with {missing}" for name in names)


def test_relays_and_frontends_are_told_apart_by_their_suffixes() -> None:
    line = fault(*MCS, "--frontend-service-suffix=-pool-relay")
    assert line.startswith("--frontend-service-suffix: expected another suffix than --pool-service-suffix")


# --------------------------------------------------------------------------------------------- help and version


def shown(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exited:
        parse_serve(argv, {"GDSVC_MAX_POOLS": "nonsense"})
    assert exited.value.code == 0
    return capsys.readouterr().out


def test_help_has_exactly_four_headings(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(("--help",), capsys)
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == [heading.value for heading in Heading]


@pytest.mark.parametrize("columns", ["60", "200"])
def test_help_names_each_flag_its_default_and_its_variable_at_every_width(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = shown(("--listen=wrong", "-h"), capsys)
    assert max(map(len, text.splitlines())) <= int(columns)
    words = " ".join(text.split())
    for flag in SERVE_FLAGS:
        assert f"{flag.name} {flag.metavar} " in words
        assert f"(default: {flag.default or 'none'}; environment: {flag.variable})" in words


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"gdsvc \d+\.\d+\.\d+\S*\n", shown(("--version",), capsys))


# ------------------------------------------------------------------------------------------------- DynamoDB


def test_with_dynamodb_the_table_is_required_and_the_rest_has_defaults() -> None:
    assert (
        fault("--registration-storage", "dynamodb") == "--dynamodb-table: expected with --registration-storage dynamodb"
    )
    settings = parse_serve(["--registration-storage", "dynamodb", "--dynamodb-table", "pools"], {})
    assert settings.dynamodb == DynamoDbSettings(
        dynamodb_table="pools", dynamodb_region=None, dynamodb_endpoint_url=None, dynamodb_poll_interval_secs=2
    )
    assert parse_serve([], {}).dynamodb is None


@pytest.mark.parametrize("discovery", ["registrations", "karmada", "mcs"])
def test_dynamodb_goes_with_every_pool_discovery(discovery: str) -> None:
    environ = {"GDSVC_REGISTRATION_STORAGE": "dynamodb", "GDSVC_DYNAMODB_TABLE": "pools"}
    settings = parse_serve(["--pool-discovery", discovery], environ)
    assert (settings.pool_discovery, settings.dynamodb is None) == (discovery, False)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--dynamodb-table", "ab"),
        ("--dynamodb-table", "a/b/c"),
        ("--dynamodb-table", "é" * 5),
        ("--dynamodb-region", "us east"),
        ("--dynamodb-region", "evil.example/"),
        ("--dynamodb-endpoint-url", "localhost:8000"),
        ("--dynamodb-endpoint-url", "http://user:secret@host"),
        ("--dynamodb-poll-interval-secs", "0"),
    ],
)
def test_what_is_no_table_region_endpoint_or_interval_is_told_without_secrets(flag: str, value: str) -> None:
    line = fault("--registration-storage", "dynamodb", "--dynamodb-table", "pools", flag, value)
    assert line.startswith(f"{flag}: expected ")
    assert "secret" not in line


def test_the_table_is_read_more_often_than_a_lease_lasts() -> None:
    argv = ["--registration-storage=dynamodb", "--dynamodb-table=pools", "--dynamodb-poll-interval-secs"]
    assert parse_serve([*argv, "14"], {}).dynamodb is not None
    told = "--dynamodb-poll-interval-secs: expected less than --lease-duration-secs, got 15 and 15"
    assert fault(*argv, "15") == told


def test_the_commands_on_the_table_take_the_flags_of_the_service_and_their_own() -> None:
    settings = parse_table(["create-table", "--dry-run", "--shards=3"], {"GDSVC_DYNAMODB_TABLE": "pools"}, "p")
    assert (settings.command, settings.dynamodb_table, settings.shards, settings.dry_run) == (
        "create-table", "pools", 3, True,
    )  # fmt: skip
    assert not parse_table(["check", "--dynamodb-table", "pools"], {}, "p").dry_run


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], ("expected one of the commands create-table, check", "--dynamodb-table: expected the table to work on")),
        (["drop", "--dynamodb-table=pools"], ("expected one of the commands create-table, check, got 'drop'",)),
        (["check", "--dynamodb-table=pools", "--dry-run=no"], ("--dry-run: expected no value",)),
        (
            ["check", "--dynamodb-table=pools", "--shards=257"],
            ("--shards: expected a whole number from 1 to 256, got '257'",),
        ),
    ],
)
def test_a_wrong_command_on_the_table_is_told_with_all_its_faults(argv: list[str], told: tuple[str, ...]) -> None:
    with pytest.raises(Usage) as raised:
        parse_table(argv, {}, "p")
    assert raised.value.faults == told


# ---------------------------------------------------------------------------------- registrations in Kubernetes

LEASES = ("--registration-storage", "kubernetes")


def test_without_kubernetes_storage_there_are_no_settings_of_it() -> None:
    assert parse_serve([], {"KUBECONFIG": "/there"}).kubernetes is None


@pytest.mark.parametrize("discovery", ["registrations", "karmada", "mcs"])
def test_the_defaults_of_kubernetes_storage_are_the_same_with_every_discovery(discovery: str) -> None:
    settings = parse_serve([*LEASES, "--pool-discovery", discovery], {"KUBECONFIG": "/there"})
    assert settings.kubernetes == KubernetesSettings(
        kubernetes_namespace=None, kubernetes_renew_fraction=0.0, kubeconfig="/there"
    )


@pytest.mark.parametrize(("text", "fraction"), [("0", 0.0), ("0.25", 0.25), ("1", 1.0), ("1.0", 1.0)])
def test_a_renew_fraction_is_a_number_from_0_to_1(text: str, fraction: float) -> None:
    kubernetes = parse_serve([*LEASES, "--kubernetes-renew-fraction", text], {}).kubernetes
    assert kubernetes is not None
    assert kubernetes.kubernetes_renew_fraction == fraction


@pytest.mark.parametrize("text", ["", "-0.1", "1.1", "2", "nan", ".5", "1e-1", "0,5", "\u0660"])
def test_a_renew_fraction_that_is_none_is_refused(text: str) -> None:
    assert "expected a number from 0 to 1" in fault(*LEASES, f"--kubernetes-renew-fraction={text}")


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a" * 64, "a.b", "a/../b"])
def test_a_namespace_that_is_none_is_refused(name: str) -> None:
    assert "expected the name of a namespace" in fault(*LEASES, f"--kubernetes-namespace={name}")
