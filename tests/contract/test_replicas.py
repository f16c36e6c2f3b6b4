"""What every backend of router replicas promises to those who list, register and watch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest

from gdsvc.model import RouterReplica
from gdsvc.pool_discovery.directory import ReplicaDirectory
from gdsvc.pool_discovery.registrar import ReplicaRegistrar
from gdsvc.pool_discovery.watch import Completeness, Event, Removed, Resync, Upserted

LEASE_SECS = 15
PATIENCE_SECS = 10.0  # for what is to come at once
A, B, CHANGED = RouterReplica("a", "http://a"), RouterReplica("b", "http://[::1]:9000"), RouterReplica("a", "http://c")


class Stand(Protocol):
    """A backend, as the suite sees it."""

    @property
    def directory(self) -> ReplicaDirectory: ...
    @property
    def registrar(self) -> ReplicaRegistrar: ...
    async def pass_time(self, secs: float) -> None: ...
    async def settle(self) -> None: ...


Open = Callable[[], AbstractAsyncContextManager[Stand]]


async def next_event(watch: AsyncIterator[Event[RouterReplica, str]]) -> Event[RouterReplica, str]:
    async with asyncio.timeout(PATIENCE_SECS):
        return await anext(watch)


async def test_replicas_are_listed_by_id(open_replicas: Open) -> None:
    async with open_replicas() as stand:
        for replica in (B, A):
            assert await stand.registrar.register(replica) == stand.registrar.lease
        await stand.settle()
        assert list((await stand.directory.list()).items) == [A, B]


@pytest.mark.parametrize(("secs", "listed"), [(14.9375, [A]), (15.0, [])])
async def test_a_replica_lives_by_its_lease(open_replicas: Open, secs: float, listed: list[RouterReplica]) -> None:
    async with open_replicas() as stand:
        await stand.registrar.register(A, b"body")
        await stand.pass_time(10.0)
        if not await stand.registrar.renew(b"body"):
            await stand.registrar.register(A, b"body")
        await stand.pass_time(secs)
        assert list((await stand.directory.list()).items) == listed


async def test_a_watch_tells_what_is_new_what_changed_and_what_left_but_no_renewal(open_replicas: Open) -> None:
    async with open_replicas() as stand:
        await stand.registrar.register(A, b"body")
        await stand.settle()
        watch = stand.directory.list_and_watch()
        first = await next_event(watch)
        assert isinstance(first, Resync)
        assert list(first.snapshot.items) == [A]
        await stand.registrar.register(A, b"other bytes")
        await stand.registrar.register(B)
        await stand.registrar.register(CHANGED)
        assert await stand.registrar.deregister(B.id)
        assert not await stand.registrar.deregister(B.id)
        await stand.settle()
        assert [await next_event(watch) for _ in range(3)] == [Upserted(B), Upserted(CHANGED), Removed("b")]


async def test_becoming_complete_is_told_by_a_resync(open_replicas: Open) -> None:
    async with open_replicas() as stand:
        watch = stand.directory.list_and_watch()
        first = await next_event(watch)
        await stand.pass_time(LEASE_SECS)
        second = await next_event(watch)
        assert isinstance(first, Resync)
        assert isinstance(second, Resync)
        assert first.snapshot.completeness is Completeness.ESTIMATED
        assert second.snapshot.completeness is Completeness.EXACT
