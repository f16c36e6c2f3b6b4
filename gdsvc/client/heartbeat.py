"""Keeps one registration alive: posts it when the schedule says so, and tells in what state it is."""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import msgspec

from gdsvc import model
from gdsvc.client.answer import Answer
from gdsvc.client.api import DiscoveryApi, named_path
from gdsvc.client.errors import ClientError
from gdsvc.client.options import Options
from gdsvc.client.schedule import HeartbeatState, Schedule
from gdsvc.errors import Invalid
from gdsvc.model import Lease, PoolRegistration, RouterReplica

DEREGISTER_SECS: Final = 5.0  # for taking the member out on leaving; its lease ends by itself where that fails
MAY_GET_BETTER: Final = frozenset({401, 403, 408, 425, 429})  # of 4xx: tokens rotate, limits and networks relax
MOST_LEASE_SECS: Final = 10**9  # the service's own limit is a day; beyond this one a number is no time

log = logging.getLogger("gdsvc.client")

Registration = PoolRegistration | RouterReplica
OnState = Callable[[HeartbeatState], None]

_LEASE = msgspec.json.Decoder(Lease)


class Heartbeat:
    """Registers a pool or a router replica at once, then again and again inside the lease, until it is left.

    `on_state` is called in the loop at each change of status, reason or lease, never for a beat that is like the one
    before; it must not block. Leaving takes the member out only with `deregister`: of relays that register one pool
    together, only who ends the pool should. Entering raises InvalidOptions.
    """

    def __init__(
        self,
        options: Options,
        registration: Registration,
        *,
        on_state: OnState | None = None,
        deregister: bool = False,
    ) -> None:
        self._api = DiscoveryApi(options)
        self._request_secs = options.request_timeout_secs
        self._registration = registration
        self._body = encode(registration)
        self._on_state = on_state
        self._deregister = deregister
        self._told: HeartbeatState | None = None
        self._wake = asyncio.Event()
        self._leaving = False
        self._beating: asyncio.Task[None] | None = None
        self._schedule = Schedule(0.0)

    async def __aenter__(self) -> Self:
        if self._beating is not None:
            raise RuntimeError("a heartbeat is entered once")
        await self._api.__aenter__()
        self._schedule = Schedule(self._now())
        self._beating = asyncio.create_task(self._beat(), name="gdsvc.client heartbeat")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stop()
        finally:
            await self._api.__aexit__(kind, error, trace)

    @property
    def state(self) -> HeartbeatState:
        """As of now."""
        return self._schedule.state

    def update(self, registration: Registration) -> None:
        """Posts what has changed at once; an attempt under way ends first, so that the old cannot arrive after the new.

        Raises Invalid for a registration of another member: leave this heartbeat and enter one for that.
        """
        if member_path(registration) != member_path(self._registration):
            raise Invalid("expected a registration of the same member", "key")
        body = encode(registration)
        if body != self._body:
            self._registration = registration
            self._body = body
            self._schedule.changed(self._now())
            self._wake.set()

    async def _beat(self) -> None:
        try:
            await self._beat_on()
        except Exception:  # told at once: who embeds us may not leave for months
            log.exception("the heartbeat ended by a fault")
            self._schedule.stopped("a fault of the client; the log has it")
            self._tell()
            raise

    async def _beat_on(self) -> None:
        while not self._leaving:
            now = self._now()
            self._schedule.passed(now)
            self._tell()
            if now >= self._schedule.due_at:
                await self._attempt()
            else:
                await self._rest(now)

    async def _rest(self, now: float) -> None:
        lapses_at = self._schedule.lapses_at()
        until = self._schedule.due_at if lapses_at is None else min(self._schedule.due_at, lapses_at)
        try:
            async with asyncio.timeout(max(0.0, until - now)):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _attempt(self) -> None:
        body = self._body
        secs = min(self._request_secs, self._schedule.sent(self._now()))
        try:
            answer = await self._api.request("POST", list_path(self._registration), body=body, within_secs=secs)
            self._judge(answer)
        except ClientError as error:  # of InvalidOptions too, which can only be of the token: the next may be right
            self._schedule.failed(self._now(), str(error))
        if body is not self._body:
            self._schedule.changed(self._now())

    def _judge(self, answer: Answer) -> None:
        now = self._now()
        said = f"{answer.url} answered {answer.status}: {answer.message}"
        if answer.status == 200:
            lease = granted_lease(answer.body)
            if lease is None:
                self._schedule.failed(now, f"{answer.url} granted no lease")
            else:
                self._schedule.granted(now, lease, answer.url)
        elif final(answer):
            self._schedule.refused(now, said)
        else:
            self._schedule.failed(now, said, answer.retry_after_secs)

    async def _stop(self) -> None:
        """Ends beating; with `deregister` after the attempt under way, which would list the member again."""
        if self._beating is None:
            return
        self._leaving = True
        self._wake.set()
        if not self._deregister:
            self._beating.cancel()
        try:
            await asyncio.wait({self._beating})
        finally:
            self._beating.cancel()
        if not self._beating.cancelled():
            self._beating.result()
        self._schedule.stopped(await self._take_out() if self._deregister else None)
        self._tell()

    async def _take_out(self) -> str | None:
        """Why it was not taken out; None where it was, or was not there."""
        try:
            answer = await self._api.request(
                "DELETE", member_path(self._registration), within_secs=min(self._request_secs, DEREGISTER_SECS)
            )
        except ClientError as error:
            return str(error)
        if answer.status == 204 or (answer.status == 404 and not answer.unrouted):  # else somebody else answered
            return None
        return f"{answer.url} answered {answer.status}: {answer.message}"

    def _tell(self) -> None:
        state = self._schedule.state
        if state == self._told:
            return
        self._told = state
        if self._on_state is None:
            return
        try:
            self._on_state(state)
        except Exception:  # the caller's code must not end the heartbeat
            log.exception("on_state failed")

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def final(answer: Answer) -> bool:
    """Whether a refusal will be repeated until somebody changes something."""
    may_get_better = answer.status in MAY_GET_BETTER or answer.unrouted
    return (400 <= answer.status < 500 or answer.status == 501) and not may_get_better


def granted_lease(body: bytes) -> Lease | None:
    """The lease in an answer; None where there is none that can be kept."""
    try:
        lease = _LEASE.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return lease if 0 < lease.heartbeat_interval_secs < lease.lease_duration_secs <= MOST_LEASE_SECS else None


def encode(registration: Registration) -> bytes:
    """The body that registers it."""
    return model.encode(registration) if isinstance(registration, RouterReplica) else model.encode_listing(registration)


def list_path(registration: Registration) -> str:
    """Where it is posted."""
    return "/routers" if isinstance(registration, RouterReplica) else "/pools"


def member_path(registration: Registration) -> str:
    """Where it is taken out."""
    if isinstance(registration, RouterReplica):
        return named_path("routers", registration.id)
    key = registration.key
    return named_path("pools", key.site_id, key.namespace, key.dgd_name)
