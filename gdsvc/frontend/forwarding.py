"""One request's way to a pool and back: chosen, sent, streamed; sent again where that is safe, or broken off.

An error before an answer began is told to the caller; after it the transfer is broken off, so that no caller takes a
part for the whole. What every request does is compiled, in Passage; here is what is decided on its way. What a request
is, and which pool is right for it, is decided elsewhere.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Final

from msgspec import Struct

from gdsvc import logs
from gdsvc._heads import CallerHead
from gdsvc._in_flight import Frontend
from gdsvc._passage import Desk, Passage
from gdsvc.asgi.body import BodyTooSlow, Disconnected, refuse_body
from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.streams import BrokenOff
from gdsvc.asgi.types import Receive, Scope, Send
from gdsvc.errors import GdsvcError, LimitReached
from gdsvc.frontend.bodies import Bounds, Incoming
from gdsvc.frontend.counts import NO_POOL, By, Counts
from gdsvc.frontend.departures import Departures
from gdsvc.frontend.headers import TOWARDS_CALLER, Trusted, session_of, towards_pool
from gdsvc.frontend.model_name import model_of
from gdsvc.frontend.problems import NoAnswer, NoPool, Redirected, internal, problem
from gdsvc.frontend.selection import Refused, Selector
from gdsvc.frontend.upstream import Cause, Client, Closed, Origin, RequestHead, Sending, UpstreamFailed

FAILING: Final = frozenset({502, 503, 504})  # a frontend that answers so cannot do its work
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})  # nothing of the API redirects: the base URL is wrong
SAME_AGAIN: Final = frozenset({Cause.UNREAD, Cause.RESET})  # it was the connection that had ended, not the frontend
RETRY_AFTER_SECS: Final = 1

log = logs.get("gdsvc.frontend")


class Limits(Struct, frozen=True):
    """What callers may take, and whether it is written down; bytes but for `in_flight`, which counts requests."""

    body_bytes: int
    buffer_bytes: int
    in_flight: int
    access_log: bool = False  # a line for each request


class Left(GdsvcError):
    """The caller has left; nobody is there to be answered."""


class Forwarder(Desk):
    """Forwards requests to the pools of `selector` by `client`."""

    def __init__(self, selector: Selector, client: Client, counts: Counts, limits: Limits, trusted: Trusted) -> None:
        super().__init__(
            Departures(), counts.requests, counts.outcomes, TOWARDS_CALLER, FAILING | REDIRECTS, counts.selection
        )
        self.selector = selector
        self.client = client
        self.counts = counts
        self.trusted = trusted
        self.limits = limits
        self.bounds = Bounds(limits.body_bytes, limits.buffer_bytes)
        self.loop = asyncio.get_running_loop()
        self.tells = limits.access_log

    def forward(
        self, scope: Scope, receive: Receive, send: Send, head: CallerHead, route: str
    ) -> Coroutine[None, None, None]:
        """Answers one request of `route`. Raises BrokenOff where an answer that had begun cannot be ended."""
        if self.in_flight >= self.limits.in_flight:
            return self._refuse(receive, send, route)
        return _Passage(scope, receive, send, self, head, route, self.counts.first_byte[route]).run()

    def _refuse(self, receive: Receive, send: Send, route: str) -> Coroutine[None, None, None]:
        reason = f"{self.in_flight} requests are in flight already (--max-in-flight)"
        response = problem(LimitReached(reason, RETRY_AFTER_SECS))
        labels = route, NO_POOL, response.status
        self.counts.requests[labels] = self.counts.requests.get(labels, 0) + 1
        if self.tells:
            _tell(route, NO_POOL, response.status, 0.0, 0, "whole")
        return refuse_body(send, receive, response)

    def judge(self, frontend: Frontend, failure: str | None) -> None:
        """Tells ejection how a frontend did: what its failure was, None where it did well."""
        if failure is None:
            if self.selector.succeeded(frontend):
                log.info("frontend.back", pool=frontend.cell.pool_id, frontend=frontend.url)
        elif self.selector.failed(frontend, self.loop.time()):
            log.warning("frontend.set_aside", pool=frontend.cell.pool_id, frontend=frontend.url, reason=failure)


class _Passage(Passage[Scope, Receive, Send, Forwarder]):
    """One request. `run()` it once: raises as `Forwarder.forward`."""

    __slots__ = ("_has_left", "_model", "_session", "_task")

    @property
    def client(self) -> tuple[str, str]:
        """The caller's address and port."""
        return self.scope["client"]

    # -- towards the pool

    def arriving(self) -> Incoming:
        """The body. Raises BodyTooLarge."""
        self._has_left = False
        self._task = asyncio.current_task(self.desk.loop)  # told the loop, it need not ask the kernel for its process
        body = Incoming(self.head.length, self.receive, self.desk.bounds, self)
        body.task = self._task
        if body.length > body.bounds.limit:
            body.too_large()
        return body

    def read(self, body: Incoming) -> None:
        """What decides where the request goes. Raises BadBody."""
        self._model = model_of(body.held, whole=body.is_whole)
        session = self.head.session
        self._session = None if session is None else session_of(session)

    def choose(self, now: float) -> Frontend:
        """Where it goes first; `now` is seconds, monotonic. Raises NoPool."""
        chosen = self.desk.selector.select(self._model, now, self._session)
        if isinstance(chosen, Refused):
            raise NoPool(chosen, self._model)
        return chosen

    def ask(self) -> RequestHead:
        """What every frontend is asked."""
        scope, head = self.scope, self.head
        path, query = scope["raw_path"], scope["query_string"]
        headers = towards_pool(head, scope["client"][0], scope["scheme"])
        return RequestHead(scope["method"].encode(), path + b"?" + query if query else path, headers)

    def exchange(self, asked: RequestHead, body: Incoming) -> Sending:
        """With the frontend. The second is on a new connection."""
        source = body.held if body.is_whole else body.streamed()
        return self.desk.client.send(_origin(self.frontend.url), asked, source, fresh=self.is_second)

    def failed_there(self, error: Exception) -> None:
        """Takes another frontend, where the request may be sent again. Raises what it has come to where it may not."""
        if not isinstance(error, UpstreamFailed):
            raise error
        desk, frontend, cause, body = self.desk, self.frontend, error.cause, self.body
        outcome = self.pool, cause.value
        desk.counts.outcomes[outcome] = desk.counts.outcomes.get(outcome, 0) + 1
        if self.status:
            raise BrokenOff from None
        if cause.blames_the_upstream:
            desk.judge(frontend, str(error))
        if self.is_second or not cause.may_be_repeated or body is None or not body.is_in_hand:
            raise NoAnswer(self.pool, cause) from None
        other = desk.selector.select(self._model, desk.loop.time(), self._session, frontend)
        if isinstance(other, Frontend):
            self.frontend = other
        elif cause not in SAME_AGAIN:
            raise NoAnswer(self.pool, cause) from None
        desk.counts.retries[cause.value] += 1

    # -- towards the caller

    def note(self, status: int) -> None:
        """An answer has begun that says something of its frontend, or is none for the caller. Raises Redirected."""
        self.desk.judge(self.frontend, f"answered {status}" if status in FAILING else None)
        if status in REDIRECTS:
            raise Redirected(self.pool, status)

    async def failed(self, error: BaseException) -> None:
        """Says what has become of the request, to the caller too where that is there and has no answer yet.

        Raises BrokenOff where an answer had begun.
        """
        if isinstance(error, asyncio.CancelledError):
            error = self._reason()
        if (by := self._broken_off_by(error)) is not None:
            self.desk.counts.aborted[by] += 1
            self.end = by.value
        if isinstance(error, Left):
            return
        if not isinstance(error, Exception):
            raise error
        if self.status:
            if not isinstance(error, GdsvcError | BrokenOff):
                self._log(error)
            raise BrokenOff from None
        response = self._response(error)
        self.told = response.status
        if (self.body is not None and self.body.is_whole) or isinstance(error, Disconnected | BodyTooSlow):
            await respond(self.send, response)
            return
        if self.body is not None:
            self.body.close()  # what it holds is not held while the rest is dropped
        await refuse_body(self.send, self.receive, response)

    def _broken_off_by(self, error: BaseException) -> By | None:
        if isinstance(error, BrokenOff):
            return By.UPSTREAM
        if isinstance(error, Closed):
            return By.SHUTDOWN
        if isinstance(error, Left) and self.said_done:
            return None  # OpenAI's own client does so, without waiting for the end of the body
        if isinstance(error, Left | Disconnected) or (self.status and isinstance(error, GdsvcError)):
            return By.CALLER  # whose body still came
        return None

    def _response(self, error: Exception) -> Response:
        if isinstance(error, GdsvcError):
            return problem(error)
        self._log(error)
        return internal()

    def _log(self, error: Exception) -> None:
        """Writes down a fault of ours: the last line of defence."""
        log.error("frontend.failed", path=self.scope["path"][:200], exc_info=error)

    def tell(self) -> None:
        """Writes the line of the access log."""
        _tell(self.route, self.pool, self.status or self.told, self.secs, self.sent, self.end)

    # -- the caller's leaving

    def left(self) -> None:
        """The caller has left: whatever is done for it ends."""
        self._has_left = True
        if self._task is not None:
            self._task.cancel()

    def _reason(self) -> GdsvcError:
        """Why this task was cancelled: its body does not come, its caller left, or the time of all requests is up."""
        if isinstance(self.body, Incoming) and (too_slow := self.body.gave_up()) is not None:
            return too_slow
        if self._has_left and self._task is not None:
            self._task.uncancel()
            return Left()
        return Closed()


def _tell(route: str, pool: str, status: int, secs: float, sent_bytes: int, ended: str) -> None:  # noqa: PLR0913, PLR0917 - its fields
    """A line of the access log."""
    log.info(
        "frontend.request",
        route=route,
        pool=pool or None,
        status=status or None,
        secs=round(secs, 6),
        sent_bytes=sent_bytes,
        ended=ended,
    )


_origin: Callable[[str], Origin] = lru_cache(8192)(Origin.of)  # a URL costs two microseconds to take apart
