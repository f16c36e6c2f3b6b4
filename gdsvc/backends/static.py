"""Router replicas that are given once and never change."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from gdsvc.model import RouterReplica
from gdsvc.pool_discovery.watch import Completeness, Event, Resync, Snapshot


class StaticReplicaDirectory:
    """ReplicaDirectory over the replicas it is made with: always Exact, one Resync and then silence."""

    def __init__(self, replicas: Iterable[RouterReplica]) -> None:
        self._snapshot = Snapshot(tuple(sorted(replicas)), Completeness.EXACT, 0)

    async def list(self) -> Snapshot[RouterReplica]:
        """The replicas, by id."""
        return self._snapshot

    async def list_and_watch(self) -> AsyncIterator[Event[RouterReplica, str]]:
        """A Resync; then nothing ever happens."""
        yield Resync(self._snapshot)
        await asyncio.get_running_loop().create_future()
