"""What the figures of bench/stores rest on: units, what is counted, what is reckoned of it; and that a poll is one."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # behind everything, so that an installed gdsvc is still the one that is tested

from bench.canned_table import NaiveReader, polled  # noqa: E402
from bench.processes import Server, free_port, run_seconds, serving, two_cores  # noqa: E402
from bench.stores import beats  # noqa: E402
from bench.stores.beats import BeatFailed  # noqa: E402
from bench.stores.heartbeats import Heartbeats  # noqa: E402
from bench.stores.items import items, renewed  # noqa: E402
from bench.stores.places import Tables  # noqa: E402
from bench.stores.readings import Reading  # noqa: E402
from bench.stores.report import Result, report  # noqa: E402
from bench.stores.tables import Charge, Check  # noqa: E402
from bench.stores.units import item_bytes, month_usd, query_units, write_units  # noqa: E402
from gdsvc.backends.dynamodb import codec  # noqa: E402

CHARGE = Charge(renewal_bytes=97, registration_bytes=495, write_units=1, read_units=13.5, queries=8)


# ----------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("attribute", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "é"}, 2),
        ({"N": "0"}, 1),
        ({"N": "1"}, 2),
        ({"N": "12"}, 2),
        ({"N": "123"}, 3),
        ({"N": "-12.5"}, 3),
        ({"N": "1200"}, 2),  # the digits that count are two
        ({"BOOL": True}, 1),
    ],
)
def test_an_attribute_is_as_large_as_its_name_and_its_value(attribute: dict[str, object], size: int) -> None:
    assert item_bytes({"ab": attribute}) == 2 + size


def test_what_the_rules_for_sizes_do_not_cover_is_refused() -> None:
    with pytest.raises(ValueError, match="not counted"):
        item_bytes({"ab": {"L": []}})


@pytest.mark.parametrize(("sizes", "units"), [([1], 1), ([1024], 1), ([1025], 2), ([97] * 25, 25), ([], 0)])
def test_each_item_that_is_written_is_rounded_up_to_a_kilobyte(sizes: list[int], units: int) -> None:
    assert write_units(sizes) == units


@pytest.mark.parametrize(("pages", "units"), [([0], 0.5), ([4096], 0.5), ([4097], 1.0), ([100, 100], 1.0)])
def test_each_page_that_is_read_is_rounded_up_to_four_kilobytes_and_costs_half(pages: list[int], units: float) -> None:
    assert query_units(pages) == units


def test_a_month_costs_what_the_prices_say() -> None:
    assert month_usd(200, 0) == pytest.approx(324.0)
    assert month_usd(0, 24) == pytest.approx(7.776)


# ----------------------------------------------------------------------------------- what the table answers


def test_the_items_of_the_bench_are_those_that_the_service_reads() -> None:
    renewal, registration = items(0, 1)
    found = codec.found_in(renewal)
    assert found is not None
    read = codec.registration_in(registration)
    assert read is not None
    assert read[0].version == found.renewal.version


def test_a_renewed_answer_has_other_stamps_and_is_as_long() -> None:
    renewal, _ = items(0, 1)
    before = str(renewal).encode()
    after = [renewed(before, number) for number in (1, 2)]
    assert len({before, *after}) == 3
    assert {len(each) for each in after} == {len(before)}


async def test_a_poll_of_the_canned_table_renews_every_pool() -> None:
    async with polled(300) as made:
        index = made.store.index
        names = [found.name for item in items(0, 300) if (found := codec.found_in(item))]
        before = [index.deadline(name) for name in names]
        await made.poll()
        assert all(index.deadline(name) > deadline for name, deadline in zip(names, before, strict=True))


def test_the_poll_of_an_afternoon_renews_every_pool_too() -> None:
    reader = NaiveReader(300)
    reader.poll()
    before = dict(reader.expires_at)
    reader.poll()
    assert len(before) == 300
    assert all(reader.expires_at[key] > at for key, at in before.items())


# ------------------------------------------------------------------------------------------------- heartbeats


ANSWERING = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment
    calls = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Handler.calls += 1
        body = b'{"r":"1-benchbee-1","call":%d}' % Handler.calls
        self.send_response(int(sys.argv[2]))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said):
        pass

http.server.ThreadingHTTPServer.request_queue_size = 100  # all connect at once
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextmanager
def answering(status: int) -> Iterator[Server]:
    """A server that answers so to whatever is posted, and how often it has been."""
    port = free_port()
    with serving([sys.executable, "-c", ANSWERING, str(port), str(status)], port, two_cores().driver) as server:
        yield server


def test_heartbeats_are_sent_once_each_or_at_so_many_instants() -> None:
    with answering(200) as server:
        assert beats.all_of(server.port, beats.requests(30), 10).beats == 30
        paced = beats.paced(server.port, beats.requests(3), 200.0, 0.2, seed=1)
        assert paced.beats == beats.paced(server.port, beats.requests(3), 200.0, 0.2, seed=1).beats
        assert 10 <= paced.beats <= 90
        assert paced.latencies.quantile(0.99) > 0


def test_a_heartbeat_that_is_refused_ends_the_round_and_says_what_was_answered() -> None:
    with answering(503) as server, pytest.raises(ExceptionGroup) as refused:
        beats.all_of(server.port, beats.requests(1), 1)
    assert refused.group_contains(BeatFailed, match="answered 503")


def test_the_proxy_counts_calls_and_answers_queries_again_with_the_last_stamps_or_with_new_ones() -> None:
    port = free_port()
    with answering(200) as table:
        command = [sys.executable, "-m", "bench.stores.proxy", str(port), str(table.port)]
        with serving(command, port, two_cores().driver):
            tables = Tables(f"http://127.0.0.1:{table.port}", port)
            tables.tell("replay")
            first, again, written = (_call(port, operation) for operation in ("Query", "Query", "PutItem"))
            tables.tell("renew")
            new = [_call(port, "Query") for _ in range(2)]
            tables.tell("replay")
            last = _call(port, "Query")
            counts = tables.counts()
            tables.tell("pass")
            asked_again = _call(port, "Query")
    assert (first, again, written) == (b'{"r":"1-benchbee-1","call":1}',) * 2 + (b'{"r":"1-benchbee-1","call":2}',)
    assert new == [b'{"r":"1-00000001-1","call":1}', b'{"r":"1-00000002-1","call":1}']
    assert last == new[-1]
    assert asked_again == b'{"r":"1-benchbee-1","call":3}'
    assert counts.calls == {"Query": 5, "PutItem": 1}
    assert counts.all_calls == 6
    assert counts.answered > 6 * len(first)
    assert counts.asked > 0


def _call(port: int, operation: str) -> bytes:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/", b"{}", {"X-Amz-Target": f"DynamoDB_20120810.{operation}"})
    body = connection.getresponse().read()
    connection.close()
    return body


def test_the_time_that_a_process_ran_is_known_to_less_than_a_tick() -> None:
    before, until = run_seconds(os.getpid()), time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    assert 0.04 < run_seconds(os.getpid()) - before < 1.0


# ------------------------------------------------------------------------------------------------- the report


def beaten(store: str, per_sec: int, cpu: float, calls: float = 0.0) -> Heartbeats:
    return Heartbeats(store, per_sec, cpu, 0.001, 0.002, calls, per_sec or 5_000.0)


RESULT = Result(
    heartbeats=[
        *(beaten("memory", rate, 1e-4) for rate in (200, 0)),
        *(beaten("dynamodb", rate, 5e-4, 0.25) for rate in (200, 0)),
    ],
    readings=[
        Reading("memory", 1_000, 0.002),
        Reading("dynamodb", 1_000, 0.012, 5e-6, 0.02, 240.0, 6e6, CHARGE),
    ],
    checks=[Check("Query of 200 renewals", 2.5, 0.5), Check("BatchWriteItem of 25 renewals", 25, 25.0)],
    missing={"Kubernetes": "install Go"},
)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, its head left out."""
    lines = text.partition(f"## {heading}")[2].partition("\n## ")[0].splitlines()
    return [cells(line) for line in lines if line.startswith("|")][2:]


