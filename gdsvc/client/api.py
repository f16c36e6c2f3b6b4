"""Requests to a discovery service that has several URLs: answers, and streams of events.

Decides who is asked and when another URL is; what an answer means is for the callers.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlencode

import aiohttp

from gdsvc.client.answer import Answer
from gdsvc.client.attempts import FAILURES, Attempts, Foreign, reason
from gdsvc.client.errors import EventTooLong, Refused, StreamLost
from gdsvc.client.options import Options
from gdsvc.client.sse import EventParser, ServerSentEvent
from gdsvc.client.transport import Request, Transport, read_answer

KEEP_ALIVE_SECS: Final = 15.0  # how often a watch says something, by the contract
SILENCE_SECS: Final = 2 * KEEP_ALIVE_SECS + 5.0  # after which its peer is taken for dead
MOST_ID_BYTES: Final = 1024  # of an event id that is sent back; ours have some 50

Pairs = Sequence[tuple[str, str]]

_JSON: Final = {"Accept": "application/json", "Accept-Encoding": "gzip"}
_EVENTS: Final = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}


class EventStream:
    """The events of one response, in order; it ends where the service ends it. `url` is the base URL that gives it."""

    def __init__(self, response: aiohttp.ClientResponse, url: str, silence_secs: float) -> None:
        self.url = url
        self._content = response.content
        self._silence_secs = silence_secs
        self._parser = EventParser()
        self._ready: deque[ServerSentEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerSentEvent:
        """The next event. Raises StreamLost."""
        while not self._ready:
            chunk = await self._read()
            if not chunk:
                raise StopAsyncIteration
            try:
                self._ready.extend(self._parser.feed(chunk))
            except EventTooLong as error:
                raise StreamLost(self.url, str(error)) from None
        return self._ready.popleft()

    async def _read(self) -> bytes:
        try:
            return await self._content.readany()
        except TimeoutError:
            said = f"nothing was heard for {self._silence_secs:g} s"
        except (aiohttp.ClientError, OSError) as error:
            said = reason(error)
        raise StreamLost(self.url, said)


class DiscoveryApi:
    """The discovery service of `options`; `async with` holds its connections. Entering raises InvalidOptions.

    Cookies, redirects and the environment's proxies are not followed. `silence_secs` is how long a stream may say
    nothing, comments included.
    """

    def __init__(self, options: Options, *, silence_secs: float = SILENCE_SECS) -> None:
        self._options = options
        self._silence_secs = silence_secs
        self._transport = Transport(options)
        self._first = 0  # the URL that answered last

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def request(  # noqa: PLR0913 - all but two by name
        self,
        method: str,
        path: str,
        *,
        query: Pairs = (),
        body: bytes | None = None,
        headers: Pairs = (),
        within_secs: float | None = None,
    ) -> Answer:
        """The answer of the first URL that gives one, whatever its status; where no URL does better, also a 429 or 5xx,
        or a 404 or 405 that no service worded.

        `path` begins with a slash and is sent as it is: names in it are percent-encoded (named_path). `body` is JSON.
        `within_secs` bounds the whole and is shared among the URLs; without it each has `request_timeout_secs`.
        Raises Unreachable, NotDiscovery, and InvalidOptions for a token that is none.
        """
        sent = _JSON | dict(headers)
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        request = Request(method, _target(path, query), body, sent)
        attempts = Attempts()
        for base, secs in self._in_turn(within_secs):
            try:
                async with asyncio.timeout(secs), await self._transport.send(base, request) as response:
                    answer = await read_answer(response, base)
            except FAILURES as error:
                attempts.failed(base, error)
            else:
                if attempts.take(answer):
                    self._prefer(base)
                    return answer
        return attempts.best()

    @asynccontextmanager
    async def events(
        self, path: str, query: Pairs = (), last_event_id: str | None = None
    ) -> AsyncGenerator[EventStream]:
        """The stream of events at `path`, from behind `last_event_id` on where the service can resume there.

        URLs are tried as by `request`. Raises Refused where the service answers with no stream, Unreachable,
        NotDiscovery, InvalidOptions; reading raises StreamLost.
        """
        sent = dict(_EVENTS)
        if last_event_id and len(last_event_id.encode()) <= MOST_ID_BYTES:
            sent["Last-Event-ID"] = last_event_id
        response, base = await self._open(Request("GET", _target(path, query), None, sent, self._silence_secs))
        try:
            yield EventStream(response, base, self._silence_secs)
        finally:
            response.close()

    async def _open(self, request: Request) -> tuple[aiohttp.ClientResponse, str]:
        attempts = Attempts()
        for base, secs in self._in_turn(None):
            try:
                async with asyncio.timeout(secs):
                    response = await self._transport.send(base, request)
                    if response.status == 200 and response.content_type == "text/event-stream":
                        self._prefer(base)
                        return response, base
                    async with response:
                        answer = await _read_refusal(response, base)
            except FAILURES as error:
                attempts.failed(base, error)
            else:
                if attempts.take(answer):
                    raise Refused(answer)
        raise Refused(attempts.best())

    def _in_turn(self, within_secs: float | None) -> Iterator[tuple[str, float]]:
        """Each URL and the seconds that it gets."""
        loop = asyncio.get_running_loop()
        ends_at = None if within_secs is None else loop.time() + within_secs
        urls = self._options.urls[self._first :] + self._options.urls[: self._first]
        for position, url in enumerate(urls):
            secs = self._options.request_timeout_secs
            if ends_at is not None:
                secs = min(secs, max(0.0, ends_at - loop.time()) / (len(urls) - position))
            yield url, secs

    def _prefer(self, base: str) -> None:
        self._first = self._options.urls.index(base)


async def _read_refusal(response: aiohttp.ClientResponse, base: str) -> Answer:
    if response.status == 200:
        raise Foreign("it answers with no stream of events")
    return await read_answer(response, base)


def _target(path: str, query: Pairs) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def named_path(*segments: str) -> str:
    """The path of these segments, each percent-encoded: `named_path("pools", "ohio", "a/b", "p")`."""
    return "".join("/" + quote(segment, safe="") for segment in segments)
