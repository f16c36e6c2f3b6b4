"""What every number of bench/ rests on. bench/ is no part of the distribution: it is imported from the tree."""

import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # behind everything, so that an installed gdsvc is still the one that is tested

from bench import in_process, instructions, payloads, trips  # noqa: E402
from bench.__main__ import Scenario  # noqa: E402
from bench.effort import FULL, Effort  # noqa: E402
from bench.figures import FIGURES, Figure, Measured, NotMeasured, Room, Row, chosen  # noqa: E402
from bench.load import LoadFailed, answered  # noqa: E402
from bench.processes import ChildFailed, Cores, StartFailed, cpu_seconds, free_port, output_of, serving, two_cores  # noqa: E402
from bench.table import bound, number, table  # noqa: E402

YARDSTICKS = {
    "README.md": "b6b9bd0c70e28640c68f7ec2aa81526ff9490660bdf821cea79adbe871ade92b",
    "bare_asgi.py": "6bf756ecb7c3248f52a933faaa5766bf1abae43836c1cdd1c427a60a6a0b5fe6",
    "haproxy.cfg": "dde4c26d4399b79adecfd65c364934cc152f2754460c1a893134bf01aaaa4094",
    "naive_fastapi.py": "26e437959559a494512806fa15d4776bbdd6a650f787e68206fe4fb43b022a90",
    "nginx.conf": "105f23afd05104a3e08981a36265856d2da87346aabf4d0ab779b0909204e767",
    "slow_reference.py": "3e7ecbdeabc8956cfbc80069d60b947869c326cd1880529cce81b250cce7adf2",
}

BURNS = """
import os, sys, threading, time

def burn(seconds, clock):
    end = clock() + seconds
    while clock() < end:
        pass

if sys.argv[1:] == ["burn"]:
    thread = threading.Thread(target=burn, args=(0.2, time.thread_time))
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        burn(0.2, time.process_time)
        os._exit(0)
    os.waitpid(child, 0)
print("burnt", flush=True)
sys.stdin.readline()
"""

STUBBORN = """
import contextlib, os, signal, socket, sys

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kept = []
    while True:
        kept.append(listener.accept()[0])
        with contextlib.suppress(OSError):
            kept[-1].sendall(b"x")
signal.pause()
"""

FIGURE = Figure(
    name="trip/peer", room=Room.TRIP, what="a trip", ours="gdsvc", theirs="peer", unit="µs", must=1.2, aim=1.05
)


# ---------------------------------------------------------------------------------------------------- yardsticks


def test_the_yardsticks_are_byte_for_byte_what_was_handed_over() -> None:
    folder = ROOT / "bench" / "yardsticks"
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}
    assert found == YARDSTICKS


# -------------------------------------------------------------------------------------------------------- table


def test_a_row_shows_both_minima_the_ratio_and_whether_the_limits_hold() -> None:
    lines = table(["a machine"], [Measured(FIGURE, ours=11.0, theirs=10.0)]).splitlines()
    assert lines[0] == "* a machine"
    assert lines[-1] == "| `trip/peer` | a trip | µs | gdsvc | 11.0 | peer | 10.0 | 1.100 | 1.20 ✓ | 1.05 ✗ |"


def test_every_line_of_the_table_has_as_many_cells() -> None:
    rows: list[Row] = [Measured(FIGURE, 1.0, 2.0), NotMeasured(FIGURE, "a | b\nc")]
    lines = table([], rows).splitlines()[1:]
    assert [line.count("|") for line in lines] == [11] * 4


def test_a_row_without_a_number_says_why() -> None:
    assert "| not measured: wrk is missing | 1.20 | 1.05 |" in table([], [NotMeasured(FIGURE, "wrk is missing")])


@pytest.mark.parametrize(
    ("limit", "ratio", "shown"),
    [
        (1.2, 1.2, "1.20 ✓"),
        (1.2, 1.2004, "1.20 ✓"),  # it is shown as 1.200
        (1.2, 1.201, "1.20 ✗"),
        (1.2, None, "1.20"),
        (None, 5.0, "reported"),
    ],
)
def test_a_limit_holds_up_to_itself(limit: float | None, ratio: float | None, shown: str) -> None:
    assert bound(limit, ratio) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1,234")]
)
def test_a_number_shows_the_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


# -------------------------------------------------------------------------------------------------------- visits

TRIP = next(figure for figure in FIGURES if figure.name == "unchanged/granian")
CORES = Cores(server=0, driver=1)


def test_the_least_of_all_visits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([{TRIP.ours: 3.0, TRIP.theirs: 2.0}, {TRIP.ours: 4.0, TRIP.theirs: 1.0}])
    monkeypatch.setattr(trips, "visit", lambda *_: iter(next(told).items()))
    scenario = Scenario("unchanged", [msgspec.structs.replace(TRIP, needs=())])
    for visit in range(2):
        scenario.visit(visit, FULL, CORES)
    (row,) = scenario.rows()
    assert isinstance(row, Measured)
    assert (row.ours, row.theirs) == (3.0, 1.0)


def test_a_scenario_that_failed_is_not_visited_again_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0

    def fail(*_: object) -> Iterator[tuple[str, float]]:
        nonlocal visits
        visits += 1
        yield TRIP.ours, 1.0
        raise LoadFailed("2 of 9 requests were refused")

    monkeypatch.setattr(trips, "visit", fail)
    scenario = Scenario("unchanged", [msgspec.structs.replace(TRIP, needs=())])
    for visit in range(3):
        scenario.visit(visit, FULL, CORES)
    (row,) = scenario.rows()
    assert isinstance(row, NotMeasured)
    assert (visits, row.why) == (1, "2 of 9 requests were refused")


