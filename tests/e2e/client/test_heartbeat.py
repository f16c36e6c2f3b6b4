"""Heartbeats over HTTP: what arrives and when, what is told of it, and what happens on the way out."""

import asyncio
import json
from collections.abc import Iterable

import pytest

from gdsvc.client import Heartbeat, HeartbeatState, HeartbeatStatus, Options
from gdsvc.errors import Invalid
from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica
from tests.e2e.client.scripted import Asked, Caller, Script, ScriptedServer, nothing
from tests.e2e.process import Serve

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop

SOON_SECS = 8.0  # for what is to come at once
SHORT = Lease(1, 3)
POOL = PoolRegistration(PoolKey("ohio", "dynamo", "p"), model="m")
CHANGED = PoolRegistration(PoolKey("ohio", "dynamo", "p"), model="new")

STARTING, REGISTERED, RETRYING = HeartbeatStatus.STARTING, HeartbeatStatus.REGISTERED, HeartbeatStatus.RETRYING
LAPSED, REFUSED, STOPPED = HeartbeatStatus.LAPSED, HeartbeatStatus.REFUSED, HeartbeatStatus.STOPPED


def options(*servers: ScriptedServer, **others: object) -> Options:
    urls = tuple(server.url for server in servers)
    return Options(urls, **({"request_timeout_secs": 2.0} | others))  # type: ignore[arg-type]


def granting(lease: Lease = SHORT) -> bytes:
    return json.dumps(
        {"heartbeat_interval_secs": lease.heartbeat_interval_secs, "lease_duration_secs": lease.lease_duration_secs}
    ).encode()


async def grant(asked: Asked, caller: Caller) -> None:
    """A service that grants, and takes out."""
    if asked.method == "DELETE":
        await caller.reply(204)
    else:
        await caller.reply(200, granting())


def refusing(status: int, **headers: str) -> Script:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(status, b'{"error":{"message":"not like this"}}', **headers)

    return script


def unrouted(status: int) -> Script:
    """A proxy that has no service behind it."""

    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(status, b"default backend", Content_Type="text/plain")

    return script


class States:
    """The states that a heartbeat told."""

    def __init__(self) -> None:
        self.told: list[HeartbeatState] = []
        self._more = asyncio.Event()

    def __call__(self, state: HeartbeatState) -> None:
        self.told.append(state)
        self._more.set()

    @property
    def statuses(self) -> list[HeartbeatStatus]:
        """Without those that are like the one before."""
        statuses = [state.status for state in self.told]
        return [status for at, status in enumerate(statuses) if at == 0 or statuses[at - 1] is not status]

    async def until(self, status: HeartbeatStatus) -> HeartbeatState:
        """The latest state, once it is of `status`."""
        async with asyncio.timeout(SOON_SECS):
            while not self.told or self.told[-1].status is not status:
                self._more.clear()
                await self._more.wait()
        return self.told[-1]


async def asked(server: ScriptedServer, times: int) -> list[Asked]:
    """Waits for so many requests."""
    async with asyncio.timeout(SOON_SECS):
        while len(server.asked) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return server.asked


# ------------------------------------------------------------------------------------------------ beating


async def test_it_registers_at_once_and_again_within_the_interval_that_was_granted() -> None:
    times: list[float] = []

    async def script(_asked: Asked, caller: Caller) -> None:
        times.append(asyncio.get_running_loop().time())
        await caller.reply(200, granting())

    states = States()
    entered_at = asyncio.get_running_loop().time()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states) as heartbeat:
        first, second = (await asked(server, 2))[:2]
        assert first.body == second.body
        assert (first.method, first.target, json.loads(first.body)["model"]) == ("POST", "/pools", "m")
        assert heartbeat.state == HeartbeatState(REGISTERED, None, SHORT, server.url)
    assert times[0] - entered_at < 0.5
    assert times[1] - times[0] < 1.25, "the interval, and something for the machine"
    assert times[1] - times[0] > 0.6, "no earlier than the spread says"
    assert states.statuses == [STARTING, REGISTERED, STOPPED], "a beat like the one before is not told"


