"""Command lines and environments: what they ask for, and what is said of those that ask for nothing."""

import re
import shlex
from pathlib import Path

import pytest

from gdsvc.commands.arguments import (
    DEFAULT_URL,
    Connection,
    Deregister,
    ListPools,
    ListRouters,
    Order,
    Register,
    Watch,
    Why,
    help_text,
    read,
)
from gdsvc.commands.failures import Usage
from gdsvc.commands.manual import MANUALS, overview
from gdsvc.commands.renderings import Form
from gdsvc.model import PoolKey

KEY = PoolKey("ohio", "dynamo", "mocker-1")
DEFAULTS = Connection(
    urls=(DEFAULT_URL,),
    ca_path=None,
    client_cert_path=None,
    client_key_path=None,
    token=None,
    token_path=None,
    timeout_secs=10.0,
)


def order(line: str, **environ: str) -> Order:
    name, *argv = shlex.split(line)
    return read(name, argv, environ)


def connection(line: str, **environ: str) -> Connection:
    return order(line, **environ).connection


def fault(line: str, **environ: str) -> str:
    with pytest.raises(Usage) as caught:
        order(line, **environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("pools", ListPools(())),
        (
            "pools --model a --region r --model b --site-id s",
            ListPools((("model", "a"), ("model", "b"), ("region", "r"), ("site_id", "s"))),
        ),
        ("routers", ListRouters()),
        ("watch", Watch("pools", ())),
        ("watch routers", Watch("routers", ())),
        ("watch pools --model=x", Watch("pools", (("model", "x"),))),
        ("register -f pool.json", Register(Path("pool.json"), deregister=False)),
        ("register --file - --deregister", Register(None, deregister=True)),
        ("deregister ohio/dynamo/mocker-1", Deregister(KEY)),
        ("why ohio/dynamo/mocker-1", Why(KEY)),
        ("why --output json ohio/dynamo/mocker-1", Why(KEY)),
    ],
)
def test_a_command_line_is_one_order(line: str, command: object) -> None:
    assert order(line).command == command


def test_nothing_set_gives_the_documented_defaults() -> None:
    assert order("pools") == Order(ListPools(()), DEFAULTS, Form.TABLE)


@pytest.mark.parametrize("form", list(Form))
def test_the_form_is_chosen_by_output(form: Form) -> None:
    assert order(f"why a/b/c --output {form.value}").form is form


# -------------------------------------------------------------------------------------------- environment


def test_the_command_line_wins_over_the_environment() -> None:
    assert connection("pools", GDSVC_URL="http://a http://b").urls == ("http://a", "http://b")
    assert connection("pools --url http://c --url http://d", GDSVC_URL="http://a").urls == ("http://c", "http://d")
    assert connection("pools", GDSVC_TIMEOUT_SECS="2.5").timeout_secs == 2.5
    assert connection("pools --timeout-secs 3", GDSVC_TIMEOUT_SECS="x").timeout_secs == 3
    assert connection("pools", GDSVC_CA_PATH="a.pem").ca_path == Path("a.pem")
    assert connection("pools --ca-path b.pem", GDSVC_CA_PATH="a.pem").ca_path == Path("b.pem")


def test_an_empty_variable_is_unset() -> None:
    empty = dict.fromkeys(("GDSVC_URL", "GDSVC_TOKEN", "GDSVC_TOKEN_FILE", "GDSVC_CA_PATH", "GDSVC_TIMEOUT_SECS"), "")
    assert order("pools", **empty).connection == DEFAULTS


def test_a_token_comes_from_one_place() -> None:
    assert connection("pools", GDSVC_TOKEN="t").token == "t"
    assert connection("pools", GDSVC_TOKEN_FILE="f").token_path == Path("f")
    both = connection("pools", GDSVC_TOKEN="t", GDSVC_TOKEN_FILE="f")
    assert (both.token, both.token_path) == ("t", None)
    flag = connection("pools --token-file g", GDSVC_TOKEN="t", GDSVC_TOKEN_FILE="f")
    assert (flag.token, flag.token_path) == (None, Path("g"))


# ------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("why", "KEY"),
        ("why mocker-1", "expected site/namespace/name"),
        ("deregister a/b/c d/e/f", "unexpected argument 'd/e/f'"),
        ("register", "-f/--file"),
        ("watch nodes", "'nodes'"),
        ("watch routers --model x", "routers have none"),
        ("pools --outptu json", "unknown flag --outptu"),
        ("pools --out json", "unknown flag --out"),
        ("pools --output xml", "'xml'"),
        ("pools --url", "--url: expected one argument"),
        ("pools --timeout-secs 0", "--timeout-secs: expected seconds above 0, at most 3600"),
        ("pools --timeout-secs nan", "--timeout-secs: expected seconds"),
        ("pools --timeout-secs 3601", "--timeout-secs: expected seconds"),
        ("pools --timeout-secs " + "9" * 5000, "--timeout-secs: expected seconds"),
        ("pools --client-cert-path a.pem", "expected both or none"),
        ("pools --model '\udcff'", "--model: expected a text in UTF-8"),
        ("register -f ''", "--file"),
    ],
)
def test_what_cannot_be_followed_is_named(line: str, said: str) -> None:
    assert said in fault(line)


def test_a_faulty_variable_is_named_with_its_flag() -> None:
    assert "--timeout-secs (from GDSVC_TIMEOUT_SECS): expected seconds" in fault("pools", GDSVC_TIMEOUT_SECS="soon")


@pytest.mark.parametrize(
    "line", ["pools --token s3cret", "pools --token=s3cret", "why --token s3cret a/b/c", "why a/b/c --password s3cret"]
)
def test_the_value_of_an_unknown_flag_is_never_echoed(line: str) -> None:
    assert "s3cret" not in fault(line)
    assert "unknown flag --" in fault(line)


# --------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("name", MANUALS)
def test_every_example_of_the_help_is_a_command_line_that_can_be_followed(name: str) -> None:
    for example, _ in MANUALS[name].examples:
        words = shlex.split(re.sub(r"^.* \| (?=gdsvc)", "", example).split(" | ")[0])
        assert words[:2] == ["gdsvc", name]
        read(name, words[2:], {})
        assert example in help_text(name)


@pytest.mark.parametrize("name", MANUALS)
def test_the_help_names_flags_variables_and_exit_codes(name: str) -> None:
    text = help_text(name)
    words = [
        "--url",
        "GDSVC_URL",
        "--ca-path",
        "--token-file",
        "GDSVC_TOKEN",
        "--timeout-secs",
        "--output",
        "exit codes",
    ]
    assert [word for word in words if word not in text] == []
    assert max(map(len, text.splitlines())) <= 100
    assert f"  {name} " in overview()
