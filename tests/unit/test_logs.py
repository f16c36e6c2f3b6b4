import asyncio
import io
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from gdsvc import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logs.configure("info", "json", io.StringIO())
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def entries(write: Callable[[logs.Logger], object], level: str = "debug") -> list[dict[str, Any]]:
    """The JSON lines that `write` makes."""
    stream = io.StringIO()
    logs.configure(level, "json", stream)
    write(logs.get("gdsvc.test"))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def entry(write: Callable[[logs.Logger], object]) -> dict[str, Any]:
    (only,) = entries(write)
    return only


def console(write: Callable[[logs.Logger], object]) -> list[str]:
    stream = io.StringIO()
    logs.configure("debug", "console", stream)
    write(logs.get("gdsvc.test"))
    return stream.getvalue().splitlines()


# -------------------------------------------------------------------------------------------------------- shape


def test_a_json_line_has_time_level_event_and_logger_before_its_fields() -> None:
    line = entry(lambda log: log.info("pool listed", pool="p", count=3, ratio=0.5, ok=True, none=None))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    assert list(line.items())[1:] == [
        ("level", "info"),
        ("event", "pool listed"),
        ("logger", "gdsvc.test"),
        ("pool", "p"),
        ("count", 3),
        ("ratio", 0.5),
        ("ok", True),
        ("none", None),
    ]


def test_a_line_of_the_standard_library_has_the_same_shape() -> None:
    line = entry(lambda _: logging.getLogger("asyncio").warning("took %s s", 3))
    assert list(line) == ["ts", "level", "event", "logger"]
    assert (line["level"], line["event"], line["logger"]) == ("warning", "took 3 s", "asyncio")


def test_a_python_warning_is_a_line_like_any_other() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        line = entry(lambda _: warnings.warn("old", DeprecationWarning, stacklevel=1))
    assert line["logger"] == "py.warnings"
    assert "DeprecationWarning: old" in line["event"]


def test_an_error_of_the_event_loop_is_one_line() -> None:
    async def fail() -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "lost", "exception": OSError("gone")})

    line = entries(lambda _: asyncio.run(fail()))[-1]
    assert line["logger"] == "asyncio"
    assert line["exception"].endswith("OSError: gone")


def test_a_message_whose_arguments_do_not_fit_is_written_as_it_stands() -> None:
    assert entry(lambda _: logging.getLogger("x").error("%d pools", "no"))["event"] == "%d pools"


def test_an_exception_is_one_line_of_json() -> None:
    def fail(log: logs.Logger) -> None:
        try:
            raise ValueError("bad\nnews")
        except ValueError:
            log.exception("failed")

    line = entry(fail)
    assert line["level"] == "error"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: bad\nnews")


def test_a_long_traceback_keeps_its_end() -> None:
    line = entry(lambda log: log.error("failed", exc_info=ValueError("x" * 20_000 + "the end")))
    assert line["exception"].endswith("the end")
    assert len(line["exception"]) == 8_001


def test_no_field_takes_the_place_of_time_level_or_logger() -> None:
    line = entry(lambda log: log.info("e", ts="never", level="fatal", logger="other"))
    assert (line["level"], line["logger"]) == ("info", "gdsvc.test")
    assert line["ts"] != "never"


def test_auto_writes_json_but_to_a_terminal() -> None:
    outputs = []
    for stream in (io.StringIO(), Terminal()):
        logs.configure("info", "auto", stream)
        logs.get("x").info("e")
        outputs.append(stream.getvalue())
    assert outputs[0].startswith('{"ts":')
    assert re.fullmatch(r"\S+Z info     e logger=x\n", outputs[1])


# ------------------------------------------------------------------------------------------------------- levels


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lines_below_the_level_are_not_written(level: str, written: list[str]) -> None:
    def write(log: logs.Logger) -> None:
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)("ours")
            getattr(logging.getLogger("std"), name)("theirs")

    assert [line["level"] for line in entries(write, level)] == [name for name in written for _ in range(2)]


def test_a_log_that_is_in_use_follows_a_second_configure() -> None:
    log = logs.get("x")
    streams = io.StringIO(), io.StringIO()
    for level, stream in zip(("error", "debug"), streams, strict=True):
        logs.configure(level, "json", stream)
        log.error("heard")
        log.debug("whispered")
    assert [stream.getvalue().count("\n") for stream in streams] == [1, 2]


def test_the_lines_of_a_configured_log_can_be_captured() -> None:
    log = logs.get("x")
    logs.configure("info", "json", io.StringIO())
    log.info("before")
    with structlog.testing.capture_logs() as captured:
        log.info("e", n=1)
    assert captured == [{"event": "e", "n": 1, "log_level": "info"}]


# ------------------------------------------------------------------------------------------- bounds and forgery


@pytest.mark.parametrize(("length", "cut"), [(1_000, ""), (1_001, "…")])
def test_a_field_is_cut_after_a_thousand_characters(length: int, cut: str) -> None:
    line = entry(lambda log: log.info("e" * length, text="x" * length))
    assert line["text"] == "x" * 1_000 + cut
    assert line["event"] == "e" * 1_000 + cut


@pytest.mark.parametrize(
    "value",
    [
        list(range(10**6)),
        {str(n): "x" * 900 for n in range(1000)},
        [[["x" * 999] * 99] * 99] * 99,
        pytest.param(9**9999, id="integer"),
        b"x" * 5000,
    ],
)
def test_a_field_of_any_kind_is_bounded(value: object) -> None:
    assert len(json.dumps(entry(lambda log: log.info("e", field=value))["field"])) < 1_100