@pytest.mark.parametrize(("visits", "runs", "times"), [(10, 5, 1), (10, 5, 4), (1, 5, 4), (3, 2, 1), (4, 4, 1)])
def test_the_runs_of_fresh_children_are_spread_over_the_visits(visits: int, runs: int, times: int) -> None:
    effort = Effort(visits=visits, rounds=1, seconds=1.0, runs=runs, share=1.0, calls=1)
    at_each = [effort.runs_at(visit, times) for visit in range(visits)]
    assert sum(at_each) == runs * times
    assert max(at_each) - min(at_each) <= 1


# ------------------------------------------------------------------------------------------------------ figures


def test_every_figure_has_a_name_of_its_own_and_both_its_contestants() -> None:
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    subjects = {**in_process.SUBJECTS, **instructions.SUBJECTS}
    for figure in FIGURES:
        if figure.room is Room.TRIP:
            assert figure.scenario in trips.SCENARIOS
        else:
            assert {figure.ours, figure.theirs} <= subjects[figure.scenario].keys()


def test_figures_are_chosen_by_how_their_names_begin() -> None:
    assert [figure.name for figure in chosen(["list-10/", "pick"])] == [
        "list-10/plain",
        "list-10/zstd",
        "list-10/gzip",
        "pick/cycle",
    ]
    assert chosen([]) == FIGURES
    with pytest.raises(ValueError, match="'tea'"):
        chosen(["list", "tea"])


def test_bodies_have_the_sizes_that_the_table_names() -> None:
    assert len(payloads.SMALL) == payloads.SMALL_BYTES == 120
    assert {len(payloads.large(number)) for number in (0, 7, 99_999)} == {payloads.LARGE_BYTES} == {300}


def test_changing_bodies_change_their_pool_each_time_and_never_flip_between_two_payloads() -> None:
    bodies = [json.loads(body) for body in payloads.changing(pools=3, variants=6)]
    of_one_pool = [body for body in bodies + bodies if body["key"] == bodies[0]["key"]]
    assert len(of_one_pool) == 12
    for position, body in enumerate(of_one_pool):
        assert body not in of_one_pool[max(0, position - 5) : position]


def test_a_fleet_names_each_pool_once() -> None:
    keys = {json.dumps(json.loads(body)["key"]) for body in payloads.fleet(1_000)}
    assert len(keys) == 1_000


# --------------------------------------------------------------------------------------------- what is counted


def test_wrk_is_read_by_what_was_answered() -> None:
    assert answered("  12345 requests in 0.70s, 2.00MB read\n") == 12345


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ("  100 requests in 0.70s, 2.00MB read\n  Non-2xx or 3xx responses: 3\n", "3 of 100"),
        ("  100 requests in 0.70s, 2.00MB read\n  Socket errors: connect 0, read 7, write 0, timeout 0\n", "read 7"),
        ("  0 requests in 0.70s, 0.00B read\n", "no request"),
        ("unable to connect", "no request"),
    ],
)
def test_a_round_with_anything_but_good_answers_is_no_measurement(said: str, match: str) -> None:
    with pytest.raises(LoadFailed, match=match):
        answered(said)


def test_callgrind_is_read_by_its_total() -> None:
    assert instructions.total_of("events: Ir\nfn=(1)\n1 2\n\ntotals: 1234\n") == 1234
    with pytest.raises(ValueError, match="totals"):
        instructions.total_of("events: Ir\n")


@pytest.fixture(params=["burn", "idle"])
def burner(request: pytest.FixtureRequest) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-c", BURNS, request.param]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        yield request.param, process
        process.communicate("\n")


def test_the_cpu_of_a_group_is_that_of_its_threads_and_children_too(
    burner: tuple[str, "subprocess.Popen[str]"],
) -> None:
    doing, process = burner
    assert process.stdout is not None
    assert process.stdout.readline() == "burnt\n"
    burnt = 0.4 if doing == "burn" else 0.0
    assert burnt - 0.03 <= cpu_seconds(process.pid) <= burnt + 0.4  # what an interpreter takes to start


def test_a_group_that_has_ended_has_no_cpu() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as process:
        process.wait()
    assert cpu_seconds(process.pid) == 0.0


# ---------------------------------------------------------------------------------------------------- processes


def test_a_server_is_stopped_with_its_children_when_the_block_ends() -> None:
    port = free_port()
    with serving([sys.executable, "-c", STUBBORN, str(port)], port, two_cores().server) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        assert connection.recv(1) == b"x"
    with connection:
        assert connection.recv(1) == b""  # the child held it, and is gone


def test_a_server_that_does_not_start_is_reported_with_its_last_words() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no tea today')"]
    with pytest.raises(StartFailed, match="no tea today"), serving(command, free_port(), two_cores().server):
        pass


def test_a_child_that_fails_is_reported_with_its_last_words() -> None:
    with pytest.raises(ChildFailed, match="ended with 1: no tea today"):
        output_of([sys.executable, "-c", "raise SystemExit('no tea today')"], two_cores().server)


def test_a_child_that_is_interrupted_may_still_report() -> None:
    script = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('so far'))\nsignal.pause()"
    assert output_of([sys.executable, "-c", script], two_cores().server, interrupted_after=1.0) == "so far\n"
