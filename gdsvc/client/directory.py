"""Directories of another process: PoolDirectory and ReplicaDirectory over HTTP.

One follower per directory keeps a view; `list` and any number of watches read that view, so that a list and the
events after it cannot disagree, and one connection serves them all.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from gdsvc import tasks
from gdsvc.client.api import SILENCE_SECS, DiscoveryApi, Pairs
from gdsvc.client.errors import InvalidOptions
from gdsvc.client.following import Follower
from gdsvc.client.kinds import POOLS, ROUTERS, Kind
from gdsvc.client.options import Options
from gdsvc.errors import Unavailable
from gdsvc.model import PoolKey, PoolListing, RouterReplica
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import LAGGED, Lagged
from gdsvc.pool_discovery.watch import Event, Resync, Snapshot

log = logging.getLogger("gdsvc.client")

Item = TypeVar("Item")
Key = TypeVar("Key")


class RemoteDirectory(Generic[Item, Key]):
    """A list of the service, followed from entering to leaving. Entering raises InvalidOptions and waits for nothing.

    A Snapshot is the view: an Estimated one still has the members that were known before, each with its known facts,
    until the service removes them or gives a complete list; so who takes a Resync as it stands loses nobody. Its
    revision counts this directory's changes. What was Exact becomes Estimated when the service has been out of reach
    for a minute; the members stay. After a reconnect, watchers hear only what has changed meanwhile.
    """

    def __init__(self, kind: Kind[Item, Key], options: Options, query: Pairs, silence_secs: float) -> None:
        self._api = DiscoveryApi(options, silence_secs=silence_secs)
        self._follower = Follower(kind, self._api, query, options.poll_interval_secs)
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        self._following = asyncio.create_task(self._follow(), name=f"gdsvc.client follows {type(self).__name__}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._following is not None:
                await tasks.cancelled([self._following])
        finally:
            self._close()  # here too: a task that is cancelled before its first step runs none of its own
            await self._api.__aexit__(kind, error, trace)

    @property
    def reason(self) -> str | None:
        """Why the service is out of reach at the moment; None while it is not."""
        return self._follower.reason

    @property
    def position(self) -> str | None:
        """The event id that the view has reached; None where it is polled."""
        return self._follower.position

    async def list(self) -> Snapshot[Item]:
        """The view as it is now. Raises Unavailable where the service has not been reached since entering."""
        self._raise_fault()
        await self._follower.outcome.wait()
        self._raise_fault()
        if not self._follower.view.synced:
            raise Unavailable(
                self._follower.reason or "the directory is closed", retry_after_secs=self._follower.retry_after_secs
            )
        return self._follower.view.snapshot()

    async def list_and_watch(self) -> AsyncIterator[Event[Item, Key]]:
        """A Resync once the service has been reached, then every change; ends when the directory is left."""
        self._raise_fault()
        view = self._follower.view
        subscription = view.fanout.subscribe()
        event = LAGGED if view.synced or self._closed else await subscription.next()
        while True:
            if not isinstance(event, Lagged):
                yield event
            else:
                self._raise_fault()
                if self._closed:
                    return
                subscription = view.fanout.subscribe()
                yield Resync(view.snapshot())
            event = await subscription.next()

    async def _follow(self) -> None:
        try:
            await self._follower.run()
        except Exception:
            log.exception("following ended by a fault")
            raise
        finally:
            self._close()

    def _close(self) -> None:
        """Nobody follows any more: who waits for the view or for a change hears so."""
        if not self._closed:
            self._closed = True
            self._follower.outcome.set()
            self._follower.view.fanout.resync()

    def _raise_fault(self) -> None:
        """A fault, of ours or of who did not enter, must not look like a quiet service."""
        if self._following is None:
            raise RuntimeError("the directory was not entered")
        if self._following.done() and not self._following.cancelled():
            self._following.result()


class RemotePoolDirectory(RemoteDirectory[PoolListing, PoolKey]):
    """PoolDirectory over HTTP: the pools that match `where`."""

    def __init__(self, options: Options, where: Filter = EVERYTHING, *, silence_secs: float = SILENCE_SECS) -> None:
        super().__init__(POOLS, options, filter_query(where), silence_secs)


class RemoteReplicaDirectory(RemoteDirectory[RouterReplica, str]):
    """ReplicaDirectory over HTTP."""

    def __init__(self, options: Options, *, silence_secs: float = SILENCE_SECS) -> None:
        super().__init__(ROUTERS, options, (), silence_secs)


def filter_query(where: Filter) -> Pairs:
    """The query parameters of a filter, sorted, so that equal filters ask the same.

    Raises InvalidOptions for an empty set, which no pool matches and no query can say.
    """
    named = (("model", where.models), ("region", where.regions), ("site_id", where.site_ids))
    if any(values is not None and not values for _, values in named):
        raise InvalidOptions("where", "expected sets that are not empty")
    return [(name, value) for name, values in named for value in sorted(values or ())]
