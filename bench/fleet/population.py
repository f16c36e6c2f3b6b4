"""The pools of a run: how they come, change, fall silent and leave, at the rates of the plan."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from msgspec import Struct

from bench.fleet.ledger import GONE, Ledger
from bench.fleet.line import Dialer, Line, Reply
from bench.fleet.plan import Plan
from bench.fleet.pools import NAMESPACE, Pool, body
from bench.fleet.relays import Relay, Relays

RAMP_RATE: Final = 2000  # pools a second that register at first
TRIES: Final = 20  # to find a pool of which no beat is under way: nearly all, in a fleet that is served in time


class Due:
    """How often something that happens at a rate is due."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._owed = 0.0

    def after(self, seconds: float) -> int:
        """How often since it was asked last, `seconds` ago."""
        self._owed += self._rate * seconds
        due = int(self._owed)
        self._owed -= due
        return due


class PopulationCounts(Struct, frozen=True):
    """What happened: pools that came, left or changed, and deregistrations that were not answered 204 or 404."""

    registered: int
    deregistered: int
    changed: int
    refused: int


class Population:
    """Pools with their relays and connections. `advance` lets happen to them what the plan says."""

    def __init__(self, plan: Plan, ledger: Ledger, relays: Relays, dialer: Dialer, random: Random) -> None:
        self.changed = self.registered = self.deregistered = self.refused = 0
        self._plan = plan
        self._ledger = ledger
        self._relays = relays
        self._dialer = dialer
        self._random = random
        self._members: list[tuple[Pool, list[Relay]]] = []
        self._lines: list[Line] = []
        self._spare_lines: list[Line] = []
        self._numbers = 0
        self._leaving: list[tuple[Pool, list[Relay]]] = []
        self._acts: tuple[tuple[Due, Callable[[float], None]], ...] = (
            (Due(plan.changes), self._change),
            (Due(plan.turnover), self._turn_over),
            (Due(plan.pauses), self._pause),
            (Due(plan.deaths), self._die),
            (Due(plan.reconnects), self._reconnect),
        )

    def found(self, now: float) -> None:
        """Makes the pools of the plan; the first relay of each registers it soon."""
        for position in range(self._plan.pools):
            self._add(now + position / RAMP_RATE, now + self._plan.pools / RAMP_RATE)

    def known(self) -> int:
        """How many pools have been heard."""
        return sum(pool.is_known for pool, _ in self._members)

    def counted(self) -> PopulationCounts:
        """What happened so far."""
        return PopulationCounts(self.registered, self.deregistered, self.changed, self.refused)

    def advance(self, now: float, seconds: float) -> None:
        """Lets happen what is due after `seconds`."""
        for due, act in self._acts:
            for _ in range(due.after(seconds)):
                act(now)

    def tick(self, now: float) -> None:
        """Takes out those pools that are leaving and of which no beat is under way that would list them again."""
        waiting = self._leaving
        self._leaving = []
        for pool, relays in waiting:
            if pool.in_flight:
                self._leaving.append((pool, relays))
            else:
                self._deregister(pool, relays, now)

    def give_up(self, sent_before: float) -> None:
        """Ends connections on which an answer has been out since before then."""
        for line in self._lines:
            line.give_up(sent_before)

    def leave(self) -> None:
        """Every pool is taken out."""
        while self._members:
            self._take_leave(len(self._members) - 1)

    def is_leaving(self) -> bool:
        """Whether there are pools whose deregistration has not been answered."""
        return bool(self._leaving) or self.registered - self.deregistered - self.refused > len(self._members)

    # -- what happens

    def _change(self, now: float) -> None:
        for position in self._positions():
            pool, relays = self._members[position]
            ready = [relay for relay in relays if relay.line.is_ready]
            if pool.is_known and not pool.in_flight and ready:
                pool.change()
                relay = self._random.choice(ready)
                relay.brings = pool.version
                self._ledger.asked(pool, pool.version, now)
                self._relays.beat_now(relay, now)
                self.changed += 1
                return

    def _turn_over(self, now: float) -> None:
        for position in self._positions():
            if self._members[position][0].is_known:
                self._take_leave(position)
                pool, relays = self._add(now, now)
                relays[0].brings = pool.version
                self._ledger.asked(pool, pool.version, now)
                return

    def _pause(self, now: float) -> None:
        self._relays.beat_later(self._any_relay(), now + self._ledger.lease_secs * self._random.uniform(0.5, 2))

    def _die(self, now: float) -> None:
        relay = self._any_relay()
        if relay.line.is_ready:
            relay.line.abort()
            self._relays.beat_later(relay, now + self._ledger.lease_secs * self._random.uniform(1, 2))

    def _reconnect(self, now: float) -> None:
        relay = self._any_relay()
        if relay.line.is_ready:  # an answer that we cut off ourselves is nobody's fault
            relay.line.abort()
            self._relays.beat_later(relay, now)

    # -- members

    def _add(self, first_at: float, others_from: float) -> tuple[Pool, list[Relay]]:
        """A pool whose first relay beats at `first_at`, the others within an interval from `others_from`."""
        pool = Pool(self._numbers, self._request_of(self._numbers))
        self._numbers += 1
        relays = [Relay(pool, self._line(), first_at)]
        for _ in range(self._plan.relays - 1):
            due_at = max(first_at, others_from) + self._relays.interval_secs * self._random.random()
            relays.append(Relay(pool, self._line(), due_at))
        for relay in relays:
            self._relays.add(relay)
        self._ledger.pools[pool.name] = pool
        self._members.append((pool, relays))
        self.registered += 1
        return pool, relays

    def _take_leave(self, position: int) -> None:
        pool, relays = self._members[position]
        self._members[position] = self._members[-1]
        self._members.pop()
        pool.leaving = True
        for relay in relays:
            relay.dead = True
        self._leaving.append((pool, relays))

    def _deregister(self, pool: Pool, relays: list[Relay], now: float) -> None:
        def on_reply(reply: Reply) -> None:
            self._spare_lines += [relay.line for relay in relays]
            match reply.status:
                case 204:
                    self.deregistered += 1
                    self._ledger.settled(pool, GONE)
                case 404:  # its lease had ended
                    self.deregistered += 1
                    self._ledger.forget(pool)
                case _:
                    self.refused += 1

        self._ledger.asked(pool, GONE, now)
        relays[0].line.ask(self._request("DELETE", f"/pools/{self._ledger.site}/{NAMESPACE}/{pool.name}"), on_reply)

    def _line(self) -> Line:
        """A connection of its own, or a shared one above the bound."""
        if self._spare_lines:
            return self._spare_lines.pop()
        if len(self._lines) < self._plan.connections:
            self._lines.append(Line(self._dialer))
            return self._lines[-1]
        return self._random.choice(self._lines)

    def _any_relay(self) -> Relay:
        _, relays = self._random.choice(self._members)
        return self._random.choice(relays)

    def _positions(self) -> Iterator[int]:
        for _ in range(min(TRIES, TRIES * len(self._members))):
            yield self._random.randrange(len(self._members))

    # -- requests

    def _request_of(self, number: int) -> Callable[[int], bytes]:
        return lambda version: self._request("POST", "/pools", body(self._ledger.site, number, version))

    def _request(self, method: str, path: str, content: bytes = b"") -> bytes:
        return request_of(self._dialer.target.host_field, method, path, content)


def request_of(host_field: str, method: str, path: str, content: bytes = b"") -> bytes:
    """A whole request."""
    typed = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(content) if content else b""
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n%b" % (
        method.encode(),
        path.encode(),
        host_field.encode(),
        typed,
        content,
    )
