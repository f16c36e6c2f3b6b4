"""StaticReplicaDirectory: what it was given, sorted, exact, and then silence."""

import asyncio

import pytest

from gdsvc.backends.static import StaticReplicaDirectory
from gdsvc.model import RouterReplica
from gdsvc.pool_discovery.watch import Completeness, Resync, Snapshot

A, B = RouterReplica("a", "http://a"), RouterReplica("b", "http://b")
EXPECTED = Snapshot((A, B), Completeness.EXACT, 0)


async def test_the_list_is_what_was_given_by_id_and_exact() -> None:
    assert await StaticReplicaDirectory(iter([B, A])).list() == EXPECTED


async def test_a_watch_is_one_resync_and_then_nothing() -> None:
    watch = StaticReplicaDirectory([B, A]).list_and_watch()
    assert await anext(watch) == Resync(EXPECTED)
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_no_replica_at_all_is_a_list_too() -> None:
    assert await StaticReplicaDirectory([]).list() == Snapshot((), Completeness.EXACT, 0)
