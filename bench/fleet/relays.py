"""The relays of a fleet: who beats when, and what came of it. One tick after another; nothing here waits."""

from heapq import heappop, heappush
from random import Random
from typing import Final

from msgspec import Struct

from bench.fleet.latencies import Latencies
from bench.fleet.ledger import Ledger
from bench.fleet.line import Line, Reply
from bench.fleet.plan import Plan
from bench.fleet.pools import Pool

LATE_SECS: Final = 0.5  # behind its time, a beat counts as sent late: the generator is too slow


class Relay:
    """One relay of a pool: it beats next at `due_at`, and `brings` a change. A dead one has left its pool for good."""

    __slots__ = ("awaiting", "brings", "dead", "due_at", "line", "pool")

    def __init__(self, pool: Pool, line: Line, due_at: float) -> None:
        self.pool = pool
        self.line = line
        self.due_at = due_at
        self.brings: int | None = None
        self.awaiting = False
        self.dead = False


class Schedule:
    """Relays by when they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Relay]] = []
        self._pushed = 0

    def push(self, relay: Relay) -> None:
        """Takes a relay in, or again with another `due_at`: the earlier entry is then void."""
        self._pushed += 1
        heappush(self._heap, (relay.due_at, self._pushed, relay))

    def pop(self, now: float) -> Relay | None:
        """The next relay that is due at `now`."""
        while self._heap and self._heap[0][0] <= now:
            due_at, _, relay = heappop(self._heap)
            if due_at == relay.due_at and not relay.dead:
                return relay
        return None


class RelayCounts(Struct, frozen=True):
    """What came of all beats: `late`, sent LATE_SECS behind time; `unanswered`, no 200 within an interval."""

    sent: int
    answered: int
    late: int
    unanswered: int
    first_fault: str
    latencies: Latencies


class Relays:
    """All relays. `beat_due(now)` sends what is due; the counters are of the whole fleet."""

    def __init__(self, plan: Plan, ledger: Ledger, interval_secs: float, random: Random) -> None:
        self.interval_secs = interval_secs
        self.start_anew()
        self._jitter = plan.jitter
        self._ledger = ledger
        self._random = random
        self._schedule = Schedule()

    def start_anew(self) -> None:
        """Counts from here on."""
        self.latencies = Latencies()
        self.sent = self.answered = self.late = self.unanswered = 0
        self.first_fault = ""

    def counted(self) -> RelayCounts:
        """What was counted."""
        return RelayCounts(self.sent, self.answered, self.late, self.unanswered, self.first_fault, self.latencies)

    def add(self, relay: Relay) -> None:
        """A relay that beats for the first time at its `due_at`."""
        self._schedule.push(relay)

    def beat_due(self, now: float) -> None:
        """Sends every beat that is due; each relay is due again an interval later, more or less."""
        while (relay := self._schedule.pop(now)) is not None:
            if now - relay.due_at > LATE_SECS:
                self.late += 1
            self.beat_later(relay, max(relay.due_at + self._spacing(relay), now))
            if relay.awaiting:
                self._missed(f"no answer within {self.interval_secs:g} s")
            else:
                self._beat(relay, now)

    def beat_now(self, relay: Relay, now: float) -> None:
        """Sends a beat that is not due yet, in place of the next."""
        self.beat_later(relay, now + self._spacing(relay))
        self._beat(relay, now)

    def beat_later(self, relay: Relay, due_at: float) -> None:
        """Moves the next beat of a relay."""
        relay.due_at = due_at
        self._schedule.push(relay)

    def _spacing(self, relay: Relay) -> float:
        """Seconds to the beat after this one; pools that register one after another do not stay in step."""
        if not relay.pool.is_known:
            return self.interval_secs * self._random.uniform(0.1, 1)
        return self.interval_secs * self._random.uniform(1 - self._jitter, 1 + self._jitter)

    def _beat(self, relay: Relay, now: float) -> None:
        pool, version = relay.pool, relay.brings

        def on_reply(reply: Reply) -> None:
            relay.awaiting = False
            self._replied(pool, now, reply)
            if reply.status == 200 and version is not None:
                self._ledger.settled(pool, version)

        relay.awaiting, relay.brings = True, None
        pool.asked(now)
        self.sent += 1
        relay.line.ask(pool.request, on_reply)

    def _replied(self, pool: Pool, asked_at: float, reply: Reply) -> None:
        if reply.status == 200:
            self.answered += 1
            self._ledger.answered(pool, asked_at, reply.sent_at)
            self.latencies.add(reply.received_at - reply.sent_at)
            return
        pool.unanswered(asked_at)
        lost = "the connection was lost or refused"
        self._missed(f"answered {reply.status}: {reply.body[:200]!r}" if reply.status else lost)

    def _missed(self, why: str) -> None:
        self.unanswered += 1
        self.first_fault = self.first_fault or why
