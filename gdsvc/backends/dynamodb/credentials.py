"""Keeps what AWS's own chain finds fresh in the background, so that no heartbeat waits for it to be renewed.

The client itself renews credentials within a call, and those that live for minutes before each one. A file whose
content somebody replaces it would never read again. What is renewed here is used until then, also where that fails.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final

from gdsvc import logs, tasks

EXPIRY: Final = "_expiry_time"  # of the client's credentials that end by a date; it has no public name
LONGEST_WAIT_SECS: Final = 60.0  # files are read again that often; whoever renews early asks the client's own rule
SHORTEST_WAIT_SECS: Final = 5.0
FIRST_SECS: Final = 10.0  # to wait for the first keys, so that no call has to; calls wait for later ones

log = logs.get("gdsvc.dynamodb")


class HeldCredentials:
    """What the client asks before it signs a request: answers at once with what was fetched last."""

    def __init__(self, fetched: Any) -> None:
        self._fetched: Any = fetched
        self.method: str = fetched.method
        self.frozen: Any = None
        self._first: asyncio.Task[None] | None = None

    async def get_frozen_credentials(self) -> Any:
        """The keys and the token; waits only for the first, which calls that give up do not cut short."""
        if self.frozen is None:
            if self._first is None or self._first.done():
                self._first = asyncio.create_task(self.renew())
                self._first.add_done_callback(_retrieve)  # also where nobody waits any more
            await asyncio.shield(self._first)
        return self.frozen

    async def close(self) -> None:
        """Gives up waiting for the first."""
        if self._first is not None:
            await tasks.cancelled([self._first])

    async def get_account_id(self) -> str | None:
        """Whose keys they are, where that is known."""
        account_id: str | None = getattr(await self.get_frozen_credentials(), "account_id", None)
        return account_id

    def get_deferred_property(self, name: str) -> Callable[[], Any]:
        """A part of them, looked at when it is needed."""
        return lambda: getattr(self.frozen, name, None)

    async def renew(self, found: Any = None) -> None:
        """Asks for the keys anew; from `found`, where the chain was asked again and found something."""
        self._fetched = self._fetched if found is None else found
        self.frozen = await self._fetched.get_frozen_credentials()

    def remaining_secs(self, unix_now: float) -> float | None:
        """How long they are good for; None where nothing is known of an end, as of those in a file."""
        ends_at: object = getattr(self._fetched, EXPIRY, None)
        return ends_at.timestamp() - unix_now if isinstance(ends_at, datetime) else None


def _retrieve(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


class KeptFresh:
    """A credential provider for a client's session: `async with` it while the client is in use.

    Entering it waits for the first keys, `first_secs` at most.
    """

    def __init__(
        self, chain: Any, unix_now: Callable[[], float] = time.time, *, first_secs: float = FIRST_SECS
    ) -> None:
        self._chain = chain
        self._unix_now = unix_now
        self._first_secs = first_secs
        self._held: HeldCredentials | None = None
        self._task: asyncio.Task[None] | None = None

    async def load_credentials(self) -> HeldCredentials | None:
        """What the chain finds; None where that is nothing. Called by the session."""
        found = await self._chain.load_credentials()
        self._held = None if found is None else HeldCredentials(found)
        return self._held

    async def __aenter__(self) -> "KeptFresh":
        try:
            await self._fetch_first()
        except BaseException:
            await self._close()
            raise
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            await tasks.cancelled([self._task])
        await self._close()

    async def _close(self) -> None:
        if self._held is not None:
            await self._held.close()

    async def _fetch_first(self) -> None:
        """Where it fails, the first call asks again, and is told."""
        if self._held is not None:
            with suppress(Exception):
                async with asyncio.timeout(self._first_secs):
                    await self._held.get_frozen_credentials()

    async def _run(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(self._wait_secs(failing=failing))
            try:
                await self.renew()
                failing = False
            except Exception as error:  # noqa: BLE001 - whatever providers raise; its text may hold what they read
                if not failing:
                    log.warning("dynamodb.credentials", fault="cannot be renewed now", kind=type(error).__name__)
                failing = True

    async def renew(self) -> None:
        """Once: what ends by a date is renewed by its own rule, all else is looked for again. Raises what that does."""
        if self._held is None:
            return
        dated = self._held.remaining_secs(self._unix_now()) is not None
        await self._held.renew(None if dated else await self._chain.load_credentials())

    def _wait_secs(self, *, failing: bool) -> float:
        if failing:
            return SHORTEST_WAIT_SECS
        remaining = None if self._held is None else self._held.remaining_secs(self._unix_now())
        if remaining is None:
            return LONGEST_WAIT_SECS
        return min(max(remaining / 2, SHORTEST_WAIT_SECS), LONGEST_WAIT_SECS)
