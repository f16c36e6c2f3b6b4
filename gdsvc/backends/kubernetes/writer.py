"""Carries errands to the API server: one write in flight per Lease, few in all, retries within a heartbeat's time.

Decides order, merging, pauses and when to give up; what is asked and what an answer means is the errand's matter.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from types import TracebackType
from typing import Final, Protocol, Self

from gdsvc import tasks
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.errands import Ahead, ClearAway, Done, Errand, Look, Pause, Put, TakeOut
from gdsvc.backends.kubernetes.leases import Wanted, Written
from gdsvc.errors import GdsvcError, Unavailable
from gdsvc.kube.backoff import Backoff
from gdsvc.kube.client import Answer, Unreachable
from gdsvc.kube.objects import leases_path

IN_FLIGHT: Final = 32  # over all Leases: a server that takes 10 ms for each does 3,200 a second
FIRST_PAUSE_SECS: Final = 0.2
LONGEST_PAUSE_SECS: Final = 2.0  # heartbeats have seconds, not minutes
HOLD_JITTER: Final = 0.2  # of what a server asks all to wait, added: not all come back at its end


class Sender(Protocol):
    """The client, as far as a writer knows it."""

    async def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Answer:
        """Raises Unreachable."""
        ...


class Ledger(Protocol):
    """What is known of the Leases, and who wants to know what is written."""

    def known(self, name: str) -> Written | None:
        """The newest that is known of a Lease."""
        ...

    def sending(self, name: str, renewed: str) -> None:
        """A write with this stamp is about to be sent."""
        ...

    def written(self, written: Written) -> None:
        """A write is done; where another replica's was found in its place, that."""
        ...

    def not_written(self, name: str) -> None:
        """Whoever asked for a write of this Lease is told that it was not done, though it may have been."""
        ...

    def taken_out(self, name: str) -> None:
        """A Lease is deleted."""
        ...


class _Job:
    """An errand and all who wait for it. `until` is in the loop's time."""

    def __init__(self, errand: Errand, until: float) -> None:
        self.errand = errand
        self.until = until
        self.reason = "the API server has not answered in time"
        self.retry_after_secs = 1.0
        self.done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieve)  # also where nobody waits any more


