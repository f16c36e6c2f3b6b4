"""`gdsvc demo` as a new user meets it: what it prints works as printed, and however it ends, it leaves nothing."""

import contextlib
import json
import os
import re
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdsvc.demo.run import NAMES, demo
from tests.e2e.people import Running, at_once, gdsvc, running, through_a_shell
from tests.e2e.wire import Connection

ANY_PORTS = ("--port", "0", "--discovery-port", "0")
MARK = "TESTED_DEMO"


def _marked(mark: str) -> list[int]:
    """The processes that run in an environment with this mark."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark for the environment of a demo, whose processes must all be gone at the end."""
    mark = uuid.uuid4().hex
    yield mark
    left = _marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _says(shown: Running, *words: str) -> Callable[[], bool]:
    return lambda: any(all(word in line for word in words) for line in shown.out)


def _printed(shown: Running, beginning: str) -> str:
    """The command that is printed with this beginning, with the lines that it goes on in."""
    (command,) = re.findall(rf"^  ({beginning}(?:.*\\\n)*.*)$", "".join(shown.out), re.M)
    return str(command)


def _session() -> tuple[str, str, str]:
    """What the README shows: the command, the first line of its answer, and what is told of a pool that was killed."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    ((command, line, told),) = re.findall(
        r"^```console\n\$ (curl -N.*\n.*)\n(data: .*)\n…\n\$ kill -9 \d+\n((?:  .*\n)+)```$", readme, re.M
    )
    return command, line, told


def _same(text: str) -> str:
    """The text without what is another one each time."""
    for pattern in (r"(?<=127\.0\.0\.1:)\d+", r"(?<=\"id\":\")\w+-\d+", r"(?<=\"created\":)\d+", r"(?<=pid )\d+"):
        text = re.sub(pattern, "N", text)
    return text


def _answers(port: int, count: int) -> list[str]:
    """Which pools answer so many requests."""
    body = json.dumps({"model": "demo", "max_tokens": 1}).encode()
    with Connection(port) as connection:
        replies = [connection.request("POST", "/v1/chat/completions", body) for _ in range(count)]
    assert {reply.status for reply in replies} == {200}
    return [reply.json()["id"].partition("-")[0] for reply in replies]


@pytest.mark.slow
def test_what_is_printed_works_and_a_pool_that_is_killed_is_told_and_missed_by_no_request(
    mark: str, tmp_path: Path
) -> None:
    variables = {MARK: mark, "GDSVC_POOL": "a=http://127.0.0.1:1", "GDSVC_LEASE_DURATION_SECS": "wrong"}
    with running("demo", *ANY_PORTS, **variables) as shown:
        shown.wait_for(_says(shown, "What happens from now on"))
        command, first, told = _session()
        assert _same(_printed(shown, "curl -N")) == _same(command)
        streamed = through_a_shell(_printed(shown, "curl -N"), tmp_path).out
        assert _same(streamed.partition("\n")[0]) == _same(first)
        assert streamed.count("chat.completion.chunk") > 2
        assert streamed.endswith("data: [DONE]\n\n")
        listed = through_a_shell(_printed(shown, "gdsvc pools"), tmp_path).out
        seen = json.loads(through_a_shell(_printed(shown, "curl http\\S+/pools"), tmp_path).out)
        assert [name in listed for name in NAMES] == [True] * 3 + [False] * (len(NAMES) - 3)
        assert len(seen["pools"]) == 3
        port = int(re.findall(r"Global Frontend +http://127\.0\.0\.1:(\d+)", "".join(shown.out))[0])
        assert set(_answers(port, 3)) == set(NAMES[:3])

        kill = _printed(shown, "kill -9")
        assert through_a_shell(kill, tmp_path).code == 0
        assert set(_answers(port, 6)) == set(NAMES[1:3])
        shown.wait_for(_says(shown, NAMES[0], kill.split()[-1], "has ended"))
        shown.wait_for(_says(shown, NAMES[0], "has left the list"))
        assert set(_answers(port, 2)) == set(NAMES[1:3])
        assert _same("".join(shown.out)).endswith(_same(told))

        code, _, err = shown.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert _marked(mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_demo_that_is_stopped_while_it_starts_ends_what_it_has_started(number: signal.Signals, mark: str) -> None:
    with running("demo", *ANY_PORTS, **{MARK: mark}) as shown:
        shown.wait_for(lambda: len(_marked(mark)) > 1)
        code, _, err = shown.end(number)
    assert (code, err) == (0, "")


def test_a_service_that_ends_ends_the_demo_in_one_line(mark: str) -> None:
    with running("demo", *ANY_PORTS, **{MARK: mark}) as shown:
        shown.wait_for(_says(shown, "What happens from now on"))
        (service,) = (
            pid for pid in _marked(mark) if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        )
        os.kill(service, signal.SIGKILL)
        code, _, err = shown.end(None)
    assert (code, err) == (1, f"gdsvc demo: gdsvc serve (pid {service}) has ended: signal 9\n")


def test_a_taken_port_is_one_line_that_names_the_flag_for_another_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        flags = ("--port", "--discovery-port")
        ended = at_once(*(("demo", *ANY_PORTS, flag, port) for flag in flags))
    for flag, program, (code, _, err) in zip(flags, ("frontend", "serve"), ended, strict=True):
        assert code == 1
        assert err == (
            f"gdsvc demo: gdsvc {program}: cannot listen on 127.0.0.1:{port}: Address already in use; "
            f"{flag} chooses another port\n"
        )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--port", "x"), "argument --port: expected a port from 0 to 65535, got 'x'"),
        (("--discovery-port", "65536"), "argument --discovery-port: expected a port from 0 to 65535, got '65536'"),
        (("--pools", "1"), "argument --pools: expected a number from 2 to 8, got '1'"),
        (("--frob",), "unrecognized arguments: --frob"),
    ],
)
def test_a_flag_that_is_wrong_is_said_to_be(
    flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        demo(flags, print, {})
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"gdsvc demo: error: {said}"


def test_the_help_tells_what_it_is_for_and_all_exit_codes() -> None:
    code, out, _ = gdsvc("demo", "--help")
    assert code == 0
    for word in (
        "--port",
        "--discovery-port",
        "--pools",
        "Global Frontend",
        "Ctrl-C",
        "exit codes: 0",
        "default: 8000",
    ):
        assert word in out.replace("\n", " ")
