"""Directories over HTTP against a server that says what the test wants: watching, resuming, polling, and bad days."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest

from gdsvc import model
from gdsvc.client import Options, RemotePoolDirectory, RemoteReplicaDirectory
from gdsvc.errors import Unavailable
from gdsvc.model import PoolKey, PoolListing, PoolRegistration, RouterReplica, listing_of
from gdsvc.pool_discovery.directory import Filter
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Snapshot, Upserted
from tests.e2e.scripted import Asked, Caller, ScriptedServer

pytestmark = pytest.mark.loops("asyncio")  # the contract suite and the bad network run on uvloop

SOON_SECS = 8.0  # for what is to come at once
COUNTED_SECS = 5.0  # in which attempts are counted: pauses of at least 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 s
WATCH, LIST = "/pools/watch", "/pools"
Watch = AsyncIterator[Event[PoolListing, PoolKey]]
Script = Callable[[Asked, Caller], Awaitable[None]]
Part = Callable[["Streams", Caller], Awaitable[None]]


def options(server: ScriptedServer, **others: float) -> Options:
    return Options((server.url,), **({"request_timeout_secs": 2.0, "poll_interval_secs": 0.05} | others))  # type: ignore[arg-type]


def pool(name: str, model: str | None = "m") -> PoolListing:
    return listing_of(PoolRegistration(PoolKey("s", "n", name), model=model))


def listed(*items: PoolListing, complete: bool = True) -> bytes:
    """What GET /pools answers."""
    head = b'{"complete":true,"pools":[' if complete else b'{"complete":false,"pools":['
    return head + b",".join(map(model.encode_listing, items)) + b"]}"


def removed(name: str) -> bytes:
    return b'{"key":' + model.encode(pool(name).key) + b"}"


async def next_event(watch: Watch) -> Event[PoolListing, PoolKey]:
    async with asyncio.timeout(SOON_SECS):
        return await anext(watch)


async def next_resync(watch: Watch) -> Snapshot[PoolListing]:
    event = await next_event(watch)
    assert isinstance(event, Resync)
    return event.snapshot


class Streams:
    """A script: the n-th watch is answered by the n-th of `parts`, the last of them also every later one.

    After the very first event all others wait for `go`, so that a test has seen the first list before it changes.
    """

    def __init__(self, *parts: Part, lists: Script | None = None) -> None:
        self.watches: list[Asked] = []
        self.asked_at: list[float] = []
        self.go = asyncio.Event()
        self.sent = 0
        self._parts = parts
        self._lists = lists

    async def __call__(self, asked: Asked, caller: Caller) -> None:
        if asked.target.partition("?")[0] != WATCH:
            assert self._lists is not None, asked
            await self._lists(asked, caller)
            return
        self.watches.append(asked)
        self.asked_at.append(asyncio.get_running_loop().time())
        await self._parts[min(len(self.watches), len(self._parts)) - 1](self, caller)

    async def event(self, caller: Caller, name: str, data: bytes, event_id: str) -> None:
        if self.sent:
            await self.go.wait()
        self.sent += 1
        await caller.event(name, data, event_id)

    @property
    def resumed_from(self) -> list[str | None]:
        return [asked.headers.get("last-event-id") for asked in self.watches]


def stream(*events: tuple[str, bytes, str], stays: bool = True, before: bytes = b"") -> Part:
    async def part(streams: Streams, caller: Caller) -> None:
        await caller.begin_events()
        await caller.send(before)
        for event in events:
            await streams.event(caller, *event)
        if stays:
            await caller.gone()
        else:
            caller.close()

    return part


def refusal(status: int, body: bytes = b"{}", **headers: str) -> Part:
    async def part(_streams: Streams, caller: Caller) -> None:
        await caller.reply(status, body, **headers)

    return part


async def close_at_once(_streams: Streams, caller: Caller) -> None:
    caller.reset()


async def until(reached: Callable[[], bool]) -> None:
    """Waits for something that the test cannot be told of."""
    async with asyncio.timeout(SOON_SECS):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# ------------------------------------------------------------------------------------------------ watching


async def test_a_watch_is_followed() -> None:
    script = Streams(
        stream(
            ("resync", listed(pool("b"), pool("a")), "e-1"),
            ("upserted", model.encode_listing(pool("c")), "e-2"),
            ("removed", removed("a"), "e-3"),
        )
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        snapshot = await next_resync(watch)
        script.go.set()
        assert (list(snapshot.items), snapshot.completeness) == ([pool("a"), pool("b")], Completeness.EXACT)
        assert [await next_event(watch), await next_event(watch)] == [Upserted(pool("c")), Removed(pool("a").key)]
        assert list((await directory.list()).items) == [pool("b"), pool("c")]
        assert (directory.position, directory.reason) == ("e-3", None)


async def test_all_watchers_of_a_directory_share_one_stream() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        for _ in range(20):
            await next_resync(directory.list_and_watch())
        assert len(server.asked) == 1


async def test_a_stream_that_ends_is_resumed_and_watchers_notice_nothing() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), ("upserted", model.encode_listing(pool("b")), "e-2"), stays=False),
        stream(("removed", removed("a"), "e-3")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert [await next_event(watch) for _ in range(2)] == [Upserted(pool("b")), Removed(pool("a").key)]
        assert script.resumed_from == [None, "e-2"]


async def test_it_resumes_behind_the_last_keep_alive() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), stays=False, before=b""),
        stream(before=b": here\nid: e-7\n\n", stays=False),
        stream(("upserted", model.encode_listing(pool("b")), "e-8")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Upserted(pool("b"))
        assert script.resumed_from == [None, "e-1", "e-7"]


async def test_after_a_gap_watchers_hear_only_what_has_changed() -> None:
    script = Streams(
        stream(("resync", listed(pool("a"), pool("b"), pool("c")), "e-1"), stays=False),
        stream(("resync", listed(pool("b"), pool("c", "new"), pool("d")), "f-1")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        told = [await next_event(watch) for _ in range(3)]
        assert told == [Removed(pool("a").key), Upserted(pool("c", "new")), Upserted(pool("d"))]


async def test_a_service_that_restarts_loses_nobody_until_its_list_is_complete() -> None:
    script = Streams(
        stream(("resync", listed(pool("a"), pool("b"), pool("c")), "e-1"), stays=False),
        stream(
            ("resync", listed(pool("b", None), complete=False), "f-1"),
            ("upserted", model.encode_listing(pool("a", "new")), "f-2"),
            ("resync", listed(pool("a", "new"), pool("b")), "f-3"),
        ),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        assert (await next_resync(watch)).completeness is Completeness.EXACT
        script.go.set()
        snapshot = await next_resync(watch)
        if snapshot.completeness is Completeness.ESTIMATED:  # else all of it was there before we looked
            assert [item.key.dgd_name for item in snapshot.items] == ["a", "b", "c"]
            assert snapshot.items[1].model == "m"
            event = await next_event(watch)
            if isinstance(event, Upserted):
                assert event.item == pool("a", "new")
                event = await next_event(watch)
            assert isinstance(event, Resync)
            snapshot = event.snapshot
        assert (list(snapshot.items), snapshot.completeness) == ([pool("a", "new"), pool("b")], Completeness.EXACT)


async def test_filters_are_asked_for() -> None:
    script = Streams(stream(("resync", listed(), "e-1-f")))
    where = Filter(frozenset({"m&n"}), None, frozenset({"s", "r"}))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server), where) as directory:
        await directory.list()
        assert server.asked[0].target == "/pools/watch?model=m%26n&site_id=r&site_id=s"


async def test_a_large_list_arrives_whole() -> None:
    pools = [pool(f"{number:05}") for number in range(2000)]
    script = Streams(stream(("resync", listed(*pools), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await directory.list()).items) == pools


async def test_router_replicas_are_followed_alike() -> None:
    go = asyncio.Event()

    async def routers(asked: Asked, caller: Caller) -> None:
        assert asked.target == "/routers/watch"
        await caller.begin_events()
        await caller.event("resync", b'{"complete":true,"routers":[{"id":"a","url":"http://a"}]}', "e-1")
        await go.wait()
        await caller.event("upserted", b'{"id":"b","url":"http://b"}', "e-2")
        await caller.event("removed", b'{"id":"a"}', "e-3")
        await caller.gone()

    async with ScriptedServer(routers) as server, RemoteReplicaDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        async with asyncio.timeout(SOON_SECS):
            first = await anext(watch)
            assert isinstance(first, Resync)
            assert list(first.snapshot.items) == [RouterReplica("a", "http://a")]
            go.set()
            assert [await anext(watch), await anext(watch)] == [Upserted(RouterReplica("b", "http://b")), Removed("a")]


# ------------------------------------------------------------------------------------------------ bad days


@pytest.mark.load
async def test_a_server_that_closes_at_once_is_not_stormed() -> None:
    script = Streams(close_at_once)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)):
        await asyncio.sleep(COUNTED_SECS)
        assert 3 <= len(server.asked) <= 14, "aiohttp itself sends each GET twice"


@pytest.mark.load
async def test_a_server_that_says_the_same_and_closes_is_not_stormed_either() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1"), stays=False))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)):
        script.go.set()
        await asyncio.sleep(COUNTED_SECS)
        assert 3 <= len(server.asked) <= 7


async def test_the_pause_that_the_service_names_is_kept() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), before=b"retry: 700\n\n", stays=False),
        stream(("upserted", model.encode_listing(pool("b")), "e-2")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        await next_event(watch)
        assert script.asked_at[1] - script.asked_at[0] >= 0.7


async def test_a_peer_that_falls_silent_is_left_and_resumed() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1")),
        stream(("upserted", model.encode_listing(pool("b")), "e-2")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server), silence_secs=0.3) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Upserted(pool("b"))
        assert script.resumed_from[:2] == [None, "e-1"]


@pytest.mark.parametrize(
    "event",
    [
        ("upserted", b"no JSON", "e-2"),
        ("upserted", b"{}", "e-2"),
        ("upserted", b"\xff", "e-2"),
        ("removed", b"{}", "e-2"),
        ("resync", b"[]", "e-2"),
    ],
)
async def test_an_event_that_cannot_be_understood_is_made_up_for_by_the_whole_list(
    event: tuple[str, bytes, str],
) -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), event),
        stream(("resync", listed(pool("b")), "e-3")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert [await next_event(watch) for _ in range(2)] == [Removed(pool("a").key), Upserted(pool("b"))]
        assert script.resumed_from == [None, None]


async def test_changes_before_the_first_list_are_not_taken_for_the_view() -> None:
    script = Streams(
        stream(("upserted", model.encode_listing(pool("x")), "e-1")), stream(("resync", listed(pool("a")), "e-3"))
    )
    script.go.set()
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]


async def test_events_of_a_later_version_are_passed_over() -> None:
    script = Streams(
        stream(("resync", listed(pool("a")), "e-1"), ("later", b"{", "e-2"), ("removed", removed("a"), "e-3"))
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        assert await next_event(watch) == Removed(pool("a").key)
        assert len(server.asked) == 1


async def test_a_list_asked_for_while_nobody_answers_is_unavailable_and_there_later() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    server = ScriptedServer(script)
    async with server:
        await server.hang_up()
        async with RemotePoolDirectory(options(server)) as directory:
            with pytest.raises(Unavailable, match="connection refused"):
                await directory.list()
            assert directory.reason is not None
            await server.listen()
            assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]
            assert list((await directory.list()).items) == [pool("a")]
            assert directory.reason is None


async def test_the_last_view_is_kept_while_nobody_answers() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        before = await directory.list()
        await server.hang_up()
        await until(lambda: directory.reason is not None)
        assert await directory.list() == before


async def test_a_service_that_is_not_ready_is_asked_again_when_it_says() -> None:
    script = Streams(
        refusal(503, b'{"error":{"message":"not synced yet"}}', Retry_After="1"),
        stream(("resync", listed(pool("a")), "e-1")),
    )
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        with pytest.raises(Unavailable, match="not synced yet") as unavailable:
            await directory.list()
        assert unavailable.value.retry_after_secs == 1
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("a")]
        assert script.asked_at[1] - script.asked_at[0] >= 1.0


# ------------------------------------------------------------------------------------------------ polling


class Lists:
    """GET /pools with an ETag: the list is `body`, its tag a hash of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.full = 0
        self.unchanged = 0

    async def __call__(self, asked: Asked, caller: Caller) -> None:
        assert asked.target.partition("?")[0] == LIST
        etag = f'"{hash(self.body):x}"'
        if asked.headers.get("if-none-match") == etag:
            self.unchanged += 1
            await caller.reply(304, ETag=etag)
        else:
            self.full += 1
            await caller.reply(200, self.body, ETag=etag)


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_where_there_is_no_watch_lists_are_polled_and_their_differences_told(status: int) -> None:
    lists = Lists(listed(pool("a"), pool("b")))
    script = Streams(refusal(status, b"", Content_Type="text/plain"), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        assert list((await next_resync(watch)).items) == [pool("a"), pool("b")]
        script.go.set()
        await until(lambda: lists.unchanged >= 3)
        lists.body = listed(pool("b", "new"))
        assert [await next_event(watch) for _ in range(2)] == [Removed(pool("a").key), Upserted(pool("b", "new"))]
        assert (lists.full, len(script.watches), directory.position) == (2, 1, None)


async def test_polled_lists_that_are_incomplete_lose_nobody() -> None:
    lists = Lists(listed(pool("a"), pool("b")))
    script = Streams(refusal(404), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        script.go.set()
        lists.body = listed(pool("c"), complete=False)
        snapshot = await next_resync(watch)
        assert [item.key.dgd_name for item in snapshot.items] == ["a", "b", "c"]
        lists.body = listed(pool("c"))
        assert list((await next_resync(watch)).items) == [pool("c")]


async def test_a_service_that_takes_no_more_watchers_is_polled() -> None:
    lists = Lists(listed(pool("a")))
    script = Streams(refusal(429, Retry_After="60"), lists=lists)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await directory.list()).items) == [pool("a")]
        await until(lambda: lists.unchanged >= 3)
        assert len(script.watches) == 1


