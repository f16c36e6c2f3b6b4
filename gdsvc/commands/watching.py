"""`gdsvc watch`: a line for each event, and a connection that is taken up again where it broke off."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from gdsvc.client import ClientError, DiscoveryApi, InvalidOptions, ServerSentEvent
from gdsvc.client import Refused as StreamRefused
from gdsvc.client.link import Link
from gdsvc.commands.arguments import Watch
from gdsvc.commands.documents import Pool, PoolList, ProblemBody, Removed, Router, RouterList, decode
from gdsvc.commands.failures import NoService, Refused
from gdsvc.commands.renderings import Form, yaml_text
from gdsvc.commands.screen import Screen, say
from gdsvc.commands.service import failure, usage
from gdsvc.commands.tables import summary
from gdsvc.commands.times import instant
from gdsvc.commands.visible import excerpt, json_text, key_text, visible
from gdsvc.errors import NotJson
from gdsvc.model import decode_json

NO_WATCH: Final = frozenset({404, 405, 501})  # what a service without the route answers


async def watch(api: DiscoveryApi, command: Watch, form: Form, screen: Screen) -> None:
    """Writes events until cancelled. Raises Refused and NoService where the watch cannot begin or go on."""
    loop = asyncio.get_running_loop()
    watcher = Watcher(api, command, form, screen)
    while True:
        try:
            await watcher.follow(loop.time)
            lost = "the service ended the stream"
        except InvalidOptions as fault:
            raise usage(fault) from None
        except ClientError as error:
            lost = watcher.judge(error)
        watcher.lost(lost)
        await asyncio.sleep(watcher.link.failed(loop.time()))


class Watcher:
    """One watch over its connections: where it is, and by `link` how long it waits before the next."""

    def __init__(self, api: DiscoveryApi, command: Watch, form: Form, screen: Screen) -> None:
        self._api = api
        self._path = f"/{command.kind}/watch"
        self._query = command.filters
        self._kind = command.kind
        self._form = form
        self._screen = screen
        self.link = Link()
        self._began = False
        self._lost: str | None = None
        self._last_id: str | None = None

    async def follow(self, clock: Callable[[], float]) -> None:
        """Writes the events of one connection until the service ends it. Raises ClientError."""
        async with self._api.events(self._path, self._query, self._last_id) as stream:
            self.link.opened(clock())
            async for event in stream:
                self.heard(event, clock())
                if event.data:
                    self._write(event)

    def heard(self, event: ServerSentEvent, now: float) -> None:
        """Something came: the next connection resumes from here, and soon where this is news."""
        self._began = True
        if self._lost is not None:
            say("gdsvc watch: the service is there again")
            self._lost = None
        self.link.heard(now, moved=event.id != self._last_id)
        self._last_id = event.id
        if event.retry_ms is not None:
            self.link.told(event.retry_ms / 1000)

    def lost(self, reason: str) -> None:
        """The connection is gone, or another was tried in vain; said once a reason."""
        if reason != self._lost:
            say(f"gdsvc watch: {reason}; trying again")
        self._lost = reason

    def judge(self, error: ClientError) -> str:
        """What is said of an error that another attempt may mend; raises what the others mean to the command."""
        if isinstance(error, StreamRefused):
            answer = error.answer
            if answer.status in NO_WATCH and decode(answer.body, ProblemBody) is not None:
                raise Refused(f"{answer.url} has no watch: {answer.message} ({answer.status})")
            if not self._began or (answer.status < 500 and answer.status != 429):
                raise failure(answer)
        elif not self._began:
            raise NoService(f"{error} (--url or GDSVC_URL names another)")
        return str(error)

    def _write(self, event: ServerSentEvent) -> None:
        match self._form:
            case Form.TABLE:
                self._screen.write(f"{instant(time.time())}  {described(event)}\n")
            case Form.JSON:
                line = json_line(event)
                self._screen.write_bytes(json_text(line) if self._screen.is_terminal else line)
            case Form.YAML:
                self._screen.write(f"---\n{yaml_text(json_line(event), self._screen.can_show)}")


class _Line(Struct, frozen=True):
    event: str
    id: str | None
    data: msgspec.Raw


def json_line(event: ServerSentEvent) -> bytes:
    """`{"event": …, "id": …, "data": …}` on one line; the data as it came, as a string where it is no JSON."""
    data = event.data
    try:
        decode_json(data)
    except NotJson:
        data = msgspec.json.encode(data.decode(errors="replace"))
    one_line = data.replace(b"\n", b" ").replace(b"\r", b" ")  # in JSON they stand between tokens only
    return msgspec.json.encode(_Line(event.event, event.id, msgspec.Raw(one_line))) + b"\n"


def described(event: ServerSentEvent) -> str:
    """An event in a few words: its name, and which pool or router it is of."""
    return f"{excerpt(event.event):<8}  {'  '.join(_words(event))}"


def _words(event: ServerSentEvent) -> Iterator[str]:
    data = event.data
    match event.event:
        case "resync":
            whole = decode(data, PoolList) or decode(data, RouterList)
            yield summary(whole) if whole else _strange(data)
        case "upserted":
            if pool := decode(data, Pool):
                yield from _pool(pool)
            elif router := decode(data, Router):
                yield f"{visible(router.id)}  {excerpt(router.url)}"
            else:
                yield _strange(data)
        case "removed":
            removed = decode(data, Removed)
            if removed and removed.key:
                yield key_text(removed.key.site_id, removed.key.namespace, removed.key.dgd_name)
            elif removed and removed.id:
                yield visible(removed.id)
            else:
                yield _strange(data)
        case _:
            yield _strange(data)


def _pool(pool: Pool) -> Iterator[str]:
    yield key_text(pool.key.site_id, pool.key.namespace, pool.key.dgd_name)
    if pool.model:
        yield f"model {excerpt(pool.model)}"
    if pool.location and pool.location.region:
        yield f"region {excerpt(pool.location.region)}"
    if pool.capacity and pool.capacity.max_concurrency is not None:
        yield f"capacity {pool.capacity.max_concurrency}"
    count = len(pool.frontends or ())
    yield f"{count} frontend{'' if count == 1 else 's'}"


def _strange(data: bytes) -> str:
    return excerpt(data[:1_000].decode(errors="replace"))
