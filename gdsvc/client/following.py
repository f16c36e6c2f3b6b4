"""Keeps a View at what the service shows: by its watch, or by polling where it has none or no place for us.

Decides when to reconnect, to resume, to poll and to try the watch again. Never gives up.
"""

import asyncio
import logging
from typing import Final, Generic, TypeVar

from gdsvc.client.answer import Answer
from gdsvc.client.api import DiscoveryApi, Pairs
from gdsvc.client.errors import ClientError, Refused, StreamLost
from gdsvc.client.kinds import Kind
from gdsvc.client.link import MOST_TOLD_SECS, Link, jittered
from gdsvc.client.sse import ServerSentEvent
from gdsvc.client.view import Difference, View
from gdsvc.errors import Invalid, NotJson

NO_WATCH: Final = frozenset({404, 405, 501})  # such as upstream's service, or one of ours that is older
NO_PLACE: Final = 429  # as many watchers as it takes; lists it gives all the same
WATCH_AGAIN_SECS: Final = 300.0  # a service may be replaced by one that has a watch; one that had it has it back sooner
PLACE_AGAIN_SECS: Final = 30.0  # unless Retry-After asks for more
OFF_LOOP_FROM: Final = 64 * 1024  # bytes of a list; below, decoding takes about a millisecond

log = logging.getLogger("gdsvc.client")

Item = TypeVar("Item")
Key = TypeVar("Key")


class Follower(Generic[Item, Key]):
    """Moves `view`. `reason` is why it cannot at the moment, else None; `position` the id that a watch has reached.

    `outcome` is set once something has come of following, good or bad.
    """

    def __init__(
        self, kind: Kind[Item, Key], api: DiscoveryApi, query: Pairs, poll_secs: float, link: Link | None = None
    ) -> None:
        self.view: View[Item, Key] = View(kind)
        self.outcome = asyncio.Event()
        self.reason: str | None = None
        self.retry_after_secs = 1
        self.position: str | None = None
        self._kind = kind
        self._api = api
        self._query = query
        self._poll_secs = poll_secs
        self._link = link or Link()
        self._etag: str | None = None  # of the list that the view was made from
        self._polls_until = 0.0
        self._polling = False  # as was last said in the log
        self._watched = False  # ever: then a missing watch is more likely a proxy's doing than an older service

    async def run(self) -> None:
        """Follows until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            pause = await (self._poll() if loop.time() < self._polls_until else self._watch())
            await asyncio.sleep(pause)

    # -- watching

    async def _watch(self) -> float:
        """One stream from its beginning to its end; the pause after it."""
        try:
            async with self._api.events(f"{self._kind.path}/watch", self._query, self.position) as stream:
                self._link.opened(self._now())
                self._polling, self._watched = False, True
                async for event in stream:
                    await self._take(event, stream.url)
        except Refused as refused:
            return self._refused(refused.answer)
        except ClientError as error:
            return self._failed(str(error))
        return self._failed("the service ended the watch")

    async def _take(self, event: ServerSentEvent, url: str) -> None:
        try:
            moved = await self._apply(event)
        except (Invalid, NotJson) as error:
            self.position = None  # what was missed comes with the whole list
            raise StreamLost(url, f"an event cannot be understood: {error}") from None
        if event.retry_ms is not None:
            self._link.told(event.retry_ms / 1000)
        if event.data or event.id is not None:  # else a pause was named, and nothing said of the view
            self.position = event.id
            if self.view.synced:
                self._in_touch(moved=moved)

    async def _apply(self, event: ServerSentEvent) -> bool:
        match event.event:
            case "resync":
                return await self._replace(event.data)
            case "upserted" | "removed" if not self.view.synced:
                raise Invalid("expected a resync before any change", "event")
            case "upserted":
                self._etag = None
                return self.view.upsert(self._kind.decode(event.data), len(event.data))
            case "removed":
                self._etag = None
                return self.view.remove(self._kind.decode_removed(event.data))
            case _:  # a keep-alive, or an event of a later version
                return False

    def _refused(self, answer: Answer) -> float:
        """The service answered, but with no stream."""
        if answer.status in NO_WATCH:
            return self._poll_for(PLACE_AGAIN_SECS if self._watched else WATCH_AGAIN_SECS, "it has no watch")
        if answer.status == NO_PLACE:
            return self._poll_for(max(PLACE_AGAIN_SECS, answer.retry_after_secs or 0.0), "it takes no more watchers")
        return self._failed(str(Refused(answer)), answer)

    def _poll_for(self, secs: float, why: str) -> float:
        if not self._polling:
            log.info("polling %s: %s", self._kind.path, why)
        self._polling = True
        self._polls_until = self._now() + secs
        return 0.0

    # -- polling

    async def _poll(self) -> float:
        """One list; the pause after it."""
        unless = [("If-None-Match", self._etag)] if self._etag else []
        try:
            answer = await self._api.request("GET", self._kind.path, query=self._query, headers=unless)
            if not await self._take_list(answer, conditional=bool(unless)):
                return self._failed(str(Refused(answer)), answer)
        except (Invalid, NotJson) as error:
            return self._failed(f"a list cannot be understood: {error}")
        except ClientError as error:
            return self._failed(str(error))
        return jittered(self._poll_secs, self._link.randomly)

    async def _take_list(self, answer: Answer, *, conditional: bool) -> bool:
        if answer.status == 304 and conditional:
            self._in_touch(moved=True)  # for a poll, an answer is all the progress that there is
            return True
        if answer.status != 200:
            return False
        await self._replace(answer.body)
        self.position = None  # the view is no longer the one which that id stood for
        self._etag = answer.headers.get("etag")
        self._in_touch(moved=True)
        return True

    # -- both

    async def _replace(self, body: bytes) -> bool:
        self._etag = None
        if len(body) < OFF_LOOP_FROM:
            return self.view.replace(self._difference(body))
        return self.view.replace(await asyncio.to_thread(self._difference, body))

    def _difference(self, body: bytes) -> Difference[Item]:
        complete, items = self._kind.decode_list(body)
        return self.view.difference(items, complete=complete)

    def _in_touch(self, *, moved: bool) -> None:
        self._link.heard(self._now(), moved=moved)
        self.view.vouched(fresh=True)
        if self.reason is not None:
            log.info("following %s again", self._kind.path)
        self.reason = None
        self.outcome.set()

    def _failed(self, reason: str, answer: Answer | None = None) -> float:
        if self.reason is None:
            log.warning("lost %s: %s", self._kind.path, reason)
        self.reason = reason
        self._polls_until = 0.0  # who comes back may have a watch
        pause = self._link.failed(self._now())
        if answer is not None and answer.retry_after_secs is not None:
            pause = max(pause, min(answer.retry_after_secs, MOST_TOLD_SECS))
        self.retry_after_secs = max(1, round(pause))
        if self._link.stale and self.view.synced:
            self.view.vouched(fresh=False)
        self.outcome.set()
        return pause

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