async def test_a_router_replica_registers_alike() -> None:
    async with ScriptedServer(grant) as server:
        async with Heartbeat(options(server), RouterReplica("a/b", "http://a"), deregister=True):
            await asked(server, 1)
        posted, taken_out = server.asked
        assert (posted.target, json.loads(posted.body)) == ("/routers", {"id": "a/b", "url": "http://a"})
        assert (taken_out.method, taken_out.target) == ("DELETE", "/routers/a%2Fb")


async def test_a_changed_payload_is_posted_at_once() -> None:
    async with ScriptedServer(grant) as server:
        states = States()
        async with Heartbeat(options(server), POOL, on_state=states) as heartbeat:
            await states.until(REGISTERED)
            updated_at = asyncio.get_running_loop().time()
            heartbeat.update(CHANGED)
            second = (await asked(server, 2))[1]
            assert asyncio.get_running_loop().time() - updated_at < 0.5
            assert json.loads(second.body)["model"] == "new"


async def test_the_old_payload_never_arrives_after_the_new() -> None:
    answer = asyncio.Event()

    async def script(_asked: Asked, caller: Caller) -> None:
        await answer.wait()
        await caller.reply(200, granting(Lease(60, 180)))

    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL) as heartbeat:
        await asked(server, 1)
        heartbeat.update(CHANGED)
        await asyncio.sleep(0.05)
        assert len(server.asked) == 1, "one attempt at a time"
        answer.set()
        second = (await asked(server, 2))[1]
        assert json.loads(second.body)["model"] == "new"


async def test_an_update_of_another_member_is_refused() -> None:
    async with ScriptedServer(grant) as server, Heartbeat(options(server), POOL) as heartbeat:
        for other in (PoolRegistration(PoolKey("ohio", "dynamo", "q")), RouterReplica("a", "http://a")):
            with pytest.raises(Invalid):
                heartbeat.update(other)


# ------------------------------------------------------------------------------------------------ failing


@pytest.mark.load
async def test_a_failure_is_told_tried_again_and_over() -> None:
    async def script(_asked: Asked, caller: Caller) -> None:
        if 1 < len(server.asked) < 4:
            caller.reset()
        else:
            await caller.reply(200, granting())

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states):
        await states.until(REGISTERED)
        failing = await states.until(RETRYING)
        assert failing.reason is not None
        assert failing.lease == SHORT
        assert (await states.until(REGISTERED)).reason is None
    assert states.statuses == [STARTING, REGISTERED, RETRYING, REGISTERED, STOPPED]


async def test_a_lease_that_ends_while_nobody_answers_is_told_and_comes_back() -> None:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(200, granting(Lease(1, 2)))

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states):
        await states.until(REGISTERED)
        await server.hang_up()
        await states.until(LAPSED)
        await server.listen()
        await states.until(REGISTERED)
    assert states.statuses == [STARTING, REGISTERED, RETRYING, LAPSED, REGISTERED, STOPPED]


@pytest.mark.load
async def test_a_connection_that_says_nothing_leaves_time_for_another_inside_the_lease() -> None:
    async def script(request: Asked, caller: Caller) -> None:
        if len(server.asked) == 2:
            await nothing(request, caller)
        await caller.reply(200, granting())

    states = States()
    async with (
        ScriptedServer(script) as server,
        Heartbeat(options(server, request_timeout_secs=60.0), POOL, on_state=states),
    ):
        await states.until(REGISTERED)
        await states.until(RETRYING)
        await states.until(REGISTERED)
    assert LAPSED not in states.statuses


async def test_what_will_not_get_better_is_told_and_not_repeated() -> None:
    async def refused_then_changed(status: int) -> None:
        states = States()
        async with (
            ScriptedServer(refusing(status)) as server,
            Heartbeat(options(server), POOL, on_state=states) as heartbeat,
        ):
            refused = await states.until(REFUSED)
            assert refused.reason == f"{server.url} answered {status}: not like this"
            await asyncio.sleep(0.3)  # the time of two tries after an ordinary failure
            assert len(server.asked) == 1
            server.script = grant
            heartbeat.update(CHANGED)
            await states.until(REGISTERED)
        assert states.statuses == [STARTING, REFUSED, REGISTERED, STOPPED]

    async with asyncio.TaskGroup() as tasks:
        for status in (400, 404, 405, 409, 413, 415, 422, 501):
            tasks.create_task(refused_then_changed(status))


