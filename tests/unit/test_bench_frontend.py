"""What the figures of bench/frontend rest on: what is asked and answered, what rounds tell, and the report."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # behind everything, so that an installed gdsvc is still the one that is tested

from bench.figures import Figure, Measured, NotMeasured, Room  # noqa: E402
from bench.frontend import bodies, selection, sides  # noqa: E402
from bench.frontend.figures import FIGURES, MEMORY, SELECTIONS, TRIPS  # noqa: E402
from bench.frontend.report import Memory, Result, Selection, report  # noqa: E402
from bench.frontend.sides import Stub, at_ports  # noqa: E402
from bench.frontend.tally import Tally  # noqa: E402
from bench.frontend.trips import shared_out  # noqa: E402
from bench.load import LoadFailed  # noqa: E402
from bench.processes import StartFailed, group_run_seconds, resident_bytes, two_cores  # noqa: E402
from gdsvc.frontend.policies.policy import Environment  # noqa: E402
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy  # noqa: E402
from gdsvc.frontend.selection import Refused  # noqa: E402

PATIENCE_SECS = 10
NOTHING_KNOWN = Environment(load=lambda _: None, round_trip=lambda _: None)


# ------------------------------------------------------------------------------------- what is asked and answered


def test_requests_are_of_several_lengths_and_one_to_a_line() -> None:
    for stream in (False, True):
        asked = bodies.questions(stream=stream)
        assert len({len(body) for body in asked}) == len(asked) > 1
        assert all(b"\n" not in body for body in asked)
        assert {json.loads(body).get("stream", False) for body in asked} == {stream}
        assert {json.loads(body)["model"] for body in asked} == {"Qwen/Qwen3-32B"}


def test_uploads_are_a_megabyte_each_with_the_model_before_or_behind_the_picture() -> None:
    first, second = bodies.uploads()
    assert len(first) == len(second) == 1_000_000
    assert [next(iter(json.loads(body))) for body in (first, second)] == ["messages", "model"]
    assert b"\n" not in first + second


def test_a_stream_is_fifty_events_of_one_completion() -> None:
    *chunks, last = bodies.events()
    assert len(chunks) + 1 == bodies.CHUNKS == 50
    assert last == b"data: [DONE]\n\n"
    parsed = [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]
    assert {chunk["object"] for chunk in parsed} == {"chat.completion.chunk"}
    assert [chunk["choices"][0]["finish_reason"] for chunk in parsed].count("stop") == 1
    assert all(chunk.endswith(b"}\n\n") and chunk.count(b"\n") == 2 for chunk in chunks)


# ------------------------------------------------------------------------------------------------------ the stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with sides.stub(two_cores().driver) as running:
        yield running


def call(stub: Stub, end: bytes, *, times: int = 1, body: bytes = b'{"model":"m"}') -> bytes:
    """What comes back for requests one behind the other on a connection, each answer up to its `end`."""
    answers = b""
    with socket.create_connection(("127.0.0.1", stub.server.port), timeout=PATIENCE_SECS) as caller:
        for _ in range(times):
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\ncontent-length:%d\r\n\r\n" % len(body)
            answer = b""
            caller.sendall(head[:20])
            caller.sendall(head[20:] + body)
            while not answer.endswith(end):
                received = caller.recv(65_536)
                assert received, answer
                answer += received
            answers += answer
    return answers


def test_the_stub_answers_in_turn_and_counts_what_it_answered(stub: Stub) -> None:
    stub.become("json")
    answers = call(stub, b"}}", times=5)
    sent = [body for body in bodies.replies() if body in answers]
    assert len(sent) == bodies.REPLIES
    assert answers.count(b"HTTP/1.1 200 OK") == stub.answered() == 5
    stub.become("json")
    assert stub.answered() == 0


@pytest.mark.parametrize("kind", ["paced", "burst", "coalesced"])
def test_a_stream_is_the_same_bytes_however_they_are_written(stub: Stub, kind: str) -> None:
    stub.become(kind)
    head, _, chunks = call(stub, b"\r\n0\r\n\r\n").partition(b"\r\n\r\n")
    assert b"text/event-stream" in head
    assert chunks == b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in bodies.events()) + b"0\r\n\r\n"
    assert stub.answered() == pytest.approx(1)


def test_an_idle_stream_is_one_chunk(stub: Stub) -> None:
    stub.become("idle")
    first = bodies.events()[0]
    assert call(stub, first + b"\r\n").endswith(b"\r\n\r\n%x\r\n%b\r\n" % (len(first), first))


def test_an_upload_counts_by_the_share_of_it_that_has_come(stub: Stub) -> None:
    stub.become("upload")
    with socket.create_connection(("127.0.0.1", stub.server.port), timeout=PATIENCE_SECS) as caller:
        caller.sendall(b"POST / HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + b"x" * 10)
        while not stub.answered():
            pass
        assert stub.answered() == 0.25
        caller.sendall(b"x" * 30)
        assert caller.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
    assert stub.answered() == 1


def test_what_the_stub_cannot_read_is_refused(stub: Stub) -> None:
    stub.become("json")
    for request in (
        b"POST / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxy",
        b"GET /tea H\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", stub.server.port), timeout=PATIENCE_SECS) as caller:
            caller.sendall(request)
            assert caller.recv(65_536).startswith(b"HTTP/1.1 400 ")
            assert caller.recv(65_536) == b""
    with pytest.raises(LoadFailed, match="answers 400 to tea"):
        stub.become("tea")


def test_a_group_is_accounted_while_it_runs_and_not_afterwards() -> None:
    with sides.stub(two_cores().driver) as running:
        group = running.server.group
        assert 0 < group_run_seconds(group) < PATIENCE_SECS
        assert 5 << 20 < resident_bytes(group) < 500 << 20
    assert (group_run_seconds(group), resident_bytes(group)) == (0, 0)


# ------------------------------------------------------------------------------------------------- the two proxies


def test_a_yardstick_is_started_as_it_is_but_for_its_ports() -> None:
    given = (ROOT / "bench" / "yardsticks" / "haproxy.cfg").read_text()
    moved = at_ports(given, 1111, 2222)
    changed = [(old, new) for old, new in zip(given.splitlines(), moved.splitlines(), strict=True) if old != new]
    assert [new.strip() for old, new in changed if not old.startswith("#")] == [
        "bind 127.0.0.1:1111",
        "server a 127.0.0.1:2222 maxconn 20000",
    ]


def test_nginx_keeps_its_connections_and_buffers_nothing() -> None:
    moved = at_ports(sides.PROXY_CONF.read_text(), 1111, 2222)
    for line in ("listen 127.0.0.1:1111 ", "server 127.0.0.1:2222;", "proxy_buffering off;", 'Connection "";'):
        assert line in moved


# ---------------------------------------------------------------------------------------------- what a round tells


@pytest.mark.parametrize(("made", "answered"), [(100, 100.0), (100, 164.0), (100, 99.99)])
def test_a_round_is_shared_out_among_what_was_answered(made: int, answered: float) -> None:
    assert shared_out(made, answered, connections=64) == answered


@pytest.mark.parametrize(("made", "answered"), [(100, 98.0), (100, 164.1), (1, 0.0)])
def test_a_round_in_which_answers_do_not_come_from_the_upstream_is_none(made: int, answered: float) -> None:
    with pytest.raises(LoadFailed, match="the upstream gave"):
        shared_out(made, answered, connections=64)


def test_the_least_of_all_rounds_counts() -> None:
    tally = Tally()
    tally.take("json", [("ours", 3.0), ("theirs", 2.0), ("ours", 4.0), ("theirs", 1.0)])
    assert (tally.least("json", "ours"), tally.least("json", "theirs")) == (3.0, 1.0)
    assert tally.least("json", "nobody's") is None


def test_a_round_that_failed_ends_its_scenario_and_no_other() -> None:
    def failing(why: str) -> Iterator[tuple[str, float]]:
        yield "ours", 1.0
        raise LoadFailed(why)

    tally = Tally()
    tally.take("json", failing("2 of 9 requests were refused"))
    tally.take("paced", [("ours", 5.0)])
    tally.take("json", failing("socket errors"))
    tally.fail("burst", str(StartFailed("no port")))
    assert (tally.why("json"), tally.least("json", "ours")) == ("2 of 9 requests were refused", None)
    assert (tally.why("paced"), tally.least("paced", "ours")) == ("", 5.0)
    assert tally.why("burst") == "no port"


# ------------------------------------------------------------------------------------------------------ selection


def test_selection_is_measured_over_so_many_pools_of_each_model() -> None:
    made = selection.selector(RoundRobinPolicy(NOTHING_KNOWN), pools=3, models=2)
    models = list(selection.requested(12, 2))
    assert models[:3] == ["model-0", "model-1", "model-0"]
    frontends = [made.select(model, 1.0) for model in models]
    assert not any(isinstance(frontend, Refused) for frontend in frontends)
    assert len(set(frontends)) == 12, "each model's three pools, two frontends each"


def test_what_follows_a_selection_leaves_nothing_in_flight() -> None:
    made = selection.selector(RoundRobinPolicy(NOTHING_KNOWN), pools=2, models=1)
    selection.held(made, selection.requested(10, 1))
    assert [cell.in_flight for cell in made.cells()] == [0, 0]


# ----------------------------------------------------------------------------------------------------- the report


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize(
    ("name", "must", "aim"),
    [
        ("json/haproxy", 3.5, 2.7),
        ("paced/haproxy", 2.2, 1.6),
        ("burst/haproxy", 4.0, 3.0),
        ("coalesced/haproxy", 4.0, 3.0),
        ("upload/haproxy", None, None),
        ("json/nginx", None, None),
        ("idle/haproxy", 64, 32),
        ("selection/least-in-flight-1000", 5, 2),
    ],
)
def test_a_figure_has_the_bounds_that_were_agreed(name: str, must: float | None, aim: float | None) -> None:
    (figure,) = (figure for figure in FIGURES if figure.name == name)
    assert (figure.must, figure.aim) == (must, aim)


def test_every_side_of_a_trip_is_one_that_can_be_started() -> None:
    assert {label for figure in (*TRIPS, MEMORY) for label in (figure.ours, figure.theirs)} == sides.SIDES.keys()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


JSON = Figure(name="json/haproxy", room=Room.TRIP, what="x", ours="o", theirs="t", unit="µs", must=3.5, aim=2.7)


def test_the_ratio_of_a_trip_is_judged_and_of_memory_and_selection_our_own_figure() -> None:
    result = Result(
        [Measured(JSON, 60.0, 20.0)],
        [Memory(MEMORY, 40.0, 10.0)],
        [Selection(SELECTIONS[0], 0.5, 3_400.0, 6.0)],
    )
    text = report(["a machine"], result)
    assert text.startswith("* a machine\n")
    trip, memory, selected = (cells(line) for line in text.splitlines() if line.startswith("| `"))
    assert trip[-3:] == ["3.000", "3.50 ✓", "2.70 ✗"]
    assert memory[3:] == ["40.0", "64.00 ✓", "32.00 ✗", "haproxy", "10.0", "4.000"]
    assert selected[2:] == ["0.500", "5.00 ✓", "2.00 ✓", "3,400", "6.00"]


def test_what_was_not_measured_says_why_and_what_was_not_asked_for_is_left_out() -> None:
    text = report([], Result([NotMeasured(JSON, "wrk is missing")], [Memory(MEMORY, None, None, "a | b")], []))
    trip, memory = (cells(line) for line in text.splitlines() if line.startswith("| `"))
    assert "not measured: wrk is missing" in trip
    assert memory[3:] == ["not measured: a / b", "64.00", "32.00", "haproxy", "-", "-"]
    assert "Selection" not in text


def test_every_line_of_a_table_has_as_many_cells() -> None:
    memory, selected = Memory(MEMORY, 1.0, None), Selection(SELECTIONS[0], None, None, None, "no")
    for result in (Result([], [memory], []), Result([], [], [selected])):
        rows = [cells(line) for line in report([], result).splitlines() if line.startswith("|")]
        assert len({len(row) for row in rows}) == 1
