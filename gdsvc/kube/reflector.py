"""Drives one watcher over the client and keeps its view's owner told: what is there, what changed, how far to trust it.

Decides when to wait, when to list again and when a turn is over. It holds no view but the one being built aside.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar, assert_never

from gdsvc import logs, tasks
from gdsvc.kube import watcher
from gdsvc.kube.backoff import Backoff
from gdsvc.kube.client import Reply, Unreachable
from gdsvc.kube.framing import STEP_BYTES, Decoder, Items, Lines, TooLarge
from gdsvc.kube.freshness import Fresh, Freshness
from gdsvc.kube.watcher import KubeObject, Watcher

TICK_SECS: Final = 1.0  # how exactly time alone is judged: recovery, the relist interval, a silent streaming list
SETTLED_SECS: Final = 30.0  # a watch that stayed open this long was no luck: the next wait is the first step's again
GIVE_WAY_STEPS: Final = 8  # of reading, about 3 ms, after which the loop really waits, for
GIVE_WAY_SECS: Final = 0.001
RELIST_JITTER: Final = 0.2  # of the interval, taken off: instances that started together do not list together

_log = logs.get(__name__)

T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)


class View(Protocol[T_contra]):
    """What a reflector tells. Every call is made on the event loop; one that raises makes the reflector list again.

    A list comes in piece by piece, so that a view may make what it needs of each piece while others wait: what it
    builds aside is shown only once the list is done.
    """

    def init(self) -> None:
        """A list begins; what was built aside is forgotten."""
        ...

    def init_apply(self, item: T_contra) -> None:
        """An object of the list."""
        ...

    def init_delete(self, item: T_contra) -> None:
        """An object left while the list was being received; it may never have been in it."""
        ...

    def init_done(self, cause: watcher.Cause) -> None:
        """The list is whole: it replaces everything told before."""
        ...

    def apply(self, item: T_contra) -> None:
        """An object appeared or changed."""
        ...

    def delete(self, item: T_contra) -> None:
        """An object left."""
        ...

    def completeness(self, *, stale: bool) -> None:
        """Whether the view may lack something changed. Fresh at first; the first swap says that there is a view."""
        ...

    def failed(self, failure: watcher.Failed) -> None:
        """Every single error, for counting."""
        ...


class Source(Protocol):
    """The client, as far as a reflector knows it."""

    def get(self, path: str, query: dict[str, str]) -> AbstractAsyncContextManager[Reply]: ...


class Timing(Protocol):
    """Monotonic seconds, sleeping by them, and chance in [0, 1)."""

    def now(self) -> float: ...
    async def sleep(self, secs: float) -> None: ...
    def draw(self) -> float: ...


class RealTiming:
    """The timing outside tests."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)

    def draw(self) -> float:
        return random.random()  # noqa: S311  spreads requests, guards nothing


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What is watched: the path of its list, the decoder of one object, the label selector that the server applies."""

    path: str
    decoder: Decoder[T]
    selector: str = ""

    def query(self, asked: dict[str, str]) -> dict[str, str]:
        """What is asked, of the objects that are selected."""
        return asked | {"labelSelector": self.selector} if self.selector else asked


@dataclass(slots=True)
class Report:
    """How the watch is doing, for explaining; times are the clock's, None where there was none yet."""

    synced_at: float | None = None  # the last whole list
    changed_at: float | None = None  # the last change event or whole list
    failed_at: float | None = None
    failure: watcher.Failed | None = None
    errors: int = 0
    lists: int = 0
    steps: int = 0  # pieces of at most STEP_BYTES, between which the event loop got its turn


