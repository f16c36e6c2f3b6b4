"""Figures of calls in one process. Each is measured by a fresh child, `python -m bench.in_process SUBJECT COUNT`.

Times are CPU time of the child, so that who else runs on the machine matters less.
"""

import asyncio
import gc
import heapq
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import process_time
from typing import TypeVar

import msgspec

from bench import compiled, payloads
from bench.effort import Effort
from bench.processes import Cores, output_of
from bench.reference import slow_registry
from gdsvc import model
from gdsvc._lease_heap import LeaseEntry, LeaseHeap
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.model import Lease, PoolListing
from gdsvc.pool_discovery.lease_clock import LeaseClock

TTL = 15.0
HEARTBEAT = 5.0
BODIES_A_TICK = 1_000  # some 20 ms of them; a service ticks every 100 ms
REBUILDS = 20
PASSES = 7  # over all leases, each a few milliseconds: the least is free of whatever else the machine did meanwhile

T = TypeVar("T")
Subject = Callable[[int], float]


class Registry:
    """A memory store with the default lease of a service, driven as the service drives it."""

    def __init__(self) -> None:
        self._clock = LeaseClock(TTL)
        self.store = MemoryPoolStore(Lease(int(HEARTBEAT), int(TTL)), self._clock, "2025-01-01T00:00:00.000Z")

    async def post_all(self, bodies: Iterable[bytes]) -> None:
        """What the handler of POST /pools does with each body."""
        store = self.store
        for number, body in enumerate(bodies):
            if number % BODIES_A_TICK == 0:
                self._clock.tick()  # a clock without ticks takes its loop for stalled and goes back
            if not await store.renew(body):
                await store.register(model.decode_registration(body), body)


def _register(pools: int) -> float:
    """Microseconds a body, all of them distinct."""
    bodies = list(payloads.fleet(pools))

    async def run() -> float:
        registry = Registry()
        began = process_time()
        await registry.post_all(bodies)
        return process_time() - began

    return asyncio.run(run()) / pools * 1e6


def _register_reference(pools: int) -> float:
    """Microseconds a body, all of them distinct."""
    bodies = list(payloads.fleet(pools))
    registry, beat = slow_registry(TTL), _heartbeat(0.0, pools)
    began = process_time()
    for body, now in zip(bodies, beat, strict=True):
        registry.register(body, now)
    return (process_time() - began) / pools * 1e6


def _memory(pools: int) -> float:
    """Resident bytes a pool, with everything that registering leaves behind."""

    async def run() -> int:
        await Registry().post_all([payloads.SMALL])  # what is loaded or made at first use is no cost of a pool
        gc.collect()
        before = _resident_bytes()
        registry = Registry()
        await registry.post_all(map(payloads.large, range(pools)))
        gc.collect()
        return _resident_bytes() - before

    return asyncio.run(run()) / pools


def _payload(_pools: int) -> float:
    return float(payloads.LARGE_BYTES)


def _lease(leases: int) -> float:
    """Nanoseconds a renewal, over the best of PASSES heartbeats; pools beat in the same order every time."""
    renew_all = compiled.load("lease_loop").renew_all
    entries, heap, step = [LeaseEntry(number) for number in range(leases)], LeaseHeap(), HEARTBEAT / leases
    renew_all(heap, entries, 0.0, step, TTL)

    def beat(number: int) -> None:
        renew_all(heap, entries, HEARTBEAT * number, step, TTL)

    return min(_seconds(beat, number) for number in range(1, 1 + PASSES)) / leases * 1e9


def _lease_called(leases: int) -> float:
    """The same, each renewal called from Python."""
    entries = [LeaseEntry(number) for number in range(leases)]
    renew = LeaseHeap().renew

    def renew_all(beat: list[float]) -> None:
        for entry, now in zip(entries, beat, strict=True):
            renew(entry, now, TTL)

    renew_all(_heartbeat(0.0, leases))
    beats = [_heartbeat(HEARTBEAT * number, leases) for number in range(1, 1 + PASSES)]
    return min(_seconds(renew_all, beat) for beat in beats) / leases * 1e9