class Writer:
    """`async with Writer(client, namespace, ledger, budget_secs=…) as writer:`; leaving it gives up what is under way.

    `budget_secs` bounds every call: what is not written by then raises Unavailable, though it may be written still.
    """

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        sender: Sender,
        namespace: str,
        ledger: Ledger,
        *,
        budget_secs: float,
        first_pause_secs: float = FIRST_PAUSE_SECS,
        unix_now: Callable[[], float] = time.time,
    ) -> None:
        self._sender = sender
        self._namespace = namespace
        self._ledger = ledger
        self._budget_secs = budget_secs
        self._first_pause_secs = first_pause_secs
        self._unix_now = unix_now
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._held_until = 0.0  # by a server that asked for it
        self._lanes: dict[str, deque[_Job]] = {}  # by name of the Lease, while one of its errands is in flight
        self._tasks: set[asyncio.Task[None]] = set()
        self.sent = 0
        self.retried = 0
        self.given_up = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await tasks.cancelled(self._tasks)

    async def put(self, wanted: Wanted) -> Written:
        """Writes that `wanted` is registered as of now; what the Lease says then. Raises DoesNotFit, Unavailable.

        Heartbeats that come while a write of their Lease is in flight share the next one, as long as they are equal.
        """
        leases.check_fits(wanted.registration)
        lane = self._lanes.get(wanted.name)
        job = lane[-1] if lane else None
        if job is not None and isinstance(job.errand, Put) and job.errand.wanted == wanted:
            job.until = self._budget_ends()
        else:
            job = self._queue(wanted.name, Put(wanted))
        written = (await self._outcome(job)).written
        assert written is not None  # noqa: S101  a Put ends with a Lease
        return written

    async def take_out(self, name: str) -> bool:
        """Deletes the Lease; False where there was none. Raises Unavailable."""
        return (await self._outcome(self._queue(name, TakeOut()))).existed

    async def look(self, name: str) -> Written | None:
        """What the Lease says once all before it is written; None where there is none. Raises Unavailable."""
        return (await self._outcome(self._queue(name, Look()))).written

    async def clear_away(self, written: Written) -> None:
        """Deletes the Lease as it is known, unless it is another by now. Raises Unavailable."""
        await self._outcome(self._queue(written.name, ClearAway(written)))

    # -- lanes

    def _budget_ends(self) -> float:
        return asyncio.get_running_loop().time() + self._budget_secs

    def _queue(self, name: str, errand: Errand) -> _Job:
        job = _Job(errand, self._budget_ends())
        lane = self._lanes.get(name)
        if lane is not None:
            lane.append(job)
            return job
        self._lanes[name] = deque([job])
        task = asyncio.create_task(self._drain(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def _outcome(self, job: _Job) -> Done:
        try:
            async with asyncio.timeout(self._budget_secs):
                return await asyncio.shield(job.done)
        except TimeoutError:
            raise self._too_late(job) from None

    async def _drain(self, name: str) -> None:
        """Carries out the lane's errands, one after the other, until there is none."""
        lane = self._lanes[name]
        try:
            while lane:
                await self._carry_out(name, lane.popleft())
        finally:
            del self._lanes[name]

    async def _carry_out(self, name: str, job: _Job) -> None:
        try:
            async with asyncio.timeout_at(job.until):
                done = await self._attempts(name, job)
        except TimeoutError:
            self.given_up += 1
            self._fail(name, job, self._too_late(job))
        except Exception as error:  # noqa: BLE001  a fault of ours is for those who wait, not for the next errand
            self._fail(name, job, error)
        except asyncio.CancelledError:
            job.done.cancel()
            raise
        else:
            if done.written is not None:
                self._ledger.written(done.written)
            elif done.existed:
                self._ledger.taken_out(name)
            job.done.set_result(done)

    def _fail(self, name: str, job: _Job, error: Exception) -> None:
        self._ledger.not_written(name)
        job.done.set_exception(error)

    def _too_late(self, job: _Job) -> Unavailable:
        return Unavailable(f"not written in time: {job.reason}", max(1, ceil(job.retry_after_secs)))

    # -- attempts

    async def _attempts(self, name: str, job: _Job) -> Done:
        backoff = Backoff(first_secs=self._first_pause_secs, longest_secs=LONGEST_PAUSE_SECS)
        errand = job.errand
        errand.begin(self._ledger.known(name))
        while True:
            await self._held_back(job)
            try:
                step = errand.answered(await self._send(name, errand))
            except Unreachable as error:
                step = errand.broke(str(error))
            match step:
                case Done():
                    return step
                case Ahead():
                    pass
                case Pause(reason=reason, least_secs=least_secs):
                    self.retried += 1
                    job.reason = reason
                    self._hold(least_secs)
                    await asyncio.sleep(backoff.wait_secs())
                case GdsvcError():
                    raise step

    async def _send(self, name: str, errand: Errand) -> Answer:
        async with self._slots:
            renewed = leases.stamp(self._unix_now())
            ask = errand.ask(renewed, secrets.token_hex(4))
            if ask.method in ("POST", "PATCH"):
                self._ledger.sending(name, renewed)
            self.sent += 1
            path = leases_path(self._namespace) + ("" if ask.of_collection else f"/{name}")
            return await self._sender.send(ask.method, path, ask.body, ask.content_type)

    def _hold(self, secs: float) -> None:
        """A server that is overloaded means all of us, not the one write that it answered."""
        if secs > 0:
            jittered = secs * (1 + HOLD_JITTER * secrets.randbelow(1000) / 1000)
            self._held_until = max(self._held_until, asyncio.get_running_loop().time() + jittered)

    async def _held_back(self, job: _Job) -> None:
        """Until the server may be asked; raises TimeoutError at once where that is too late for this job."""
        held_secs = self._held_until - asyncio.get_running_loop().time()
        if held_secs <= 0:
            return
        if asyncio.get_running_loop().time() + held_secs >= job.until:
            job.retry_after_secs = held_secs
            raise TimeoutError
        await asyncio.sleep(held_secs)


def _retrieve(future: asyncio.Future[Done]) -> None:
    with suppress(asyncio.CancelledError):
        future.exception()