async def test_who_polls_tries_the_watch_when_the_service_was_away() -> None:
    async def gone(_asked: Asked, caller: Caller) -> None:
        caller.reset()

    script = Streams(refusal(404), stream(("resync", listed(pool("b")), "e-1")), lists=gone)
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        assert list((await next_resync(directory.list_and_watch())).items) == [pool("b")]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"pools":[{}]}', b'["not a list"]'])
async def test_a_list_that_cannot_be_understood_is_unavailable(body: bytes) -> None:
    script = Streams(refusal(404), lists=Lists(body))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        with pytest.raises(Unavailable, match="cannot be understood"):
            await directory.list()


# ------------------------------------------------------------------------------------------------ leaving


def tasks() -> Iterable[str]:
    return sorted(task.get_name() for task in asyncio.all_tasks() if "gdsvc" in task.get_name())


async def test_leaving_ends_every_watch_and_leaves_no_task() -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1")))
    async with ScriptedServer(script) as server:
        async with RemotePoolDirectory(options(server)) as directory:
            watch, late = directory.list_and_watch(), directory.list_and_watch()
            await next_resync(watch)
            waiting = asyncio.ensure_future(next_event(watch))
            await asyncio.sleep(0)
            assert tasks()
        assert not tasks()
        with pytest.raises(StopAsyncIteration):
            await waiting
        async with asyncio.timeout(SOON_SECS):
            assert [event async for event in late] == []