def _lease_pushed(leases: int, *, popped: bool = False) -> float:
    """Nanoseconds a renewal where a heap keeps the entry that a renewal makes stale; `popped`: until it is due."""
    keys = [(f"site-{number % 17}", "dynamo", f"pool-{number}") for number in range(leases)]
    full = list(zip(_heartbeat(TTL, leases), keys, strict=True))
    beat, push, pop = _heartbeat(HEARTBEAT, leases), heapq.heappush, heapq.heappop

    def renew_all(heap: list[tuple[float, tuple[str, str, str]]]) -> None:
        for key, now in zip(keys, beat, strict=True):
            push(heap, (now + TTL, key))
        if popped:
            for _ in range(leases):
                pop(heap)

    return min(_seconds(renew_all, full.copy()) for _ in range(PASSES)) / leases * 1e9


def _lease_popped(leases: int) -> float:
    return _lease_pushed(leases, popped=True)


def _lease_reference(leases: int) -> float:
    """Nanoseconds a renewal by what the reference has for it: the whole of `register`."""
    bodies = list(payloads.fleet(leases))
    registry = slow_registry(TTL)
    for body, now in zip(bodies, _heartbeat(0.0, leases), strict=True):
        registry.register(body, now)
    beat = _heartbeat(HEARTBEAT, leases)
    began = process_time()
    for body, now in zip(bodies, beat, strict=True):
        registry.register(body, now)
    return (process_time() - began) / leases * 1e9


def _rebuild(pools: int) -> float:
    """Microseconds from a decoded change to the bytes of the list, the least of REBUILDS."""

    async def run() -> float:
        registry = Registry()
        await registry.post_all(payloads.fleet(pools))
        await registry.post_all(payloads.changing(REBUILDS, 1))  # so that what is timed is a change, not a new pool
        store, least = registry.store, float("inf")
        store.encoded().join(b"", b"")
        for number in range(REBUILDS):
            changed = model.decode_registration(payloads.large(number, 999))
            began = process_time()
            await store.register(changed)
            store.encoded().join(b'{"complete":true,"pools":[', b"]}")
            least = min(least, process_time() - began)
        return least * 1e6

    return asyncio.run(run())


def _rebuild_msgspec(pools: int) -> float:
    """Microseconds to encode the same listings from their Structs, the least of REBUILDS."""
    bodies = [*payloads.fleet(pools), *payloads.changing(REBUILDS, 1)]
    listings: list[PoolListing] = [model.listing_of(model.decode_registration(body)) for body in bodies]
    encoder, least = msgspec.json.Encoder(), float("inf")
    for _ in range(REBUILDS):
        began = process_time()
        encoder.encode({"complete": True, "pools": listings})
        least = min(least, process_time() - began)
    return least * 1e6


def _seconds(work: Callable[[T], None], subject: T) -> float:
    """CPU seconds of one call."""
    began = process_time()
    work(subject)
    return process_time() - began


def _heartbeat(began_at: float, leases: int) -> list[float]:
    """The instants at which `leases` leases are renewed, evenly over one heartbeat, each in its turn."""
    return [began_at + HEARTBEAT * number / leases for number in range(leases)]


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# scenario -> contestant of its figures -> subject
SUBJECTS: Mapping[str, Mapping[str, Subject]] = {
    "register": {"gdsvc": _register, "slow reference": _register_reference},
    "memory": {"gdsvc": _memory, "payload": _payload},
    "lease": {
        "LeaseHeap": _lease,
        "LeaseHeap, called from Python": _lease_called,
        "heapq push": _lease_pushed,
        "heapq push and its later pop": _lease_popped,
        "slow reference, all of register": _lease_reference,
    },
    "rebuild": {"gdsvc": _rebuild, "msgspec, all anew": _rebuild_msgspec},
}
POOLS: Mapping[str, int] = {"register": 100_000, "memory": 100_000, "lease": 100_000, "rebuild": 10_000}
MORE_RUNS: Mapping[str, int] = {"rebuild": 4}  # as many, of half a second each, since they differ most by process


def visit(
    scenario: str, wanted: frozenset[str], cores: Cores, effort: Effort, number: int
) -> Iterator[tuple[str, float]]:
    """What fresh children tell of each contestant that is `wanted`, at visit `number`. Raises ChildFailed."""
    pools = max(1, int(POOLS[scenario] * effort.share))
    for _ in range(effort.runs_at(number, MORE_RUNS.get(scenario, 1))):
        for label in SUBJECTS[scenario]:
            if label in wanted:
                command = [sys.executable, "-m", "bench.in_process", f"{scenario}/{label}", str(pools)]
                yield label, float(output_of(command, cores.server))


def main(argv: list[str]) -> None:
    """The child: prints one number."""
    scenario, _, label = argv[0].partition("/")
    print(SUBJECTS[scenario][label](int(argv[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