class Reflector(Generic[T]):
    """`async with Reflector(source, kind, view):` runs until left. `relist_secs` is the longest life of a missed event.

    A failure never leaves it: failures are told to the view and end in a wait.
    """

    def __init__(
        self,
        source: Source,
        kind: Kind[T],
        view: View[T],
        *,
        relist_secs: float = 600.0,
        timing: Timing | None = None,
    ) -> None:
        self._source = source
        self._kind = kind
        self._view = view
        self._relist_secs = relist_secs
        self._timing: Timing = RealTiming() if timing is None else timing
        self._watcher = Watcher(kind.decoder)
        self._freshness = Freshness()
        self._backoff = Backoff(self._timing.draw)
        self._cause: watcher.Cause = "first"
        self._relist_at = float("inf")
        self._silent_at = float("inf")
        self._reading: asyncio.Timeout | None = None  # open while an answer is awaited and read
        self._failure: watcher.Failed | None = None  # the last one of this turn, which ended it as a rule
        self._tasks: list[asyncio.Task[None]] = []
        self.report = Report()

    @property
    def stale(self) -> bool:
        """Whether the view may lack what happened since."""
        return self._freshness.stale

    @property
    def state(self) -> watcher.State:
        """What the machine is at."""
        return self._watcher.state

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._forever(self._turn)), asyncio.create_task(self._forever(self._tick))]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await tasks.cancelled(self._tasks)

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except Exception as error:  # noqa: BLE001  a view that raises must not end the watch for good
                await self._surprised(error)

    async def _surprised(self, error: Exception) -> None:
        """The view raised, or we are wrong: either way what it holds is doubtful until the next whole list."""
        context = {"message": "a Kubernetes view failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        self._watcher.relist("internal")
        with suppress(Exception):
            self._failed(watcher.Failed("internal", f"the view failed: {type(error).__name__}"))
        self._failure = None  # waited for here
        await self._timing.sleep(self._backoff.wait_secs())

    # ------------------------------------------------------------------------------------------------- turns

    async def _turn(self) -> None:
        """One request and what follows from it, then the wait where something failed."""
        reading = self._reading = asyncio.timeout(None)
        try:
            async with reading:
                await self._exchange(self._watcher.ask())
        except TimeoutError:
            if not reading.expired():  # a view's own
                raise
            self._interrupted()
        finally:
            self._reading, self._silent_at = None, float("inf")
        failure, self._failure = self._failure, None
        if failure is not None:
            await self._timing.sleep(self._wait_secs(failure))

    def _wait_secs(self, failure: watcher.Failed) -> float:
        """A server that is back from an outage may first refuse us, and say what to do: to come later, or to ask
        without our old revision. That must not cost the long wait that the outage has led to.
        """
        if failure.kind == "throttled" and failure.retry_after_secs is not None:
            return self._backoff.told_secs(failure.retry_after_secs)
        if failure.kind in ("expired", "too_large_revision"):
            return self._backoff.prompt_secs()
        return max(self._backoff.wait_secs(), failure.retry_after_secs or 0.0)

    async def _exchange(self, ask: watcher.Ask) -> None:
        """One request, and its answer carried out."""
        try:
            async with self._source.get(self._kind.path, self._kind.query(ask.query)) as reply:
                await self._answer(ask, reply)
        except Unreachable as error:
            self._carry_out(self._watcher.broke(error.kind, str(error)))
        except TooLarge as error:
            self._carry_out(self._watcher.broke("too_large", str(error)))

    async def _answer(self, ask: watcher.Ask, reply: Reply) -> None:
        if reply.status != 200:
            self._carry_out(self._watcher.refused(reply.status, await reply.beginning(), reply.retry_after_secs))
            return
        opened_at = self._timing.now()
        self._carry_out(self._watcher.opened())
        if not ask.watch:
            await self._read_list(reply)
            return
        await self._read_watch(reply, ask.patience_secs)
        lasted_secs = self._timing.now() - opened_at
        if lasted_secs >= SETTLED_SECS:
            self._backoff.progressed()
        self._carry_out(self._watcher.ended(lasted_secs))

    async def _read_list(self, reply: Reply) -> None:
        items = Items(self._kind.decoder)
        async for chunk in reply.chunks():
            whole = memoryview(chunk)
            for begin in range(0, len(chunk), STEP_BYTES):
                for item in items.feed(whole[begin : begin + STEP_BYTES]):
                    self._carry_out(self._watcher.item(item))
                await self._step()
        try:
            metadata, rest = items.close()
        except (ValueError, RecursionError) as error:
            self._carry_out(self._watcher.broke("unreadable", f"no list: {str(error)[:200]}"))
            return
        for item in rest:
            self._carry_out(self._watcher.item(item))
        self._carry_out(self._watcher.listed(metadata))

    async def _read_watch(self, reply: Reply, patience_secs: float | None) -> None:
        """Until the stream ends or a line said that it is over: the machine then no longer listens to it."""
        lines = Lines()
        self._expect_line(patience_secs)
        async for chunk in reply.chunks():
            for begin in range(0, len(chunk), STEP_BYTES):
                for line in lines.feed(chunk[begin : begin + STEP_BYTES]):
                    self._carry_out(self._watcher.receive(line))
                    self._expect_line(patience_secs)
                    if isinstance(self._watcher.state, watcher.Unlisted):
                        return
                await self._step()
        if (cut := lines.close()) is not None:
            self._carry_out(self._watcher.receive(cut))

    async def _step(self) -> None:
        """Others get their turn between two pieces, and every so often the other threads theirs.

        A loop that is never idle lets go of the interpreter only to take it back at once: the threads that serve HTTP
        were measured to wait for it until a list was read.
        """
        self.report.steps += 1
        await asyncio.sleep(0 if self.report.steps % GIVE_WAY_STEPS else GIVE_WAY_SECS)

    # ------------------------------------------------------------------------------------------------- time

    async def _tick(self) -> None:
        """What time alone changes."""
        await self._timing.sleep(TICK_SECS)
        now = self._timing.now()
        if self._freshness.elapsed(now):
            self._tell_completeness()
        relist_due = now >= self._relist_at and isinstance(self._watcher.state, watcher.Watching)
        if (relist_due or now >= self._silent_at) and self._reading is not None:
            reading, self._reading = self._reading, None  # once: one that is ending cannot be told again
            reading.reschedule(asyncio.get_running_loop().time())

    def _expect_line(self, patience_secs: float | None) -> None:
        """From now on a streaming list may be silent for `patience_secs`; a watch may for as long as it lasts."""
        if patience_secs is not None and isinstance(self._watcher.state, watcher.Streaming):
            self._silent_at = self._timing.now() + patience_secs
        else:
            self._silent_at = float("inf")

    def _interrupted(self) -> None:
        if self._timing.now() >= self._silent_at:
            self._watcher.fell_silent()
        else:
            self._watcher.relist("interval")

    # ----------------------------------------------------------------------------------------------- outputs

    def _carry_out(self, outputs: list[watcher.Output[T]]) -> None:
        for output in outputs:
            match output:
                case watcher.Init(cause):
                    self._cause = cause
                    self._view.init()
                case watcher.InitApply(item):
                    self._view.init_apply(item)
                case watcher.InitDelete(item):
                    self._view.init_delete(item)
                case watcher.InitDone():
                    self._swap()
                case watcher.Apply(item):
                    self._view.apply(item)
                    self._changed()
                case watcher.Delete(item):
                    self._view.delete(item)
                    self._changed()
                case watcher.Failed():
                    self._failed(output)
                case _:
                    assert_never(output)

    def _swap(self) -> None:
        now = self._timing.now()
        self._relist_at = now + self._relist_secs * (1 - RELIST_JITTER * self._timing.draw())
        self._view.init_done(self._cause)
        self.report.lists += 1
        self.report.synced_at = self.report.changed_at = now
        self._confirmed()

    def _changed(self) -> None:
        self.report.changed_at = self._timing.now()
        self._backoff.progressed()
        self._confirmed()

    def _confirmed(self) -> None:
        if self._freshness.confirmed():
            self._tell_completeness()

    def _failed(self, failure: watcher.Failed) -> None:
        if isinstance(self._freshness.state, Fresh):  # once a row
            _log.warning("the Kubernetes watch failed", path=self._kind.path, kind=failure.kind, reason=failure.message)
        now = self._timing.now()
        self._failure = failure
        self.report.failed_at, self.report.failure = now, failure
        self.report.errors += 1
        self._view.failed(failure)
        if self._freshness.failed(now):
            self._tell_completeness()

    def _tell_completeness(self) -> None:
        stale = self._freshness.stale
        say = _log.warning if stale else _log.info
        say("the Kubernetes view is stale" if stale else "the Kubernetes view is exact again", path=self._kind.path)
        self._view.completeness(stale=stale)
