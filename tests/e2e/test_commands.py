"""The commands that ask once, against a real service: what they print on a terminal and into a pipe, how they exit."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gdsvc.main import main
from tests.e2e.people import STYLE, Gdsvc, at_once, in_this_process, on_terminal, running, through_a_shell
from tests.e2e.process import Serve, Service
from tests.e2e.process import running as service_running
from tests.e2e.wire import pool

HOSTILE = "\x1b]0;owned\x07[red]x[/red]\u202e\x9b2J"
FACTS = {
    "model": "Qwen/Qwen3-0.6B",
    "location": {"region": "us-east-2"},
    "frontends": ["http://10.0.0.7:8000", "http://10.0.0.8:8000"],
    "capacity": {"max_concurrency": 64},
}


def url(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


@pytest.fixture
def gdsvc(capsys: pytest.CaptureFixture[str]) -> Gdsvc:
    return in_this_process(capsys)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Three pools and one router; tests leave them as they are."""
    flags = ("--lease-duration-secs", "600", "--router", "ohio-0=http://10.0.0.9:8000")
    with service_running(tmp_path_factory.mktemp("fleet"), *flags) as service:
        other = {"key": {"site_id": "oregon", "namespace": "dynamo", "dgd_name": "team/qwen"}, "model": "other"}
        for registration in (pool("mocker-1", **FACTS), pool("mocker-2"), other):
            assert service.post("/pools", registration).status == 200
        yield service


# ------------------------------------------------------------------------------------------------------ lists


def test_a_pipe_gets_an_aligned_table_and_a_note_where_the_list_is_not_complete(fleet: Service) -> None:
    (done,) = at_once(("pools", "--url", url(fleet)))
    assert done.code == 0
    lines = done.out.splitlines()
    assert [re.split(r" {2,}", line) for line in lines] == [
        ["POOL", "MODEL", "REGION", "FRONTENDS", "CAPACITY", "RELAYS"],
        ["ohio/dynamo/mocker-1", "Qwen/Qwen3-0.6B", "us-east-2", "http://10.0.0.7:8000 +1", "64", "0"],
        ["ohio/dynamo/mocker-2", "-", "-", "-", "-", "0"],
        ["oregon/dynamo/team%2Fqwen", "other", "-", "-", "-", "0"],
    ]
    assert lines[0].index("MODEL") == lines[1].index("Qwen") == lines[3].index("other")
    assert done.err.startswith("note: 3 pools; the list is not complete yet")
    assert done.err.count("\n") == 1


def test_a_terminal_gets_a_table_in_colour_that_says_whether_it_is_all(fleet: Service) -> None:
    done = on_terminal("pools", GDSVC_URL=url(fleet))
    assert done.code == 0
    assert "\x1b[" in done.out
    text = STYLE.sub("", done.out)
    assert re.search(r"ohio/dynamo/mocker-1 +Qwen/Qwen3-0.6B +us-east-2 +http://10.0.0.7:8000 \+1 +64 +0\n", text)
    assert "3 pools; the list is not complete yet" in text


def test_a_narrow_terminal_says_what_it_has_no_room_for(fleet: Service) -> None:
    done = on_terminal("pools", GDSVC_URL=url(fleet), columns=84)
    text = STYLE.sub("", done.out)
    assert re.search(r"ohio/dynamo/mocker-1 +Qwen/Qwen3-0.6B +us-east-2 +http://10.0.0.7:8000 \+1\n", text)
    assert text.endswith("; no room for CAPACITY, RELAYS\n")


def test_no_color_takes_the_colours_from_the_terminal(fleet: Service) -> None:
    done = on_terminal("pools", GDSVC_URL=url(fleet), NO_COLOR="1")
    assert "mocker-1" in done.out
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", done.out)


def test_json_is_the_endpoints_body_byte_for_byte(fleet: Service) -> None:
    targets = {"pools": "/pools", "routers": "/routers"}
    commands = [(name, "--url", url(fleet), "--output", "json") for name in targets]
    for done, target in zip(at_once(*commands), targets.values(), strict=True):
        assert done.code == 0
        assert done.out.encode() == fleet.get(target).body + b"\n"
        assert done.err == ""


def test_yaml_says_what_json_says(gdsvc: Gdsvc, fleet: Service) -> None:
    done = gdsvc("pools", "--url", url(fleet), "--output=yaml")
    assert yaml.safe_load(done.out) == fleet.get("/pools").json()


def test_filters_are_the_services_own(gdsvc: Gdsvc, fleet: Service) -> None:
    flags = ["--model", "Qwen/Qwen3-0.6B", "--model", "other", "--region", "us-east-2", "--site-id", "ohio"]
    done = gdsvc("pools", "--url", url(fleet), "--output", "json", *flags)
    assert [item["key"]["dgd_name"] for item in json.loads(done.out)["pools"]] == ["mocker-1"]


def test_routers_are_listed(gdsvc: Gdsvc, fleet: Service) -> None:
    done = gdsvc("routers", "--url", url(fleet))
    assert (done.code, done.out) == (0, "ROUTER  URL\nohio-0  http://10.0.0.9:8000\n")


def test_hostile_texts_of_pools_are_shown_harmlessly_everywhere(gdsvc: Gdsvc, serve: Serve) -> None:
    service = serve()
    facts = {"model": HOSTILE, "location": {"region": HOSTILE}, "capabilities": [HOSTILE]}
    assert service.post("/pools", pool("[bold]m[/bold]", **facts)).status == 200
    for form in ("table", "json"):
        shown = STYLE.sub("", on_terminal("pools", "--output", form, GDSVC_URL=url(service), columns=300).out)
        assert all(character.isprintable() or character == "\n" for character in shown), (form, shown)
    table = gdsvc("pools", "--url", url(service)).out
    assert "ohio/dynamo/%5Bbold%5Dm%5B%2Fbold%5D" in table
    assert "\\x1b]0;owned\\x07[red]x[/red]\\u202e\\x9b2J" in table


