"""The service over a table: processes that share one, on real sockets, in their own time."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dynamodb.faulty_table import FaultyTable
from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.tables import REGION
from tests.e2e.clusters import cluster, eventually, imported, pod
from tests.e2e.process import Serve, Service, run_to_end

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(180)]

PROGRAM = (sys.executable, "-W", "error", "-m", "gdsvc")
KEY = {"site_id": "ohio", "namespace": "dynamo", "dgd_name": "p"}
PATH = "/pools/ohio/dynamo/p"
LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3", "--dynamodb-poll-interval-secs", "1")
TWO_POLLS_SECS = 2.5  # of a second each, and what a busy machine adds


def pool(said: str, name: str = "p") -> dict[str, Any]:
    return {"key": {**KEY, "dgd_name": name}, "model": said}


def storage(name: str, url: str, *more: str) -> tuple[str, ...]:
    return (
        *("--registration-storage", "dynamodb", "--dynamodb-table", name),
        *("--dynamodb-region", REGION, "--dynamodb-endpoint-url", url),
        *(more or LEASE),
    )


def ready(serve: Serve, name: str, url: str, *more: str) -> Service:
    service = serve(*storage(name, url, *more), environ=CREDENTIALS)
    eventually(lambda: service.get("/ready").status == 200)
    return service


def within(secs: float, holds: Callable[[], bool]) -> None:
    """That it comes to hold in that time."""
    until = time.monotonic() + secs
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)  # what is looked at is another process: no event to wait for


def models(service: Service) -> dict[str, str]:
    return {item["key"]["dgd_name"]: item["model"] for item in service.get("/pools").json()["pools"]}


def test_replicas_are_one_to_their_callers(serve: Serve, shared_table: str, ministack: str) -> None:
    a, b = (ready(serve, shared_table, ministack) for _ in range(2))
    assert a.post("/pools", pool("m")).status == 200
    assert models(a) == {"p": "m"}
    within(TWO_POLLS_SECS, lambda: models(b) == {"p": "m"})
    for turn in range(12):  # a heartbeat of 0.5 s, by turns
        assert (a, b)[turn % 2].post("/pools", pool("m")).status == 200
        time.sleep(0.5)  # the pace of a relay
        assert (models(a), models(b)) == ({"p": "m"}, {"p": "m"})
    assert b.post("/pools", pool("changed")).status == 200
    within(TWO_POLLS_SECS, lambda: models(a) == {"p": "changed"})
    with a.connect() as connection:
        assert connection.request("DELETE", PATH).status == 204
    assert models(a) == {}
    within(TWO_POLLS_SECS, lambda: models(b) == {})
    assert a.samples()["gdsvc_store_unreadable"] == 0
    assert a.samples()["gdsvc_store_polls_total"] > 3


def test_router_replicas_are_shared_too(serve: Serve, shared_table: str, ministack: str) -> None:
    a = ready(serve, shared_table, ministack)
    b = ready(serve, shared_table, ministack, *LEASE, "--router", "fixed=http://10.0.0.9:8000")
    assert a.post("/routers", {"id": "r", "url": "http://10.0.0.1:8000"}).status == 200
    within(TWO_POLLS_SECS, lambda: [each["id"] for each in b.get("/routers").json()["routers"]] == ["fixed", "r"])
    assert b.post("/routers", {"id": "fixed", "url": "http://10.0.0.1:8000"}).status == 409


def test_a_restarted_replica_lists_all_at_once_and_is_complete_a_lease_later(
    serve: Serve, shared_table: str, ministack: str
) -> None:
    long = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "6", "--dynamodb-poll-interval-secs", "1")
    first = ready(serve, shared_table, ministack, *long)
    for name in ("p", "q"):
        assert first.post("/pools", pool("m", name)).status == 200
    again = ready(serve, shared_table, ministack, *long)
    assert (sorted(models(again)), again.complete()) == (["p", "q"], False)
    within(10.0, again.complete)


def test_what_no_longer_registers_is_gone_on_every_replica(serve: Serve, shared_table: str, ministack: str) -> None:
    a, b = (ready(serve, shared_table, ministack) for _ in range(2))
    assert a.post("/pools", pool("m")).status == 200
    within(3 + TWO_POLLS_SECS, lambda: models(a) == {})
    within(TWO_POLLS_SECS, lambda: models(b) == {})


def test_a_table_that_cannot_be_reached_at_the_start_is_waited_for(
    serve: Serve, shared_table: str, proxy: FaultyTable
) -> None:
    proxy.fault = lambda operation: "cut"
    service = serve(*storage(shared_table, proxy.url), environ=CREDENTIALS)
    refused = service.get("/ready")
    assert (refused.status, "has not been read yet" in refused.body.decode()) == (503, True)
    for reply in (service.get("/pools"), service.get("/routers"), service.post("/pools", pool("m"))):
        assert (reply.status, reply.header("retry-after") is not None) == (503, True)
    proxy.fault = lambda operation: ""
    eventually(lambda: service.get("/ready").status == 200)
    assert service.post("/pools", pool("m")).status == 200
    assert models(service) == {"p": "m"}
    assert service.samples()['gdsvc_store_errors_total{kind="unreachable"}'] > 0


def test_while_the_table_is_gone_heartbeats_are_refused_in_time_and_the_list_is_kept(
    serve: Serve, shared_table: str, proxy: FaultyTable
) -> None:
    service = ready(serve, shared_table, proxy.url)
    assert service.post("/pools", pool("m")).status == 200
    proxy.fault = lambda operation: "cut"
    began_at = time.monotonic()
    refused = service.post("/pools", pool("m"))
    assert time.monotonic() - began_at < 2.0
    assert (refused.status, refused.header("retry-after")) == (503, "1")
    assert "could not be written" in refused.json()["error"]["message"]
    within(10.0, lambda: "dynamodb.unread" in service.log)
    time.sleep(4.0)  # longer than the lease, which does not end
    assert models(service) == {"p": "m"}
    proxy.fault = lambda operation: ""
    within(5.0, lambda: service.post("/pools", pool("m")).status == 200)
    assert models(service) == {"p": "m"}
    assert sum(line["event"] == "dynamodb.unread" for line in service.events) == 1
    assert "pool.expired" not in service.log


@pytest.mark.parametrize(
    ("fault", "told"),
    [("", ("ResourceNotFoundException", "gdsvc dynamodb create-table")), ("denied", ("AccessDeniedException",))],
)
def test_a_table_that_is_not_there_or_refuses_us_is_told_in_one_line(
    proxy: FaultyTable, fault: str, told: tuple[str, ...]
) -> None:
    proxy.fault = lambda operation: fault
    ended = run_to_end(
        *PROGRAM, "serve", "--listen", "127.0.0.1:0", *storage("nowhere", proxy.url), environ=CREDENTIALS
    )
    assert ended.returncode == 1
    line = ended.stderr.strip().splitlines()[-1]
    assert line.startswith("gdsvc serve: --dynamodb-table nowhere: ")
    assert all(part in line for part in told)
    assert "Traceback" not in ended.stderr


def test_registrations_in_a_table_join_what_the_clusters_show(
    serve: Serve, shared_table: str, ministack: str, tmp_path: Path
) -> None:
    with cluster(tmp_path) as east:
        east.put(imported("p-pool-relay", pod("10.0.0.1")))
        environ = CREDENTIALS | east.environ
        flags = ("--pool-discovery", "mcs", *storage(shared_table, ministack))
        services = [serve(*flags, environ=environ) for _ in range(2)]
        for service in services:
            eventually(lambda service=service: service.get("/ready").status == 200)  # type: ignore[misc]
        key = {"site_id": "east", "namespace": "relay", "dgd_name": "p"}
        assert services[0].post("/pools", {"key": key, "model": "joined"}).status == 200
        within(TWO_POLLS_SECS, lambda: models(services[1]) == {"p": "joined"})


def test_the_table_is_made_once_and_checked(ministack: str) -> None:
    flags = ("--dynamodb-table", "made-by-command", "--dynamodb-region", REGION, "--dynamodb-endpoint-url", ministack)

    def run(*arguments: str) -> tuple[int, str]:
        ended = run_to_end(*PROGRAM, "dynamodb", *arguments, *flags, environ=CREDENTIALS)
        assert ended.stderr == ""
        return ended.returncode, ended.stdout

    assert '"BillingMode": "PAY_PER_REQUEST"' in run("create-table", "--dry-run")[1]
    code, said = run("check")
    assert (code, said) == (1, "FAULT   the table is there: describe_table: ResourceNotFoundException\n")
    assert run("create-table", "--shards", "3")[1].splitlines() == [
        "created the table made-by-command",
        "enabled time to live on the attribute ttl",
        "laid it out in 3 shards",
    ]
    assert run("create-table", "--shards", "3") == (0, "the table made-by-command is there, and as it should be\n")
    assert run("create-table")[1] == "it has 3 shards, not 8, which cannot be changed any more\n"
    code, said = run("check")
    assert code == 0, said
    assert [line.split()[0] for line in said.splitlines()] == ["ok"] * 12


def test_a_check_says_each_permission_that_is_missing(proxy: FaultyTable, shared_table: str) -> None:
    proxy.fault = lambda operation: "denied" if operation in ("UpdateItem", "DescribeTimeToLive") else ""
    flags = ("--dynamodb-table", shared_table, "--dynamodb-region", REGION, "--dynamodb-endpoint-url", proxy.url)
    ended = run_to_end(*PROGRAM, "dynamodb", "check", *flags, environ=CREDENTIALS)
    faults = [line for line in ended.stdout.splitlines() if line.startswith("FAULT")]
    assert ended.returncode == 1
    assert faults == [
        "FAULT   old items are dropped by their ttl: describe_time_to_live: AccessDeniedException",
        "FAULT   dynamodb:UpdateItem is allowed: update_item: AccessDeniedException",
    ]


def test_the_commands_tell_what_they_cannot_do_without_a_traceback() -> None:
    flags = ("--dynamodb-table", "pools", "--dynamodb-region", REGION, "--dynamodb-endpoint-url", "http://127.0.0.1:1")
    ended = run_to_end(*PROGRAM, "dynamodb", "create-table", *flags, environ=CREDENTIALS)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "gdsvc dynamodb create-table: describe_table: the endpoint cannot be reached\n"
