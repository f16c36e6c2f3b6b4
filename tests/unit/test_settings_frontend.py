"""The command line of the Global Frontend: defaults, faults all together, and flags that fit each other."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.client import InvalidOptions, Options
from gdsvc.settings import FrontendSettings, Usage, parse_frontend
from gdsvc.settings.frontend_flags import Heading, frontend_flags

POLICIES = ("least-in-flight", "round-robin")
ONE = "--pool=east=http://10.0.0.7:8000"


def parse(*argv: str, policies: tuple[str, ...] = POLICIES, **environ: str) -> FrontendSettings:
    return parse_frontend(argv, environ, policies)


def faults(*argv: str, policies: tuple[str, ...] = POLICIES, **environ: str) -> tuple[str, ...]:
    with pytest.raises(Usage) as caught:
        parse_frontend(argv, environ, policies)
    return caught.value.faults


def fault(*argv: str, policies: tuple[str, ...] = POLICIES, **environ: str) -> str:
    found = faults(*argv, policies=policies, **environ)
    assert len(found) == 1, found
    return found[0]


def test_pools_alone_give_the_documented_defaults() -> None:
    assert parse(ONE) == FrontendSettings(
        listen_host="0.0.0.0",
        listen_port=8000,
        tls_cert_path=None,
        tls_key_path=None,
        tls_client_ca_path=None,
        pools=(("east", ("http://10.0.0.7:8000",)),),
        discovery_urls=(),
        region=None,
        router_policy="round-robin",
        use_selection_core=False,
        upstream_ca_path=None,
        upstream_idle_secs=None,
        trusted_proxies=(),
        max_in_flight=4096,
        max_body_bytes=201326592,
        max_buffer_bytes=1073741824,
        shutdown_grace_secs=20,
        log_level="info",
        log_format="auto",
        access_log=False,
        load_headroom=0.8,
        session_pin_ttl_secs=300,
        relay_port=None,
    )


def test_pools_and_discovery_urls_are_repeatable_and_may_come_from_variables() -> None:
    argv = ("--pool", "a=http://x,https://[::1]:8443/", "--pool", "b=http://y")
    assert parse(*argv).pools == (("a", ("http://x", "https://[::1]:8443/")), ("b", ("http://y",)))
    assert parse(GDSVC_POOL="a=http://x,https://[::1]:8443/ b=http://y") == parse(*argv)
    urls = ("http://gds-0:8080", "https://example.org/gds/")
    assert parse("--discovery-url", urls[0], "--discovery-url", urls[1]).discovery_urls == urls
    assert parse(GDSVC_DISCOVERY_URL=" ".join(urls)).discovery_urls == urls


def test_pools_come_from_one_place() -> None:
    assert fault() == "expected --pool or --discovery-url: where do the pools come from?"
    assert fault(ONE, GDSVC_DISCOVERY_URL="http://gds") == (
        "--pool: expected without --discovery-url (from GDSVC_DISCOVERY_URL): pools come from one of them"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "=http://x", "a=", "a=x", "a=http://x,", "a=http://x,ftp://y", "a=http://x/v1", "a=http://x?q"),
        *(" a=http://x", "a=http://x,http://x", "a=http://x:0", "a=http://x http://y", "\ud800=http://x"),
    ],
)
def test_what_is_no_pool_is_refused(text: str) -> None:
    assert re.match(r"--pool: expected .*, got ", fault(f"--pool={text}"))


def test_a_pool_given_twice_is_refused() -> None:
    assert fault("--pool=a=http://x", "--pool=a=http://y") == "--pool: expected each id once, got 'a' 2 times"


@pytest.mark.parametrize(
    "text", ["", "gds", "ftp://gds", "http://", "http://gds?x=1", "http://gds#x", "http://gds:0/x"]
)
def test_what_is_no_url_of_a_service_is_refused(text: str) -> None:
    assert fault(f"--discovery-url={text}").startswith("--discovery-url: expected http:// or https://")


def test_a_secret_in_a_url_is_refused_and_not_shown() -> None:
    lines = faults("--pool=a=http://root:hunter2@x", "--discovery-url=https://root:hunter2@x/?token=hunter2")
    assert len(lines) == 3
    assert not any("hunter2" in line for line in lines)


@settings(max_examples=50)
@given(st.from_regex(r"https?://[a-z0-9.:@\[\]-]{1,12}(/[a-z%~?#-]{0,6}){0,2}", fullmatch=True))
def test_the_client_takes_every_url_that_the_command_line_takes(url: str) -> None:
    try:
        taken = parse(f"--discovery-url={url}").discovery_urls
    except Usage:
        with pytest.raises(InvalidOptions):
            Options((url,))
    else:
        assert Options(taken).urls == (url.rstrip("/"),)


# ------------------------------------------------------------------------------------------------------- policies


def test_a_policy_is_one_of_those_installed() -> None:
    assert parse(ONE, "--router-policy", "least-in-flight").router_policy == "least-in-flight"
    assert parse(ONE, "--router-policy=mine", policies=(*POLICIES, "mine")).router_policy == "mine"
    for absent in ("random", "affinity"):
        assert fault(ONE, f"--router-policy={absent}") == (
            f"--router-policy: expected one of {', '.join(POLICIES)}, got {absent!r}"
        )


def test_trusted_proxies_are_networks_or_addresses() -> None:
    assert parse(ONE, "--trusted-proxies", "10.1.2.3/8, ::1").trusted_proxies == ("10.0.0.0/8", "::1/128")
    assert "expected addresses or networks separated by commas" in fault(ONE, "--trusted-proxies=proxy.example")


def test_the_selection_core_stands_alone_on_the_command_line_and_takes_true_or_false_from_its_variable() -> None:
    assert parse("--use-selection-core", ONE).use_selection_core
    assert parse(ONE, GDSVC_USE_SELECTION_CORE="true").use_selection_core
    assert not parse(ONE, GDSVC_USE_SELECTION_CORE="0").use_selection_core
    assert "expected true or false, got 'maybe'" in fault(ONE, GDSVC_USE_SELECTION_CORE="maybe")
    assert fault(ONE, "--use-selection-core=true") == "--use-selection-core: expected no value"
    assert fault(ONE, "--use-selection-core", "yes") == "unexpected argument 'yes': expected only flags"


def test_the_selection_core_takes_round_robin_and_no_other_policy() -> None:
    assert parse(ONE, "--use-selection-core", "--router-policy=round-robin").use_selection_core
    assert fault(ONE, "--use-selection-core", GDSVC_ROUTER_POLICY="least-in-flight") == (
        "--use-selection-core: expected only with --router-policy round-robin, "
        "but --router-policy (from GDSVC_ROUTER_POLICY) is least-in-flight"
    )


BY_LOAD = {"--load-headroom": "0.5", "--session-pin-ttl-secs": "60", "--relay-port": "9000"}


@pytest.mark.parametrize("name", BY_LOAD)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_flag_of_policies_that_go_by_load_is_refused_with_others(name: str, policy: str) -> None:
    assert fault(ONE, name, BY_LOAD[name], "--router-policy", policy) == (
        f"{name}: expected only with --router-policy affinity, but --router-policy is {policy}"
    )


@pytest.mark.parametrize("policy", ["affinity", "mine"])
def test_a_policy_that_goes_by_load_has_its_flags(policy: str) -> None:
    flags = [f"{name}={value}" for name, value in BY_LOAD.items()]
    settings = parse(ONE, f"--router-policy={policy}", *flags, policies=(*POLICIES, policy))
    assert (settings.load_headroom, settings.session_pin_ttl_secs, settings.relay_port) == (0.5, 60, 9000)
    plain = parse(ONE, f"--router-policy={policy}", policies=(*POLICIES, policy))
    assert (plain.load_headroom, plain.session_pin_ttl_secs, plain.relay_port) == (0.8, 300, None)


@pytest.mark.parametrize("text", ["0", "0.0", "1.1", "-0.5", "80%", "nan", "1e-1", ".5", "0.1234567", "\u0661", ""])
def test_headroom_is_a_share(text: str) -> None:
    line = fault(ONE, "--router-policy=affinity", f"--load-headroom={text}", policies=(*POLICIES, "affinity"))
    assert line.startswith("--load-headroom: expected a number above 0 and at most 1")
    assert parse(ONE, "--router-policy=mine", "--load-headroom=1", policies=("mine",)).load_headroom == 1.0


# ----------------------------------------------------------------------------------------------------------- others


def test_a_region_is_a_name() -> None:
    assert parse(ONE, "--region", "us-east-2").region == "us-east-2"
    assert fault(ONE, "--region= ").startswith("--region: expected no surrounding white space")
    assert fault(ONE, "--region=\udcff").startswith("--region: expected UTF-8")


def test_one_body_fits_into_what_all_bodies_may_take() -> None:
    assert parse(ONE, "--max-body-bytes=4096", "--max-buffer-bytes=4096").max_buffer_bytes == 4096
    assert fault(ONE, "--max-body-bytes=4097", GDSVC_MAX_BUFFER_BYTES="4096") == (
        "--max-buffer-bytes (from GDSVC_MAX_BUFFER_BYTES): expected at least --max-body-bytes, got 4096 and 4097"
    )


def test_tls_flags_are_those_of_the_service() -> None:
    lines = faults(ONE, "--tls-client-ca-path", "/nonexistent/ca")
    assert any("--tls-cert-path and --tls-key-path" in line for line in lines)
    assert any("No such file" in line for line in lines)


def test_the_level_of_the_fleet_counts_where_ours_is_not_set() -> None:
    assert parse(ONE, DYN_LOG="hyper=warn,debug").log_level == "debug"
    assert parse(ONE, "--log-level=error", DYN_LOG="debug").log_level == "error"


def test_flags_of_the_discovery_service_are_unknown_and_all_faults_come_together() -> None:
    lines = faults("--lease-duration-secs=15", "--listen=nowhere", "--max-body-bytes=1", "--router-policy=x", "extra")
    named = ("--lease-duration-secs", "extra", "--listen", "--max-body-bytes", "--router-policy", "--pool")
    assert len(lines) == len(named)
    assert all(any(name in line for line in lines) for name in named)


@given(
    st.lists(st.text() | st.sampled_from([flag.name for flag in frontend_flags(POLICIES)] + ["=", "--", "a=http://x"]))
)
def test_no_command_line_ends_in_anything_but_settings_or_faults(argv: list[str]) -> None:
    try:
        parse_frontend([token for token in argv if token not in ("-h", "--help", "--version")], {}, POLICIES)
    except Usage as usage:
        found = usage.faults
    else:
        found = ("none",)
    assert found
    assert all(line.isprintable() and len(line) < 300 for line in found)


def help_text(capsys: pytest.CaptureFixture[str], policies: tuple[str, ...] = POLICIES) -> str:
    with pytest.raises(SystemExit) as caught:
        parse("--nonsense", "--help", policies=policies)
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_flag_its_default_and_its_variable_under_its_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = help_text(capsys)
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == [*(heading.value for heading in Heading), "examples"]
    flat = " ".join(text.split())
    for flag in frontend_flags(POLICIES):
        assert f"{flag.name} " in flat
        assert f"(default: {flag.default or 'none'}; environment: {flag.variable})" in flat


def test_help_has_examples_that_are_taken_as_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"^    gdsvc frontend (.*)$", help_text(capsys), re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        assert parse(*example.split()).router_policy == "round-robin"


def test_help_names_the_policies_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    flat = " ".join(help_text(capsys, (*POLICIES, "mine")).split())
    assert f"--router-policy {'|'.join((*POLICIES, 'mine'))} " in flat


def test_version_is_that_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--version")
    assert re.fullmatch(r"gdsvc \d+\.\d+\.\S+\n", capsys.readouterr().out)