def test_the_report_sets_each_store_beside_memory() -> None:
    heartbeats = rows(report([], RESULT), "Heartbeats")
    assert heartbeats[1] == ["dynamodb", "200", "500", "5.000", "1.00", "2.00", "0.250", "4.00"]
    assert heartbeats[2][:4] == ["memory", "5,000, as fast as it goes", "100", "1.000"]
    assert rows(report([], RESULT), "What is read")[1] == [
        *("dynamodb", "1,000", "12.0", "6.000", "20.0", "20.0", "5.00", "240", "6,000", "13.5 in 8 queries")
    ]


def test_a_pool_and_minute_is_its_heartbeats_and_its_share_of_what_is_read() -> None:
    memory, dynamodb = rows(report([], RESULT), "A pool and minute")
    assert memory == ["memory", "1.20", "1.000", "-", "-", "-"]
    # 12 heartbeats of 0.5 ms and 60 s of 10 ms for 1,000 pools; 12 quarters of a call and 240 calls for 1,000 pools.
    assert dynamodb == ["dynamodb", "6.60", "5.500", "3.24", "12.0", "0.405"]


def test_what_was_not_read_in_time_leaves_its_rows_out() -> None:
    few = msgspec.structs.replace(RESULT, readings=[Reading("memory", 100, 0.002)])
    assert rows(report([], few), "A pool and minute") == []
    assert len(rows(report([], few), "What is read")) == 1


def test_units_are_reckoned_for_a_month_and_checked_against_the_engine() -> None:
    text = report([], RESULT)
    assert "Query of 200 renewals: 2.5 units by the documented rules; ministack says 0.5" in text
    assert "BatchWriteItem of 25 renewals: 25 units by the documented rules; ministack says the same" in text
    assert rows(text, "Units") == [
        ["1,000", "5 s", "518", "52.5", "331"],
        ["1,000", "15 s", "173", "52.5", "115"],
    ]


def test_a_store_that_is_not_there_is_left_out_and_said_why() -> None:
    text = report(["a machine"], RESULT)
    assert text.startswith("* a machine\n* Kubernetes is not measured: install Go\n")
    assert "| kubernetes |" not in text
