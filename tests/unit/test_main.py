"""`gdsvc`: which command a command line means, and what each of them loads."""

import subprocess
import sys

import pytest

from gdsvc import __version__
from gdsvc.commands.manual import MANUALS
from gdsvc.main import NAMES, main

SERVER = {"granian", "uvloop", "prometheus_client", "structlog", "gdsvc.cli", "gdsvc._pool_index"}
HTTP_CLIENT = {"aiohttp", "yarl"}
RENDERERS = {"rich", "yaml"}
PROGRAM = """
import sys
from gdsvc.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write("\\n" + " ".join(sys.modules))
"""
NOWHERE = "http://127.0.0.1:1"


def loaded(*argv: str) -> set[str]:
    """The modules that a process has loaded when the command line is done with."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=True, timeout=20
    )
    return set(done.stderr.splitlines()[-1].split())


def test_to_serve_loads_nothing_of_the_commands_for_people() -> None:
    modules = loaded("serve", "--help")
    assert {"granian", "structlog"} <= modules
    assert modules.isdisjoint(HTTP_CLIENT | RENDERERS | {"gdsvc.client", "gdsvc.commands.carrying_out"})


def test_to_ask_loads_nothing_of_the_server_nor_what_only_a_terminal_or_yaml_needs() -> None:
    modules = loaded("pools", "--url", NOWHERE)
    assert modules >= HTTP_CLIENT
    assert modules.isdisjoint(SERVER | RENDERERS)


@pytest.mark.parametrize("argv", [["--help"], ["why", "--help"], ["why", "nonsense"], ["--version"]])
def test_to_explain_itself_loads_no_http_at_all(argv: list[str]) -> None:
    assert loaded(*argv).isdisjoint(HTTP_CLIENT | RENDERERS | SERVER)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--help", "-h", "help"):
        assert main([word]) == 0
        shown = capsys.readouterr().out
        assert [name for name in NAMES if f"\n  {name} " not in shown] == []


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gdsvc {__version__}\n"


def test_no_command_is_wrong_usage_and_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "serve" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "said"),
    [("poools", "did you mean pools?"), ("xyz", "there is: serve"), ("\x1b[2J", "\\x1b"), ("x" * 9999, "xxx")],
)
def test_an_unknown_command_is_wrong_usage_and_harmless(
    capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert main([word]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err) < 300
    assert err.replace("\n", "").isprintable()


def test_a_fault_of_ours_is_one_line_not_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MANUALS, "pools", None)  # which no code expects
    assert main(["pools"]) == 70
    assert capsys.readouterr().err.count("\n") == 1


def test_ctrl_c_in_the_middle_of_anything_is_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gdsvc.commands.run.run", interrupted)
    assert main(["pools"]) == 130
    assert capsys.readouterr() == ("", "")
