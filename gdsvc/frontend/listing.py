"""GET /v1/models: the models of the catalog; where the pools are those of the command line, what they list themselves.

Only asks and keeps; what the replies say is decided in models.
"""

import asyncio
from contextlib import suppress
from typing import Final

from gdsvc.frontend.models import NOTHING, UNKNOWN, Kept, merged, of_catalog
from gdsvc.frontend.problems import NoModels
from gdsvc.frontend.selection import Selector
from gdsvc.frontend.upstream import Client, Closed, Origin, RequestHead, UpstreamFailed
from gdsvc.tasks import cancelled

ASK_SECS: Final = 5.0  # for all pools together: who waits for a list of models waits no longer
MOST_BYTES: Final = 1 << 20  # of one pool's list
AT_ONCE: Final = 16  # pools that are asked at one time

_HEAD: Final = RequestHead(b"GET", b"/v1/models", ((b"accept", b"application/json"),))


class Listing:
    """The body of GET /v1/models."""

    def __init__(self, selector: Selector, client: Client) -> None:
        self._selector = selector
        self._client = client
        self._now = asyncio.get_running_loop().time
        self._kept = Kept()
        self._asking = asyncio.Lock()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def body(self) -> bytes:
        """JSON in OpenAI's shape. Raises NoModels where there are none, and some that are not known yet may be.

        Clients take an empty list for the truth, so it is given only where it is.
        """
        catalog = self._selector.catalog
        if catalog.serves_every_model:
            body = await self._of_pools([pool.frontends for pool in catalog.pools.values() if pool.frontends])
        else:
            models = catalog.models()
            body = of_catalog(models) if models or catalog.complete else UNKNOWN
        if body == UNKNOWN:
            raise NoModels
        return body

    async def _of_pools(self, pools: list[tuple[str, ...]]) -> bytes:
        """What they list; UNKNOWN where that is nothing, and not all of them said so."""
        if (kept := self._kept.fresh(self._now())) is not None:
            return kept
        async with self._asking:  # one asks, and the others take what it got
            if (kept := self._kept.fresh(self._now())) is not None:
                return kept
            replies = await self._ask_all(pools)
            body = merged(replies)
            return self._kept.put(UNKNOWN if body == NOTHING and len(replies) < len(pools) else body, self._now())

    async def _ask_all(self, pools: list[tuple[str, ...]]) -> list[bytes]:
        asking = [asyncio.create_task(self._ask(frontends)) for frontends in pools]
        try:
            if asking:
                await asyncio.wait(asking, timeout=ASK_SECS)
            done = [task.result() for task in asking if task.done()]
        finally:
            await cancelled(asking)
        return [reply for reply in done if reply is not None]

    async def _ask(self, frontends: tuple[str, ...]) -> bytes | None:
        """What the first frontend that answers lists."""
        async with self._room:
            for url in frontends:
                with suppress(UpstreamFailed, Closed):
                    if (reply := await self._fetch(Origin.of(url))) is not None:
                        return reply
        return None

    async def _fetch(self, origin: Origin) -> bytes | None:
        async with self._client.send(origin, _HEAD) as response:
            if response.status != 200:
                return None
            parts, size = list[bytes](), 0
            async for part in response:
                size += len(part)
                if size > MOST_BYTES:
                    return None
                parts.append(part)
            return b"".join(parts)