def test_lists_and_mappings_stay_what_they_are_while_they_are_short() -> None:
    field = {"list": [1, 2.5, None, "x"], "inner": {"a": {"b": {"too": "deep"}}}, "tuple": (1,)}
    expected = {"list": [1, 2.5, None, "x"], "inner": {"a": {"b": "{'too': 'deep'}"}}, "tuple": [1]}
    assert entry(lambda log: log.info("e", field=field))["field"] == expected


def test_what_json_lacks_becomes_text() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    line = entry(lambda log: log.info("e", nan=float("nan"), path=io.StringIO, broken=Broken(), half="\ud800"))
    assert (line["nan"], line["broken"], line["half"]) == ("nan", "<Broken>", "\\ud800")


FORGED = 'x\n{"level":"error"}\r\x1b[31m\x9b2J\u202e\u2028\x00'


def test_no_value_can_start_a_line_or_speak_to_the_terminal() -> None:
    def write(log: logs.Logger) -> None:
        log.info(FORGED, **{FORGED: FORGED})
        log.error("e", exc_info=ValueError(FORGED), nested={FORGED: [FORGED]})

    stream = io.StringIO()
    logs.configure("info", "json", stream)
    write(logs.get("gdsvc.test"))
    assert stream.getvalue().count("\n") == 2
    assert stream.getvalue().replace("\n", "").isprintable()
    lines = console(write)
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if not line.startswith("  | ")] == [lines[0], lines[1]]


def test_the_console_quotes_what_could_be_taken_for_another_field() -> None:
    (line,) = console(lambda log: log.info("e", a="x level=error", b="", c="plain", d=1, e="a=b"))
    assert line.endswith("e logger=gdsvc.test a='x level=error' b='' c=plain d=1 e='a=b'")


# ------------------------------------------------------------------------------------------------------ secrets


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("http://user:pw@host/p", "http://***@host/p"),
        ("to https://u@h and http://a:b@c@d/", "to https://***@h and http://***@d/"),
        ("http://host/mail?to=a@b", "http://host/mail?to=a@b"),
        ("no url a@b", "no url a@b"),
    ],
)
def test_the_user_of_a_url_is_masked_wherever_it_stands(text: str, written: str) -> None:
    line = entry(lambda log: log.error(text, url=text, deep=[{"url": text}], exc_info=ValueError(text)))
    assert (line["event"], line["url"], line["deep"]) == (written, written, [{"url": written}])
    assert line["exception"].endswith(f"ValueError: {written}")


def test_a_url_is_masked_before_it_is_cut() -> None:
    line = entry(lambda log: log.info("e", url="http://u:hunter2" + "x" * 2_000 + "@host"))
    assert line["url"] == "http://***@host"


@pytest.mark.parametrize(
    "name", ["password", "Authorization", "access_token", "clientSecret", "X-AUTH-TOKEN", "secret"]
)
def test_a_field_that_is_named_as_a_secret_is_masked(name: str) -> None:
    line = entry(lambda log: log.info("e", headers={name: "hunter2"}, **{name: ["hunter2"]}))
    assert (line[name], line["headers"]) == ("***", {name: "***"})


@pytest.mark.parametrize("name", ["max_tokens", "tokens", "tokenizer", "secretary"])
def test_a_field_that_only_begins_like_a_secret_is_not(name: str) -> None:
    assert entry(lambda log: log.info("e", **{name: 7}))[name] == 7


# --------------------------------------------------------------------------------------------- nobody reads it


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
    os.close(reader)


def test_lines_that_nobody_reads_are_dropped_and_counted(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = pipe
    logs.configure("info", "json", stream)
    log = logs.get("x")
    for n in range(1_000):
        log.info("e", n=n, filler="x" * 900)
    text = os.read(reader, 10**6)
    log.info("again")
    text += os.read(reader, 10**6)
    *before, last, notice = [json.loads(line) for line in text.decode().splitlines() if line.endswith("}")]
    assert [line["n"] for line in before] == list(range(len(before)))
    assert 0 < len(before) < 1_000
    assert (last["event"], notice["lines"]) == ("again", 1_000 - len(before))


def test_a_line_longer_than_the_room_in_the_pipe_is_torn_and_the_next_starts_anew(
    pipe: tuple[int, io.TextIOWrapper],
) -> None:
    reader, stream = pipe
    sink = logs.Pipe(stream)
    assert not sink.write("x" * 200_000 + "\n")
    torn = os.read(reader, 10**6)
    assert sink.write("whole\n")
    assert sink.dropped == 0
    assert set(torn) == {ord("x")}
    assert os.read(reader, 100) == b"\nwhole\n"


def test_a_pipe_that_nobody_reads_is_waited_for_once_a_second_at_most(pipe: tuple[int, io.TextIOWrapper]) -> None:
    sink = logs.Pipe(pipe[1])
    assert not sink.write("x" * 200_000)
    started = time.monotonic()
    assert not any(sink.write("x") for _ in range(200))
    assert time.monotonic() - started < 200 * logs.STALL_MS / 1000 / 2
    assert sink.dropped == 201


def test_a_reader_that_is_gone_stops_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        logs.configure("info", "json", stream)
        logs.get("x").info("e")
        logging.getLogger("std").error("e")
        assert not logs.Pipe(stream).write("line\n")


def test_a_closed_or_missing_stream_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    stream.close()
    logs.get("x").info("e")
    logs.configure("info", "auto", stream)
    logs.get("x").info("e")
    monkeypatch.setattr("sys.stderr", None)
    logs.configure("info", "auto")
    logs.get("x").info("e")
    assert not logs.Pipe(None).write("line\n")