async def test_leaving_before_anything_was_heard_ends_everything_too() -> None:
    async def never(_streams: Streams, _caller: Caller) -> None:
        await asyncio.Event().wait()

    async with ScriptedServer(Streams(never)) as server:
        async with RemotePoolDirectory(options(server)) as directory:
            waiting = [asyncio.ensure_future(next_event(directory.list_and_watch())) for _ in range(3)]
            listing = asyncio.ensure_future(directory.list())
            await asyncio.sleep(0.05)
        for task in waiting:
            with pytest.raises(StopAsyncIteration):
                await task
        with pytest.raises(Unavailable, match="closed"):
            await listing
        assert not tasks()


async def test_a_directory_that_was_not_entered_says_so() -> None:
    directory = RemotePoolDirectory(Options(("http://127.0.0.1:1",)))
    with pytest.raises(RuntimeError, match="not entered"):
        await directory.list()
    with pytest.raises(RuntimeError, match="not entered"):
        await anext(directory.list_and_watch())


async def test_a_fault_of_the_follower_is_raised_where_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    script = Streams(stream(("resync", listed(pool("a")), "e-1"), ("removed", removed("a"), "e-2")))
    async with ScriptedServer(script) as server, RemotePoolDirectory(options(server)) as directory:
        watch = directory.list_and_watch()
        await next_resync(watch)
        directory._follower.view._members = None  # type: ignore[assignment]
        script.go.set()
        with pytest.raises(TypeError):
            await next_event(watch)
        with pytest.raises(TypeError):
            await directory.list()
    assert "ended by a fault" in caplog.text


async def test_entering_waits_for_nobody() -> None:
    async with asyncio.timeout(1.0), RemotePoolDirectory(Options(("http://192.0.2.1",))):
        pass
