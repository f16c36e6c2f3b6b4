"""Relays that heartbeat in threads through several replicas, and what each replica's watch tells meanwhile.

All instants are of time.monotonic: what was answered and what was told can be compared.
"""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from tests.e2e.process import Service
from tests.e2e.watcher import Watcher
from tests.e2e.wire import PATIENCE, Connection, pool


class Answer(NamedTuple):
    """What a heartbeat was told; `retry_after` is the header."""

    sent_at: float
    answered_at: float
    status: int
    retry_after: str | None


class Relay:
    """Heartbeats of one pool, each through the next replica."""

    def __init__(self, name: str, ports: Sequence[int], every_secs: float, first: int) -> None:
        self.name = name
        self.answers: list[Answer] = []
        self._ports = ports
        self._every_secs = every_secs
        self._first = first
        self._last: int | None = None
        self._stop = threading.Event()
        self._ended: Future[Answer] = Future()

    def end_through(self, replica: int) -> Answer:
        """Its last heartbeat, which is answered 200 by that replica: from then on the pool is silent."""
        self._last = replica
        self._stop.set()
        return self._ended.result(PATIENCE)

    def leave(self) -> None:
        """Ends at once."""
        self._stop.set()

    def written_before(self, at: float) -> Answer:
        """The last heartbeat that was answered 200 by then."""
        return next(answer for answer in reversed(self.answers) if answer.status == 200 and answer.answered_at <= at)

    def run(self) -> None:
        """Until told to end."""
        with ExitStack() as stack:
            links = [stack.enter_context(Connection(port)) for port in self._ports]
            for turn in itertools.count(self._first):
                if self._stop.is_set():
                    break
                self._beat(links[turn % len(links)])
                self._stop.wait(self._every_secs)
            if self._last is not None:
                deadline = time.monotonic() + PATIENCE
                while self._beat(links[self._last]).status != 200:
                    assert time.monotonic() < deadline, self.answers[-1]
                    time.sleep(self._every_secs)  # the pace of a relay
                self._ended.set_result(self.answers[-1])

    def _beat(self, link: Connection) -> Answer:
        sent_at = time.monotonic()
        reply = link.post("/pools", pool(self.name))
        answer = Answer(sent_at, time.monotonic(), reply.status, reply.header("retry-after"))
        self.answers.append(answer)
        return answer


@contextmanager
def beating(names: Sequence[str], replicas: Sequence[Service], every_secs: float) -> Iterator[dict[str, Relay]]:
    """A relay for each pool, until left; whatever went wrong in one is raised then."""
    ports = [replica.port for replica in replicas]
    relays = {name: Relay(name, ports, every_secs, number) for number, name in enumerate(names)}
    with ThreadPoolExecutor(len(relays)) as threads:
        running = [threads.submit(relay.run) for relay in relays.values()]
        try:
            yield relays
        finally:
            for relay in relays.values():
                relay.leave()
            for each in running:
                each.result(2 * PATIENCE)


class View:
    """What one replica has told: who came, who left and when, and since when it is complete or not."""

    def __init__(self) -> None:
        self.listed: set[str] = set()
        self.came: list[tuple[str, float]] = []
        self.left: list[tuple[str, float]] = []
        self.complete: list[tuple[bool, float]] = []

    def told(self, event: str, document: Any, at: float) -> None:
        """Takes one event in."""
        match event:
            case "upserted":
                self._list(self.listed | {document["key"]["dgd_name"]}, at)
            case "removed":
                self._list(self.listed - {document["key"]["dgd_name"]}, at)
            case _:
                self._list({item["key"]["dgd_name"] for item in document["pools"]}, at)
                if not self.complete or self.complete[-1][0] != document["complete"]:
                    self.complete.append((document["complete"], at))

    def left_at(self, name: str) -> float:
        """When it left; fails where it did not, or more than once."""
        (at,) = (at for who, at in self.left if who == name)
        return at

    def _list(self, listed: set[str], at: float) -> None:
        self.came += [(name, at) for name in sorted(listed - self.listed)]
        self.left += [(name, at) for name in sorted(self.listed - listed)]
        self.listed = listed


@contextmanager
def watched(replicas: Sequence[Service]) -> Iterator[list[View]]:
    """The view of each, kept up to date until left."""
    views = [View() for _ in replicas]
    with ExitStack() as stack:
        watchers = [stack.enter_context(Watcher(replica.port)) for replica in replicas]
        threads = [threading.Thread(target=_follow, args=each) for each in zip(watchers, views, strict=True)]
        for thread in threads:
            thread.start()
        try:
            yield views
        finally:
            for replica_watcher, thread in zip(watchers, threads, strict=True):
                replica_watcher.leave()
                thread.join(PATIENCE)


def _follow(watcher: Watcher, view: View) -> None:
    going_on = True
    while going_on:
        for event in watcher.events:
            view.told(event.name, event.json(), time.monotonic())
        watcher.events.clear()
        going_on = watcher.receive()


def left_early(
    view: View, relays: Mapping[str, Relay], lease_secs: float, away: tuple[float, float] = (0.0, 0.0)
) -> list[tuple[str, float]]:
    """Who left though a heartbeat less than a lease before had been answered 200, and how long before.

    Between the two instants `away` no lease ages.
    """
    aged = [(name, _aged(relays[name].written_before(at).sent_at, at, away)) for name, at in view.left]
    return [(name, secs) for name, secs in aged if secs < lease_secs]


def _aged(since: float, at: float, away: tuple[float, float]) -> float:
    return at - since - max(0.0, min(at, away[1]) - max(since, away[0]))