# ------------------------------------------------------------------------------------------------- one pool


def test_deregister_takes_a_pool_out_and_says_when_there_is_none(gdsvc: Gdsvc, fleet: Service) -> None:
    before = fleet.names()
    assert fleet.post("/pools", {"key": {"site_id": "x", "namespace": "y", "dgd_name": "team/z"}}).status == 200
    done = gdsvc("deregister", "x/y/team%2Fz", "--url", url(fleet))
    assert done == (0, "x/y/team%2Fz is taken out; a heartbeat would list it again\n", "")
    assert fleet.names() == before
    again = gdsvc("deregister", "x/y/team%2Fz", "--url", url(fleet))
    assert again == (1, "", f"gdsvc deregister: {url(fleet)}: no such pool is registered (404)\n")


def test_an_answer_without_a_body_is_nothing_in_json_and_yaml(gdsvc: Gdsvc, fleet: Service) -> None:
    for form in ("json", "yaml"):
        assert fleet.post("/pools", {"key": {"site_id": "x", "namespace": "y", "dgd_name": "z"}}).status == 200
        assert gdsvc("deregister", "x/y/z", "--url", url(fleet), "--output", form) == (0, "", "")


def test_names_that_look_like_paths_reach_the_service_as_they_are(gdsvc: Gdsvc, serve: Serve) -> None:
    service = serve()
    for name in ("..", "a?b#c/50% ü"):
        key = {"site_id": "..", "namespace": "n", "dgd_name": name}
        assert service.post("/pools", {"key": key}).status == 200
    listed = gdsvc("pools", "--url", url(service)).out.splitlines()[1:]
    assert len(listed) == 2
    for line in listed:
        assert gdsvc("deregister", line.split()[0], "--url", url(service)).code == 0
    assert service.names() == []


def test_why_explains_in_sentences_and_as_json(gdsvc: Gdsvc, fleet: Service) -> None:
    done = gdsvc("why", "ohio/dynamo/mocker-1", "--url", url(fleet))
    assert done.code == 0
    first, *rest = done.out.splitlines()
    assert first.startswith("ohio/dynamo/mocker-1 is listed: ")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \([0-9.]+ s ago\)", "\n".join(rest))
    document = json.loads(gdsvc("why", "ohio/dynamo/mocker-1", "--url", url(fleet), "--output", "json").out)
    assert document["listed"] is True
    unknown = gdsvc("why", "ohio/dynamo/never", "--url", url(fleet))
    assert unknown.code == 1
    assert unknown.err.count("\n") == 1


# ------------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    "arguments",
    [
        ("pools", "--outptu", "json"),
        ("why",),
        ("why", "mocker-1"),
        ("register",),
        ("nonsense",),
        (),
        ("pools", "--url", "x"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_how_to_get_help(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--help" in err


def test_help_lists_every_command_and_explains_each() -> None:
    done, one = at_once(("--help",), ("why", "x", "--nonsense", "--help"))
    assert (done.code, done.err) == (0, "")
    for name in ("serve", "pools", "routers", "watch", "register", "deregister", "why"):
        assert re.search(rf"^  {name} +\w", done.out, re.M), name
    assert (one.code, one.err) == (0, "")
    assert "gdsvc why ohio/dynamo/mocker-1" in one.out


@pytest.mark.parametrize(
    "line", ["gdsvc pools | head -n 0", "gdsvc serve --help | head -n 0", "gdsvc dynamodb --help | head -n 0"]
)
def test_a_reader_that_leaves_is_no_error(fleet: Service, tmp_path: Path, line: str) -> None:
    done = through_a_shell(line, tmp_path, GDSVC_URL=url(fleet))
    assert (done.code, done.out) == (0, "")
    assert done.err == "" or done.err.startswith("note: ")


def test_an_output_that_takes_nothing_is_one_line(fleet: Service, tmp_path: Path) -> None:
    done = through_a_shell("gdsvc pools --output json > /dev/full", tmp_path, GDSVC_URL=url(fleet))
    assert (done.code, done.err) == (1, "gdsvc pools: cannot write the output: No space left on device\n")
    closed = through_a_shell("gdsvc pools --output json >&-", tmp_path, GDSVC_URL=url(fleet))
    assert (closed.code, closed.err) == (0, "")


@pytest.mark.parametrize(
    "asked",
    [
        *("--help", "serve --help", "serve --version", "dynamodb --help"),
        "dynamodb create-table --dynamodb-table pools --dry-run",
    ],
)
def test_help_or_a_plan_that_cannot_be_written_is_one_line(tmp_path: Path, asked: str) -> None:
    done = through_a_shell(f"gdsvc {asked} > /dev/full", tmp_path)
    assert (done.code, done.err) == (1, "gdsvc: cannot write the output: No space left on device\n")


def test_ctrl_c_ends_a_command_that_waits_without_a_word(serve: Serve) -> None:
    service = serve()
    os.kill(service.pid, signal.SIGSTOP)
    with running("pools", "--url", url(service), "--timeout-secs", "15") as command:
        command.wait_for(lambda: _connections(service.port) > 0)
        done = command.end(signal.SIGINT)
    os.kill(service.pid, signal.SIGCONT)
    assert done == (130, "", "")


def _connections(port: int) -> int:
    """Established connections to `port` of this machine."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
