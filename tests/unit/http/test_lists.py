"""Lists: made once a revision and coding, tagged, compressed, filtered; over a real store and counted executors."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import zstandard

from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Scope
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.errors import Unavailable
from gdsvc.http.lists import COMPRESSED_FROM, FILTERS_KEPT, OFF_LOOP_FROM, Lists, filter_hash
from gdsvc.model import Lease, PoolKey, PoolLocation, PoolRegistration
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedList, Filter, Source
from gdsvc.pool_discovery.fanout import Fanout
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, EncodedEvent

STARTED_AT = "2026-01-01T00:00:00.000Z"
EPOCH = "0123abcd"


class CountingExecutor(ThreadPoolExecutor):
    """Counts what it is given."""

    submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)


class Stand:
    """Lists over a memory store with a lease of 15 s."""

    def __init__(self, executor: CountingExecutor) -> None:
        self.time = 0.0
        self.clock = LeaseClock(15, lambda: self.time)
        self.store = MemoryPoolStore(Lease(5, 15), self.clock, STARTED_AT)
        self.executor = executor
        self.lists = Lists(self.store, "pools", EPOCH, executor)

    async def register(self, name: str, model: str | None = "m", region: str = "eu", size: int = 0) -> None:
        location = PoolLocation(region)
        capabilities = ("x" * size,) if size else ()
        await self.store.register(PoolRegistration(PoolKey("s", "n", name), location, model, (), None, capabilities))

    async def get(
        self, accept: bytes | None = None, if_none_match: bytes | None = None, where: Filter = EVERYTHING
    ) -> Response:
        headers = [(b"host", b"a")]
        if accept is not None:
            headers.append((b"accept-encoding", accept))
        if if_none_match is not None:
            headers.append((b"if-none-match", if_none_match))
        return await self.lists.respond(scope(headers), where)


def scope(headers: list[tuple[bytes, bytes]]) -> Scope:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/pools",
        "raw_path": b"/pools",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }


def of(response: Response, name: bytes) -> bytes | None:
    """The header `name`, which is there once at most."""
    values = [value for key, value in response.headers if key == name]
    assert len(values) <= 1
    return values[0] if values else None


def plain(response: Response) -> bytes:
    """The body without its content coding."""
    match of(response, b"content-encoding"):
        case b"zstd":
            return zstandard.ZstdDecompressor().decompress(response.body)
        case b"gzip":
            return gzip.decompress(response.body)
        case _:
            return response.body


@pytest.fixture
def stand() -> Iterator[Stand]:
    with CountingExecutor(1) as executor:
        yield Stand(executor)


# ------------------------------------------------------------------------------------------------------ the body


async def test_an_incomplete_list_says_so_and_names_its_source(stand: Stand) -> None:
    response = await stand.get()
    assert response.status == 200
    assert of(response, b"content-type") == b"application/json"
    assert response.body.decode() == (
        '{"complete":false,"pools":[],"sources":[{"name":"pool-registrations","complete":false,'
        f'"as_of":"{STARTED_AT}"}}]}}'
    )


async def test_a_complete_list_is_complete_and_nothing_more(stand: Stand) -> None:
    stand.store._completeness = Completeness.EXACT
    await stand.register("p")
    body = (await stand.get()).body
    listing = stand.store.index.encoding(b"s\0n\0p")
    assert listing is not None
    assert body == b'{"complete":true,"pools":[' + listing + b"]}"


async def test_equal_lists_have_equal_bytes_in_every_coding(stand: Stand) -> None:
    other = Stand(stand.executor)
    for one, order in ((stand, range(50)), (other, reversed(range(50)))):
        for number in order:
            await one.register(f"{number:02}")
    for coding in (None, b"gzip", b"zstd"):
        assert (await stand.get(coding)).body == (await other.get(coding)).body
    assert (await stand.get(b"gzip")).body[4:8] == bytes(4), "no time of making"


@pytest.mark.parametrize(("size", "coding"), [(COMPRESSED_FROM - 1, None), (COMPRESSED_FROM, b"zstd")])
async def test_a_body_is_compressed_from_one_kibibyte_up(stand: Stand, size: int, coding: bytes | None) -> None:
    await stand.register("p", size=1)
    await stand.register("p", size=1 + size - len((await stand.get()).body))
    response = await stand.get(b"zstd, gzip")
    assert of(response, b"content-encoding") == coding
    assert len(plain(response)) == size
    assert of(response, b"vary") == b"accept-encoding"


@pytest.mark.parametrize("coding", [b"zstd", b"gzip"])
async def test_what_is_compressed_is_the_plain_body(stand: Stand, coding: bytes) -> None:
    for number in range(100):
        await stand.register(f"{number:02}")
    response = await stand.get(coding)
    assert of(response, b"content-encoding") == coding
    assert plain(response) == (await stand.get()).body
    assert len(response.body) < len(plain(response)) / 5


# ---------------------------------------------------------------------------------------------------- made once


@pytest.mark.parametrize("pools", [10, 1000], ids=["on the loop", "in the executor"])
@pytest.mark.parametrize("coding", [b"zstd", b"gzip", b"identity"])
async def test_a_hundred_readers_at_once_cost_one_encoding(stand: Stand, coding: bytes, pools: int) -> None:
    for number in range(pools):
        await stand.register(f"{number:04}")
    responses = await asyncio.gather(*(stand.get(coding) for _ in range(100)))
    responses += [await stand.get(coding) for _ in range(10)]
    assert len({response.body for response in responses}) == 1
    expected = {"identity": 1, "zstd": 0, "gzip": 0} | {coding.decode(): 1}
    assert stand.lists.encodings == expected
    await stand.register("another")
    assert len({response.body for response in await asyncio.gather(*(stand.get(coding) for _ in range(100)))}) == 1
    assert stand.lists.encodings == {name: 2 * count for name, count in expected.items()}


async def test_a_renewal_makes_no_list_anew(stand: Stand) -> None:
    await stand.register("p", size=2000)
    first = await stand.get(b"zstd")
    await stand.register("p", size=2000)
    assert (await stand.get(b"zstd")).body is first.body
    assert stand.lists.encodings == {"identity": 1, "zstd": 1, "gzip": 0}


async def test_codings_share_the_plain_body(stand: Stand) -> None:
    await stand.register("p", size=2000)
    for coding in (b"gzip", b"zstd", None, b"gzip"):
        await stand.get(coding)
    assert stand.lists.encodings == {"identity": 1, "zstd": 1, "gzip": 1}


async def test_one_changed_pool_of_many_is_encoded_alone(stand: Stand) -> None:
    for number in range(1000):
        await stand.register(f"{number:04}")
    await stand.get()
    before = stand.store.index.encodings
    await stand.register("0500", "other")
    body = json.loads((await stand.get()).body)
    assert stand.store.index.encodings == before + 1
    assert [pool["model"] for pool in body["pools"]].count("other") == 1


async def test_large_bodies_are_made_in_the_executor_and_small_ones_are_not(stand: Stand) -> None:
    await stand.register("p", size=2000)
    await stand.get(b"zstd")
    assert stand.executor.submitted == 0
    await stand.register("q", size=OFF_LOOP_FROM)
    await stand.get()
    assert stand.executor.submitted == 1
    await stand.get(b"zstd")
    await stand.get(b"gzip")
    assert stand.executor.submitted == 3


async def test_a_reader_who_leaves_while_a_list_is_made_takes_it_from_nobody(stand: Stand) -> None:
    for number in range(1000):
        await stand.register(f"{number:04}")
    readers = [asyncio.ensure_future(stand.get(b"gzip")) for _ in range(10)]
    await asyncio.sleep(0)
    readers[0].cancel()
    readers[5].cancel()
    answers = await asyncio.gather(*readers, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [n in (0, 5) for n in range(10)]
    bodies = {plain(answer) for answer in answers if isinstance(answer, Response)}
    assert bodies == {(await stand.get()).body}


async def test_a_list_that_changes_while_it_is_made_serves_everyone_something_no_older_than_they_asked(
    stand: Stand,
) -> None:
    for number in range(1000):
        await stand.register(f"{number:04}")
    early = asyncio.ensure_future(stand.get(b"zstd"))
    await asyncio.sleep(0)
    await stand.register("new")
    late = asyncio.ensure_future(stand.get(b"zstd"))
    counts = [len(json.loads(plain(await answer))["pools"]) for answer in (early, late)]
    assert counts[0] in (1000, 1001)
    assert counts[1] == 1001


async def test_a_failure_to_make_a_list_is_not_remembered(stand: Stand) -> None:
    class Failing(CountingExecutor):
        failing = True

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
            if self.failing:
                raise MemoryError
            return super().submit(fn, *args, **kwargs)

    with Failing(1) as executor:
        lists = Lists(stand.store, "pools", EPOCH, executor)
        await stand.register("q", size=OFF_LOOP_FROM)
        with pytest.raises(MemoryError):
            await lists.respond(scope([]))
        executor.failing = False
        assert (await lists.respond(scope([]))).status == 200


# ---------------------------------------------------------------------------------------------------------- tags


async def test_a_tag_is_strong_and_names_epoch_revision_and_coding(stand: Stand) -> None:
    await stand.register("p", size=2000)
    assert of(await stand.get(), b"etag") == f'"{EPOCH}-1-identity"'.encode()
    assert of(await stand.get(b"gzip"), b"etag") == f'"{EPOCH}-1-gzip"'.encode()
    assert of(await stand.get(b"zstd"), b"etag") == f'"{EPOCH}-1-zstd"'.encode()


async def test_tags_differ_by_whatever_the_body_differs_by(stand: Stand) -> None:
    await stand.register("p", size=2000)
    filters = [
        EVERYTHING,
        Filter(models=frozenset("m")),
        Filter(regions=frozenset("m")),
        Filter(site_ids=frozenset("m")),
    ]
    tags = [
        of(await stand.get(coding, where=where), b"etag") for where in filters for coding in (None, b"gzip", b"zstd")
    ]
    other = Lists(stand.store, "pools", "another epoch", stand.executor)
    tags.append(of(await other.respond(scope([])), b"etag"))
    await stand.register("p", "changed")
    tags.append(of(await stand.get(), b"etag"))
    stand.time = 0.9
    empty_filters = 2 * 2  # of these filters nothing is left, which is below a kibibyte and never compressed
    assert len(set(tags)) == len(tags) - empty_filters


@pytest.mark.parametrize("coding", [None, b"gzip", b"zstd"])
async def test_who_has_the_list_already_is_told_so_without_a_body(stand: Stand, coding: bytes | None) -> None:
    await stand.register("p", size=2000)
    full = await stand.get(coding)
    etag = of(full, b"etag")
    assert etag is not None
    for condition in (etag, b'"x", ' + etag, b"W/" + etag, b"*"):
        answer = await stand.get(coding, condition)
        assert (answer.status, answer.body) == (304, b"")
        assert (of(answer, b"etag"), of(answer, b"vary")) == (etag, b"accept-encoding")
        assert of(answer, b"content-encoding") is None


async def test_a_tag_of_another_coding_filter_or_revision_is_no_match(stand: Stand) -> None:
    await stand.register("p", size=2000)
    etag = of(await stand.get(b"gzip"), b"etag")
    where = Filter(models=frozenset({"m"}))
    assert (await stand.get(b"zstd", etag)).status == 200
    assert (await stand.get(b"gzip", etag, where)).status == 200
    await stand.register("q")
    assert (await stand.get(b"gzip", etag)).status == 200


async def test_a_renewal_leaves_the_tag_and_completeness_changes_it(stand: Stand) -> None:
    await stand.register("p")
    etag = of(await stand.get(), b"etag")
    for beat in range(1, 160):
        stand.time = beat * 0.1
        stand.clock.tick()
        await stand.register("p")
        assert ((await stand.get(None, etag)).status == 304) is (stand.time < 15.0)
    assert json.loads((await stand.get()).body)["complete"] is True


# ------------------------------------------------------------------------------------------------------- filters


async def test_a_filtered_list_holds_what_matches(stand: Stand) -> None:
    await stand.register("a", "m1", "eu")
    await stand.register("b", "m2", "us")
    await stand.register("c", None, "eu")

    async def names(where: Filter) -> list[str]:
        return [pool["key"]["dgd_name"] for pool in json.loads((await stand.get(where=where)).body)["pools"]]

    assert await names(EVERYTHING) == ["a", "b", "c"]
    assert await names(Filter(models=frozenset({"m1", "m2"}))) == ["a", "b"]
    assert await names(Filter(models=frozenset({"m1", "m2"}), regions=frozenset({"eu"}))) == ["a"]
    assert await names(Filter(site_ids=frozenset({"s"}), regions=frozenset({"us"}))) == ["b"]
    assert await names(Filter(models=frozenset({""}))) == []


async def test_a_filtered_list_is_made_once_too(stand: Stand) -> None:
    await stand.register("p", size=2000)
    for _ in range(10):
        await stand.get(b"gzip", where=Filter(models=frozenset({"m", "n"})))
        await stand.get(b"gzip", where=Filter(models=frozenset({"n", "m"})))
    assert stand.lists.encodings == {"identity": 1, "zstd": 0, "gzip": 1}


async def test_filters_that_callers_make_up_do_not_pile_up(stand: Stand) -> None:
    await stand.register("p")
    for number in range(10 * FILTERS_KEPT):
        await stand.get(where=Filter(models=frozenset({str(number)})))
    assert len(stand.lists._filtered) == FILTERS_KEPT
    await stand.get()
    assert stand.lists.encodings["identity"] == 10 * FILTERS_KEPT + 1


async def test_a_filter_that_is_asked_for_again_and_again_is_kept(stand: Stand) -> None:
    await stand.register("p")
    favourite = Filter(models=frozenset({"m"}))
    for number in range(3 * FILTERS_KEPT):
        await stand.get(where=favourite)
        await stand.get(where=Filter(models=frozenset({str(number)})))
    assert stand.lists.encodings["identity"] == 3 * FILTERS_KEPT + 1


def test_the_hash_of_a_filter_tells_filters_apart_and_not_the_order_of_values() -> None:
    filters = [
        EVERYTHING,
        Filter(models=frozenset()),
        Filter(models=frozenset({"a"})),
        Filter(regions=frozenset({"a"})),
        Filter(site_ids=frozenset({"a"})),
        Filter(models=frozenset({"a", "b"})),
        Filter(models=frozenset({"a,b"})),
        Filter(models=frozenset({"a"}), regions=frozenset({"b"})),
    ]
    hashes = [filter_hash(where) for where in filters]
    assert len(set(hashes)) == len(hashes)
    assert filter_hash(Filter(models=frozenset({"b", "a"}))) == filter_hash(Filter(models=frozenset({"a", "b"})))


# --------------------------------------------------------------------------------------------- before the first sync


class NotSynced:
    """A directory that has not heard from its source yet."""

    def view(self) -> tuple[int, Completeness]:
        raise Unavailable("no list yet", 2)

    def sources(self) -> tuple[Source, ...]:
        return ()

    @property
    def changes(self) -> Fanout[EncodedEvent]:
        return Fanout()

    def encoded(self, where: Filter = EVERYTHING) -> EncodedList:
        raise AssertionError("there is nothing to encode")


async def test_a_list_before_the_first_sync_is_refused(stand: Stand) -> None:
    lists = Lists(NotSynced(), "pools", EPOCH, stand.executor)
    for headers in ([], [(b"if-none-match", b"*")]):
        with pytest.raises(Unavailable):
            await lists.respond(scope(headers))