async def test_what_may_get_better_is_tried_again() -> None:
    async def failed_then_granted(status: int) -> None:
        states = States()
        script = unrouted(status) if status in (404, 405) else refusing(status)
        async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states):
            await asked(server, 2)
            server.script = grant
            await states.until(REGISTERED)
        assert REFUSED not in states.statuses

    async with asyncio.TaskGroup() as tasks:
        for status in (401, 403, 404, 405, 408, 429, 500, 502, 503):
            tasks.create_task(failed_then_granted(status))


@pytest.mark.load
async def test_retry_after_is_kept() -> None:
    times: list[float] = []

    async def script(_asked: Asked, caller: Caller) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            await caller.reply(503, b"{}", Retry_After="1")
        else:
            await caller.reply(200, granting())

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states):
        await states.until(REGISTERED)
    assert 1.0 <= times[1] - times[0] < 2.0


@pytest.mark.parametrize("body", [b"", b"{}", b'{"heartbeat_interval_secs":9,"lease_duration_secs":3}'])
async def test_an_answer_that_grants_no_lease_is_a_failure(body: bytes) -> None:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(200, body)

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states):
        await asked(server, 2)
        assert states.told[-1].reason == f"{server.url} granted no lease"
    assert REGISTERED not in states.statuses


async def test_the_next_url_is_registered_with_where_one_is_down() -> None:
    states = States()
    async with ScriptedServer(grant) as first, ScriptedServer(grant) as second:
        async with Heartbeat(options(first, second), POOL, on_state=states):
            assert (await states.until(REGISTERED)).url == first.url
            await first.hang_up()
            await asked(second, 2)  # so that the first was answered, and the answer seen
        assert RETRYING not in states.statuses
        assert states.told[-1].url == second.url


async def test_the_next_url_is_registered_with_where_a_proxy_has_lost_its_service() -> None:
    states = States()
    async with ScriptedServer(grant) as first, ScriptedServer(grant) as second:
        async with Heartbeat(options(first, second), POOL, on_state=states):
            await states.until(REGISTERED)
            first.script = unrouted(404)
            await asked(second, 2)
        assert states.statuses == [STARTING, REGISTERED, STOPPED]
        assert states.told[-1].url == second.url


async def test_a_refusal_in_passing_does_not_cost_the_lease() -> None:
    states = States()
    async with ScriptedServer(grant) as server, Heartbeat(options(server), POOL, on_state=states):
        await states.until(REGISTERED)
        server.script = refusing(409)
        await states.until(REFUSED)
        server.script = grant
        await states.until(REGISTERED)  # REFUSED_SECS are longer than SOON_SECS
    assert states.statuses == [STARTING, REGISTERED, REFUSED, REGISTERED, STOPPED]


async def test_a_heartbeat_is_entered_once() -> None:
    async with ScriptedServer(grant) as server:
        heartbeat = Heartbeat(options(server), POOL)
        async with heartbeat:
            with pytest.raises(RuntimeError, match="entered once"):
                await heartbeat.__aenter__()
        with pytest.raises(RuntimeError, match="entered once"):
            await heartbeat.__aenter__()


@pytest.mark.load
async def test_a_callback_that_fails_does_not_end_the_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_state: HeartbeatState) -> None:
        raise RuntimeError("of the caller")

    async with ScriptedServer(grant) as server, Heartbeat(options(server), POOL, on_state=fail):
        await asked(server, 2)
    assert "on_state failed" in caplog.text


async def test_a_fault_of_ours_is_told_at_once_and_raised_on_leaving(caplog: pytest.LogCaptureFixture) -> None:
    states = States()

    async def beat_until_the_fault(server: ScriptedServer) -> None:
        async with Heartbeat(options(server), POOL, on_state=states) as heartbeat:
            await states.until(REGISTERED)
            heartbeat._request_secs = None  # type: ignore[assignment]
            heartbeat.update(CHANGED)
            await states.until(STOPPED)

    async with ScriptedServer(grant) as server:
        with pytest.raises(TypeError):
            await beat_until_the_fault(server)
    assert states.told[-1].reason == "a fault of the client; the log has it"
    assert "ended by a fault" in caplog.text


