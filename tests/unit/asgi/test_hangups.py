"""Callers that hang up on connections which nobody reads from: who is told of, who is not, and what is held for it."""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
import structlog

from gdsvc import logs
from gdsvc.asgi import hangups
from gdsvc.asgi.connections import RESET, descriptors, peer_of
from gdsvc.asgi.hangups import Hangups, Search
from tests.upstream.scripted import PATIENCE, nothing_left

pytestmark = pytest.mark.loops("uvloop")

HERE, THERE = ("10.0.0.1", 40001), ("10.0.0.2", 40002)


class Line:
    """A connection of which this end is never read, with a word behind the request, and who is at the other end."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as listener:
            self.caller = socket.create_connection(listener.getsockname()[:2])
            self.accepted, _ = listener.accept()
        self.caller.sendall(b"more")
        host, port = self.accepted.getpeername()[:2]
        self.client = (host, str(port))

    def reset(self) -> None:
        self.caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.caller.close()

    def close(self) -> None:
        self.caller.close()
        self.accepted.close()


class Told:
    """Hangups, and of whom they have told."""

    def __init__(self, shown: Callable[[], list[int]] = descriptors) -> None:
        self.lines: list[Line] = []
        self._more = asyncio.Event()
        self.hangups = Hangups[Line](self._tell, shown)

    async def count(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.lines) < count:
                self._more.clear()
                await self._more.wait()

    def _tell(self, line: Line) -> None:
        self.lines.append(line)
        self._more.set()


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    lines = [Line(), Line("::1"), Line()]
    yield lines
    for line in lines:
        line.close()


async def test_who_hangs_up_before_or_after_it_was_found_is_told_of_once(lines: list[Line]) -> None:
    async with nothing_left():
        told = Told()
        for line in lines:
            told.hangups.watch(line)
        reset, ended, closed = lines
        reset.reset()
        await told.count(1)
        ended.caller.shutdown(socket.SHUT_WR)
        await told.count(2)
        closed.reset()
        await told.count(3)
        assert told.lines == lines


async def test_who_is_forgotten_is_not_told_of_and_nothing_is_held_for_nobody(lines: list[Line]) -> None:
    async with nothing_left():
        told = Told()
        first, second, third = lines
        for line in lines:
            told.hangups.watch(line)
        told.hangups.forget(first)  # before the search
        second.reset()
        await told.count(1)
        told.hangups.forget(third)  # found by it
        for line in (first, third):
            line.reset()
        await asyncio.sleep(0)
        assert told.lines == [second]


async def test_a_descriptor_that_another_connection_has_got_tells_of_its_new_caller_alone(lines: list[Line]) -> None:
    told = Told()
    old, new, probe = lines
    told.hangups.watch(old)
    told.hangups.watch(probe)
    probe.reset()
    await told.count(1)
    descriptor = old.accepted.fileno()
    with new.accepted:
        os.dup2(new.accepted.fileno(), descriptor)
    told.hangups.forget(old)
    told.hangups.watch(new)
    new.reset()
    await told.count(2)
    assert told.lines == [probe, new]


async def test_where_descriptors_are_not_shown_nobody_is_told_of_and_that_is_said_once(
    lines: list[Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Queue[None]()
    monkeypatch.setattr(hangups, "log", logs.get("a new one"))  # one that was used keeps the outlet that it had then

    def hidden() -> list[int]:
        tried.put_nowait(None)
        raise FileNotFoundError(errno.ENOENT, "no /proc")

    told = Told(hidden)
    with structlog.testing.capture_logs() as captured:
        for line in lines[:2]:
            told.hangups.watch(line)
            line.reset()
            async with asyncio.timeout(PATIENCE):
                await tried.get()
    said = [entry["event"] for entry in captured]  # by whatever runs in this process
    assert [event for event in said if event.startswith("hangups.")] == ["hangups.unseen"]
    assert told.lines == []


def test_who_has_two_connections_is_at_neither() -> None:
    search = Search({HERE: "here", THERE: "there"})
    for descriptor, address in ((5, HERE), (6, THERE), (7, HERE)):
        search.saw(descriptor, address)
    assert search.ended() == ([(6, "there")], [])


@pytest.mark.parametrize(("resets", "gone"), [(0, []), (1, []), (2, ["here", "there"])])
def test_who_is_nowhere_has_left_only_where_as_many_connections_were_reset(resets: int, gone: list[str]) -> None:
    search = Search({HERE: "here", THERE: "there"})
    for descriptor in range(resets):
        search.saw(descriptor, RESET)
    assert search.ended() == ([], gone)


def test_only_connections_have_a_peer() -> None:
    near, far = socket.socketpair()
    with near, far, socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as udp:
        assert [peer_of(each.fileno()) for each in (near, listener, udp)] == [None, None, None]
    assert peer_of(1 << 20) is None
