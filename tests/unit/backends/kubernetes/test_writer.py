"""The writer over a scripted API server. Pauses are a fiftieth of the real ones, and a heartbeat has a second."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gdsvc.backends.kubernetes.leases import REGISTRATION, Member, Wanted, Written
from gdsvc.backends.kubernetes.writer import IN_FLIGHT, Writer
from gdsvc.errors import DoesNotFit, Unavailable
from gdsvc.kube.client import Client
from tests.kube.api_server import Request, reply
from tests.kube.lease_server import LeaseServer, lease_server, refused
from tests.kube.stand import Credentials, until

pytestmark = pytest.mark.loops("uvloop")  # as in production: real sockets and real pauses take their time
PAUSE_SECS = 0.004
BUDGET_SECS = 1.0


@dataclass
class Book:
    """What was written last, by name."""

    leases: dict[str, Written] = field(default_factory=dict[str, Written])
    sent: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])

    def known(self, name: str) -> Written | None:
        return self.leases.get(name)

    def sending(self, name: str, renewed: str) -> None:
        self.sent.append(name)

    def written(self, written: Written) -> None:
        self.leases[written.name] = written

    def not_written(self, name: str) -> None:
        self.failed.append(name)

    def taken_out(self, name: str) -> None:
        self.leases.pop(name, None)


@dataclass
class Bench:
    api: LeaseServer
    book: Book
    writer: Writer

    def registration(self, name: str = "p") -> str:
        annotations: dict[str, str] = self.api.objects[name]["metadata"]["annotations"]
        return annotations[REGISTRATION]

    def renewed(self, name: str = "p") -> str:
        return str(self.api.objects[name]["spec"]["renewTime"])


@asynccontextmanager
async def bench(budget_secs: float = BUDGET_SECS) -> AsyncIterator[Bench]:
    async with lease_server() as api, Client(Credentials(api.host)) as client:
        book = Book()
        async with Writer(client, "n", book, budget_secs=budget_secs, first_pause_secs=PAUSE_SECS) as writer:
            yield Bench(api, book, writer)


def wanted(registration: bytes = b"one", name: str = "p") -> Wanted:
    return Wanted(Member.POOL, name, registration, 15, "replica-0")


class Gate:
    """A deed that holds its request until it is opened, then lets the server answer the truth."""

    def __init__(self, api: LeaseServer) -> None:
        self._api = api
        self._open = asyncio.Event()
        self.waiting = 0

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.waiting += 1
        await self._open.wait()
        await self._api._truth(request, writer)

    def open(self) -> None:
        self._open.set()


async def test_a_member_is_created_renewed_changed_and_deleted() -> None:
    async with bench() as it:
        await it.writer.put(wanted())
        first = it.renewed()
        await it.writer.put(wanted())
        assert it.renewed() > first
        await it.writer.put(wanted(b"two"))
        assert it.registration() == "two"
        assert await it.writer.take_out("p")
        assert not await it.writer.take_out("p")
        assert it.api.writes() == ["POST", "PATCH", "PATCH", "DELETE", "DELETE"]
        assert it.api.requests[0].path == "/apis/coordination.k8s.io/v1/namespaces/n/leases"
        assert it.api.requests[1].path == "/apis/coordination.k8s.io/v1/namespaces/n/leases/p"


async def test_a_renewal_sends_the_stamp_alone() -> None:
    async with bench() as it:
        await it.writer.put(wanted(b"x" * 10_000))
        await it.writer.put(wanted(b"x" * 10_000))
        operations = json.loads(it.api.requests[1].body)
        assert [operation["path"] for operation in operations if operation["op"] != "test"] == ["/spec/renewTime"]
        assert len(it.api.requests[1].body) < 250


# --------------------------------------------------------------------------------------------------- one in flight


async def test_equal_heartbeats_that_wait_for_a_write_share_the_next_one() -> None:
    async with bench() as it:
        gate = Gate(it.api)
        it.api.script.append(gate)
        beats = [asyncio.ensure_future(it.writer.put(wanted())) for _ in range(50)]
        await until(lambda: gate.waiting == 1)
        beats += [asyncio.ensure_future(it.writer.put(wanted())) for _ in range(50)]
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(*beats)
        assert it.api.writes() == ["POST", "PATCH"]


async def test_heartbeats_that_differ_are_written_in_the_order_in_which_they_came() -> None:
    async with bench() as it:
        gate = Gate(it.api)
        it.api.script.append(gate)
        beats = [asyncio.ensure_future(it.writer.put(wanted(b"one")))]
        await until(lambda: gate.waiting == 1)
        for registration in (b"two", b"one", b"three"):
            beats.append(asyncio.ensure_future(it.writer.put(wanted(registration))))
            await asyncio.sleep(0)
        removing = asyncio.ensure_future(it.writer.take_out("p"))
        gate.open()
        await asyncio.gather(*beats, removing)
        sent = [request.body.decode() for request in it.api.requests]
        assert [body for body in sent if "one" in body or "two" in body or "three" in body] == sent[:4]
        assert it.api.writes() == ["POST", "PATCH", "PATCH", "PATCH", "DELETE"]
        assert it.api.objects == {}


async def test_a_slow_write_of_one_member_holds_back_no_other() -> None:
    async with bench() as it:
        gate = Gate(it.api)
        it.api.script.append(gate)
        slow = asyncio.ensure_future(it.writer.put(wanted(name="slow")))
        await until(lambda: gate.waiting == 1)
        await it.writer.put(wanted(name="fast"))
        assert not slow.done()
        gate.open()
        await slow


async def test_however_many_members_write_few_writes_are_in_flight() -> None:
    async with bench() as it:
        it.api.always = gate = Gate(it.api)
        writes = [asyncio.ensure_future(it.writer.put(wanted(name=f"p{n}"))) for n in range(3 * IN_FLIGHT)]
        await until(lambda: gate.waiting == IN_FLIGHT)
        assert len(it.book.sent) == IN_FLIGHT
        gate.open()
        await asyncio.gather(*writes)
        assert len(it.api.objects) == 3 * IN_FLIGHT
        assert len(it.api.connections) <= IN_FLIGHT


async def test_a_caller_who_leaves_takes_its_heartbeat_from_nobody() -> None:
    async with bench() as it:
        gate = Gate(it.api)
        it.api.script.append(gate)
        first, second = (asyncio.ensure_future(it.writer.put(wanted())) for _ in range(2))
        await until(lambda: gate.waiting == 1)
        first.cancel()
        gate.open()
        assert (await second).registration == b"one"


# -------------------------------------------------------------------------------------------------------- failures


async def test_conflicts_throttling_and_server_errors_are_retried() -> None:
    """Conflicts, then 429 with Retry-After, then 500s: one write at a time, none in a tight loop."""
    async with bench(budget_secs=5.0) as it:
        await it.writer.put(wanted())
        it.api.script.extend([reply(refused(409))] * 3)
        it.api.script.append(reply(refused(429, "Retry-After: 1")))
        it.api.script.extend([reply(refused(500))] * 2)
        begun_at = asyncio.get_running_loop().time()
        await it.writer.put(wanted())
        assert asyncio.get_running_loop().time() - begun_at >= 1.0
        assert it.api.writes() == ["POST"] + ["PATCH"] * 7
        assert it.writer.retried == 6


async def test_what_is_not_written_in_a_heartbeats_time_is_unavailable_with_the_reason() -> None:
    async with bench(budget_secs=0.3) as it:
        it.api.always = reply(refused(500))
        with pytest.raises(Unavailable, match="not written in time: the API server answered 500: scripted") as caught:
            await it.writer.put(wanted())
        assert caught.value.retry_after_secs == 1
        await until(lambda: it.book.failed == ["p"])
        assert len(it.api.requests) < 12  # 4 ms doubling


async def test_a_server_that_asks_for_more_time_than_there_is_is_told_on_at_once_to_all() -> None:
    async with bench(budget_secs=5.0) as it:
        it.api.script.append(reply(refused(429, "Retry-After: 30")))
        async with asyncio.timeout(1.0):
            for name in ("p", "q"):
                with pytest.raises(Unavailable) as caught:
                    await it.writer.put(wanted(name=name))
                assert 30 <= caught.value.retry_after_secs <= 37
        assert len(it.api.requests) == 1


async def test_a_server_that_is_silent_is_given_up_in_time_and_works_again() -> None:
    async def never(request: Request, writer: asyncio.StreamWriter) -> None:
        it.api.silent.add(writer)

    async with bench(budget_secs=0.2) as it:
        it.api.script.append(never)
        with pytest.raises(Unavailable, match="not written in time"):
            await it.writer.put(wanted())
        await it.writer.put(wanted())
        assert it.registration() == "one"


async def test_nobody_listening_is_unavailable_without_a_secret() -> None:
    async with bench(budget_secs=0.1) as it:
        async with lease_server() as gone:
            host = gone.host
        async with (
            Client(Credentials(host)) as client,
            Writer(client, "n", it.book, budget_secs=0.1, first_pause_secs=PAUSE_SECS) as writer,
        ):
            with pytest.raises(Unavailable, match="no connection to the API server") as caught:
                await writer.put(wanted())
        assert "s3cret" not in str(caught.value)


async def test_an_answer_that_was_lost_is_no_second_change() -> None:
    async with bench() as it:
        it.api.lost = 1
        await it.writer.put(wanted())
        assert it.api.writes() == ["POST", "POST", "PATCH"]
        it.api.lost = 1
        await it.writer.put(wanted(b"two"))
        assert (it.registration(), it.book.leases["p"].version.partition(".")[0]) == ("two", "2")


async def test_an_older_heartbeat_that_comes_late_undoes_no_newer_one() -> None:
    """Through another replica the registration was changed while ours was on its way."""
    async with bench() as it, Client(Credentials(it.api.host)) as client:
        await it.writer.put(wanted(b"one"))
        gate = Gate(it.api)
        it.api.script.append(gate)
        late = asyncio.ensure_future(it.writer.put(wanted(b"old")))
        await until(lambda: gate.waiting == 1)
        async with Writer(client, "n", Book(dict(it.book.leases)), budget_secs=1.0) as other:
            await other.put(wanted(b"new"))
        gate.open()
        assert (await late).registration == b"new"
        assert it.registration() == "new"
        await it.writer.put(wanted(b"newest"))  # which knows by now what it replaces
        assert it.registration() == "newest"


async def test_two_replicas_that_register_a_member_at_once_both_have() -> None:
    async with bench() as it, Client(Credentials(it.api.host)) as client:
        async with Writer(client, "n", Book(), budget_secs=1.0) as other:
            await asyncio.gather(it.writer.put(wanted()), other.put(wanted()))
        assert sorted(it.api.writes()) == ["PATCH", "POST", "POST"]


async def test_what_cannot_fit_is_not_even_sent() -> None:
    async with bench() as it:
        with pytest.raises(DoesNotFit):
            await it.writer.put(wanted(b"x" * (256 << 10)))
        assert it.api.requests == []


async def test_a_fault_of_ours_reaches_who_waits_and_the_next_heartbeat_is_written() -> None:
    async with bench() as it:
        it.book.leases["p"] = Written(Member.POOL, "p", "u", "1", b"\xff", "v", "t", 15)
        with pytest.raises(UnicodeDecodeError):
            await it.writer.put(wanted(b"\xff\xfe"))
        del it.book.leases["p"]
        await it.writer.put(wanted())


async def test_leaving_the_writer_ends_what_is_under_way() -> None:
    async with lease_server() as api, Client(Credentials(api.host)) as client:
        api.always = gate = Gate(api)
        async with Writer(client, "n", Book(), budget_secs=30.0) as writer:
            waiting = asyncio.ensure_future(writer.put(wanted()))
            await until(lambda: gate.waiting == 1)
        with pytest.raises(asyncio.CancelledError):
            await waiting
