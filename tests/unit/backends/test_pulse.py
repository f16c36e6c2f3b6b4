"""The pulse, on a loop whose time jumps to whatever it waits for."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

import pytest

from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.backends.pulse import PAUSE_SECS, Pulse
from gdsvc.model import Lease, PoolKey, PoolRegistration
from gdsvc.pool_discovery.lease_clock import TICK_SECS, LeaseClock
from gdsvc.pool_discovery.watch import Completeness


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where asyncio would wait for a timer, time is over at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        loop = self

        class Selector(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> Any:
                assert timeout is not None, "nothing will ever happen"
                loop.now += timeout
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self.now

    def block(self, secs: float) -> None:
        """As a callback that does not return for `secs`."""
        self.now += secs


class Recorder:
    """A store that notes when it is advanced and says when to come back."""

    def __init__(self, loop: JumpingLoop, due_in: Callable[[], float] = lambda: inf) -> None:
        self._loop = loop
        self._due_in = due_in
        self.advanced_at: list[float] = []

    def advance(self) -> float:
        self.advanced_at.append(self._loop.now - 1000.0)
        return self._due_in()


def on(loop: JumpingLoop, scenario: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()


def test_an_idle_service_beats_ten_times_a_second() -> None:
    loop = JumpingLoop()
    store, other = Recorder(loop), Recorder(loop)

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [store, other]):
            await asyncio.sleep(1.05)

    on(loop, scenario())
    assert store.advanced_at == pytest.approx([beat * TICK_SECS for beat in range(11)])
    assert other.advanced_at == store.advanced_at


def test_the_first_beat_comes_at_once() -> None:
    loop = JumpingLoop()
    store = Recorder(loop)

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [store]):
            assert store.advanced_at == [0.0]

    on(loop, scenario())


def test_a_lease_that_ends_sooner_brings_the_next_beat_forward() -> None:
    loop = JumpingLoop()
    due = iter([0.03, inf, 5.0])
    store, other = Recorder(loop, lambda: next(due, inf)), Recorder(loop, lambda: 4.0)

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [other, store]):
            await asyncio.sleep(0.2)

    on(loop, scenario())
    assert store.advanced_at == pytest.approx([0.0, 0.031, 0.131])


def test_where_more_is_due_the_loop_gets_a_pause_between() -> None:
    loop = JumpingLoop()
    due = iter([0.0, 0.0, 0.0])
    store = Recorder(loop, lambda: next(due, inf))

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [store]):
            await asyncio.sleep(0.05)

    on(loop, scenario())
    assert store.advanced_at == pytest.approx([0.0, PAUSE_SECS, 2 * PAUSE_SECS, 3 * PAUSE_SECS])


def test_nothing_beats_any_more_once_the_block_is_left() -> None:
    loop = JumpingLoop()
    store = Recorder(loop)

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [store]):
            await asyncio.sleep(0.25)
        beats = len(store.advanced_at)
        await asyncio.sleep(10)
        assert len(store.advanced_at) == beats

    on(loop, scenario())


def test_an_error_in_a_store_is_reported_and_the_pulse_goes_on() -> None:
    loop = JumpingLoop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    beats = 0

    def fails_once() -> float:
        nonlocal beats
        beats += 1
        if beats == 2:
            raise RuntimeError("broken")
        return inf

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [Recorder(loop, fails_once)]):
            await asyncio.sleep(1.05)

    on(loop, scenario())
    assert beats == 11
    assert [str(context["exception"]) for context in reported] == ["broken"]


def test_a_store_that_always_fails_does_not_keep_the_others_from_advancing() -> None:
    loop = JumpingLoop()
    loop.set_exception_handler(lambda _, context: None)

    def fails() -> float:
        if loop.now > 1000.05:
            raise RuntimeError("broken")
        return inf

    other = Recorder(loop)

    async def scenario() -> None:
        async with Pulse(LeaseClock(15, loop.time), [Recorder(loop, fails), other]):
            await asyncio.sleep(1.05)

    on(loop, scenario())
    assert len(other.advanced_at) == 11


def test_the_pulse_ends_leases_within_a_few_milliseconds_and_completes_the_list() -> None:
    loop = JumpingLoop()
    clock = LeaseClock(15, loop.time)
    store = MemoryPoolStore(Lease(5, 15), clock, "2026-01-01T00:00:00.000Z")

    async def scenario() -> None:
        async with Pulse(clock, [store]):
            await store.register(PoolRegistration(PoolKey("s", "n", "p")), b"body")
            await asyncio.sleep(10.0)
            await store.renew(b"body")
            await asyncio.sleep(14.999)
            assert len(store.index) == 1
            await asyncio.sleep(0.003)
            assert len(store.index) == 0
            assert store.completeness is Completeness.EXACT

    on(loop, scenario())


def test_a_blocked_loop_expires_nobody_though_its_timers_run_before_its_requests() -> None:
    loop = JumpingLoop()
    clock = LeaseClock(15, loop.time)
    store = MemoryPoolStore(Lease(5, 15), clock, "2026-01-01T00:00:00.000Z")

    async def scenario() -> None:
        async with Pulse(clock, [store]):
            await asyncio.sleep(60.0)
            for number in range(100):
                await store.register(PoolRegistration(PoolKey("s", "n", str(number))), b"%d" % number)
            await asyncio.sleep(4.0)
            loop.block(20.0)
            await asyncio.sleep(0.5)  # beats have come and gone, and not one heartbeat yet
            assert len(store.index) == 100
            assert all([await store.renew(b"%d" % number) for number in range(100)])
            await asyncio.sleep(14.9)
            assert len(store.index) == 100
            await asyncio.sleep(0.2)
            assert len(store.index) == 0

    on(loop, scenario())
    assert (clock.stalls, store.index.expired) == (1, 100)