async def test_no_token_is_told() -> None:
    states = States()
    tokens = iter(["hunter2\n", "hunter2 x", "hunter2"])
    async with (
        ScriptedServer(grant) as server,
        Heartbeat(options(server, token=lambda: next(tokens, "hunter2")), POOL, on_state=states),
    ):
        await states.until(REGISTERED)
        assert server.asked[0].headers["authorization"] == "Bearer hunter2"
    assert "hunter2" not in repr(states.told)


# ------------------------------------------------------------------------------------------------ leaving


def tasks() -> Iterable[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "gdsvc" in task.get_name()]


async def test_leaving_leaves_the_registration_to_its_lease_unless_told_otherwise() -> None:
    async with ScriptedServer(grant) as server:
        async with Heartbeat(options(server), POOL):
            await asked(server, 1)
        assert not tasks()
        assert [one.method for one in server.asked] == ["POST"]


async def test_leaving_takes_the_registration_out_where_told_and_after_the_attempt_under_way() -> None:
    answer = asyncio.Event()

    async def script(request: Asked, caller: Caller) -> None:
        if request.method == "POST":
            await answer.wait()
        else:
            assert answer.is_set(), "the attempt under way would list it again"
        await grant(request, caller)

    states = States()
    async with ScriptedServer(script) as server:
        async with Heartbeat(options(server), POOL, on_state=states, deregister=True):
            await asked(server, 1)
            asyncio.get_running_loop().call_later(0.1, answer.set)
        assert [(one.method, one.target) for one in server.asked] == [
            ("POST", "/pools"),
            ("DELETE", "/pools/ohio/dynamo/p"),
        ]
    assert states.told[-1].status is STOPPED
    assert states.told[-1].reason is None
    assert not tasks()


@pytest.mark.parametrize(("status", "reason"), [(404, None), (503, "answered 503")])
async def test_what_was_not_taken_out_is_told(status: int, reason: str | None) -> None:
    async def script(request: Asked, caller: Caller) -> None:
        await (refusing(status) if request.method == "DELETE" else grant)(request, caller)

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states, deregister=True):
        await states.until(REGISTERED)
    said = states.told[-1].reason
    assert states.told[-1].status is STOPPED
    assert said is None if reason is None else said is not None and reason in said


@pytest.mark.parametrize("status", [404, 405, 200])
async def test_what_only_a_proxy_has_answered_was_not_taken_out(status: int) -> None:
    async def script(request: Asked, caller: Caller) -> None:
        await (unrouted(status) if request.method == "DELETE" else grant)(request, caller)

    states = States()
    async with ScriptedServer(script) as server, Heartbeat(options(server), POOL, on_state=states, deregister=True):
        await states.until(REGISTERED)
    assert states.told[-1].status is STOPPED
    assert f"answered {status}" in (states.told[-1].reason or "")


async def test_leaving_while_nobody_answers_does_not_hang() -> None:
    states = States()
    async with (
        ScriptedServer(nothing) as server,
        asyncio.timeout(SOON_SECS),
        Heartbeat(options(server, request_timeout_secs=0.3), POOL, on_state=states, deregister=True),
    ):
        await asked(server, 1)
    assert states.told[-1].status is STOPPED
    assert states.told[-1].reason is not None


# ------------------------------------------------------------------------------------------------ the real service


@pytest.mark.load
async def test_a_pool_and_a_router_are_listed_for_as_long_as_their_hearts_beat(serve: Serve) -> None:
    service = serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "2")
    states = States()
    where = Options((f"http://127.0.0.1:{service.port}",))
    router = RouterReplica("r-0", "http://10.0.0.1:8000")
    async with Heartbeat(where, POOL, on_state=states, deregister=True), Heartbeat(where, router):
        assert (await states.until(REGISTERED)).lease == Lease(1, 2)
        await asyncio.sleep(5.0)  # two leases and a half
        listed = (await asyncio.to_thread(service.get, "/routers")).json()["routers"]
        assert listed == [{"id": "r-0", "url": "http://10.0.0.1:8000"}]
        assert await asyncio.to_thread(service.names) == ["p"]
    assert await asyncio.to_thread(service.names) == []
    assert states.statuses == [STARTING, REGISTERED, STOPPED]
