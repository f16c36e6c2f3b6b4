"""Whether the lists of replicas are right, by nothing but what the callers measured. Holds no clock, does no I/O.

A pool is judged by its own heartbeats: where they were answered too late for it to be alive for certain, or too early
for it to be gone for certain, nothing is asked of its place in a list. So a slow machine makes the judge silent, not
wrong; `counts` says how much was judged, and a test must ask for enough of it.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from math import inf
from typing import NamedTuple

FAULTS_KEPT = 20
GIVEN_UP_SECS = 0.25  # a call to the store is given up and repeated after so long, or later


class Limits(NamedTuple):
    """What the service promises: seconds of a lease, and of two readings of the store."""

    lease_secs: float
    two_polls_secs: float


class Asked(NamedTuple):
    """A list was asked for at `sent_at` and was there at `got_at`; `spare_secs` is what round trips take lately."""

    sent_at: float
    got_at: float
    spare_secs: float

    def surely_after(self, instant: float) -> bool:
        """Whether the list was made after `instant`, as far as this side can tell."""
        return self.sent_at >= instant + self.spare_secs


class Absent(Enum):
    """Why a pool may be in no list."""

    DEREGISTERED = auto()  # in none of a replica that is up for two polls
    STOPPED = auto()  # in none of one that is up for a lease and two polls


class Pool:
    """What the relay of a pool measured. `model` is what it registered last."""

    def __init__(self, name: str, model: str) -> None:
        self.name = name
        self.model = model
        self._model_since = inf
        self._alive_since = inf
        self._last_sent_at = -inf
        self._stopped_at = inf
        self._deregistered_at = inf

    def sending(self, model: str) -> None:
        """A heartbeat is on its way. It may be taken even where its answer is lost, or says that it was not."""
        self._stopped_at = self._deregistered_at = inf
        if model != self.model:
            self._model_since = inf

    def answered(self, sent_at: float, answered_at: float, model: str, lease_secs: float) -> None:
        """It was taken. Between one that was sent and the next one's answer a lease may have ended."""
        if answered_at - self._last_sent_at > lease_secs:
            self._alive_since = answered_at
        if self._model_since == inf:
            self.model, self._model_since = model, answered_at
        self._last_sent_at = sent_at

    def alive_until(self, lease_secs: float) -> float:
        """Until when it is alive for certain, unless another heartbeat is taken."""
        return self._last_sent_at + lease_secs

    def stopped(self, at: float) -> None:
        """Its last heartbeat had ended by then, and no more come."""
        self._stopped_at = at

    def deregistering(self) -> None:
        """A DELETE is on its way: from now on the pool may be listed or not."""
        self._last_sent_at = -inf

    def deregistered(self, at: float) -> None:
        """The DELETE was answered."""
        self._deregistered_at = at

    def gone_since(self, asked: Asked) -> str:
        """For a fault."""
        return f"{asked.sent_at - min(self._stopped_at, self._deregistered_at):.2f} s ago"

    def expected(self, asked: Asked, limits: Limits) -> "str | Absent | None":
        """The model that must be listed, or why nothing may be; None where either is right.

        A lease ends by a reading that began after its end and found nothing new. So no pool whose heartbeats were never
        a lease apart may be missing; and one that stopped is gone after a reading to see its last heartbeat, a lease,
        and a reading to end it.
        """
        if asked.surely_after(self._deregistered_at + limits.two_polls_secs):
            return Absent.DEREGISTERED
        if asked.surely_after(self._stopped_at + limits.lease_secs + limits.two_polls_secs):
            return Absent.STOPPED
        alive = asked.got_at <= self.alive_until(limits.lease_secs)
        known = asked.surely_after(max(self._alive_since, self._model_since) + limits.two_polls_secs)
        return self.model if alive and known else None


class RoundTrips:
    """The slowest round trip of the last `kept_secs`; `reading_secs` is how long one reading of the store may take."""

    def __init__(self, kept_secs: float, reading_secs: float) -> None:
        self._kept_secs = kept_secs
        self._reading_secs = reading_secs
        self._slowest: deque[tuple[float, float]] = deque()  # each slower than those behind it

    def took(self, secs: float, now: float) -> None:
        while self._slowest and self._slowest[-1][1] <= secs:
            self._slowest.pop()
        self._slowest.append((now, secs))

    def spare_secs(self, now: float) -> float:
        """What the two readings of a bound may take: as long as a call took, or where that was given up, any time."""
        while self._slowest and self._slowest[0][0] < now - self._kept_secs:
            self._slowest.popleft()
        slowest = self._slowest[0][1] if self._slowest else 0.0
        return 2 * (slowest if slowest < GIVEN_UP_SECS else slowest + self._reading_secs)


class List(NamedTuple):
    """What a replica answered. `up_secs`: for how long it had been ready, and reading the store, when it was asked."""

    replica: str
    up_secs: float
    asked: Asked
    complete: bool
    models: Mapping[str, str]
    body: bytes

    @property
    def told(self) -> str:
        """For a fault."""
        asked = self.asked
        return f"{self.replica} (up {self.up_secs:.1f} s, asked at {asked.sent_at:.2f}, spare {asked.spare_secs:.2f} s)"


class Judge:
    """`faults` is what no list may show; `counts` by what was judged, and for lists by the replica too.

    `spares`: by how many seconds the bounds of each list were wider, for slow round trips.
    """

    def __init__(self, limits: Limits, pools: Iterable[Pool]) -> None:
        self._limits = limits
        self._pools = list(pools)
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self.spares: list[float] = []

    def hear(self, lists: Sequence[List]) -> None:
        """Lists that were asked for at one time."""
        self.spares += [each.asked.spare_secs for each in lists]
        for each in lists:
            self._hear(each)
        judged = [each for each in lists if self.settled(each)]
        if len(judged) > 1:
            self.counts["rounds in which all had settled"] += 1
            if len({each.body for each in judged}) > 1:
                self._fault(f"lists of {', '.join(each.replica for each in judged)} differ")

    def grown(self, each: List) -> bool:
        """Whether its replica is up for long enough to have ended what stopped before it was."""
        return each.up_secs >= self._limits.lease_secs + self._limits.two_polls_secs + each.asked.spare_secs

    def settled(self, each: List) -> bool:
        """Whether it is known of every pool whether the list has to show it."""
        certain = (pool.expected(each.asked, self._limits) is not None for pool in self._pools)
        return self.grown(each) and each.complete and all(certain)

    def _hear(self, each: List) -> None:
        grown = self.grown(each)
        polled = each.up_secs >= self._limits.two_polls_secs + each.asked.spare_secs
        for pool in self._pools:
            expected = pool.expected(each.asked, self._limits)
            listed = each.models.get(pool.name)
            if (expected is Absent.DEREGISTERED and polled) or (expected is Absent.STOPPED and grown):
                self.counts[expected.name] += 1
                if listed is not None:
                    self._fault(
                        f"{pool.name} is listed by {each.told}, though {expected.name} {pool.gone_since(each.asked)}"
                    )
            elif isinstance(expected, str) and each.complete:
                self.counts["ALIVE"] += 1
                if listed != expected:
                    self._fault(f"{pool.name} is listed by {each.told} as {listed}, not {expected}")
        self.counts[f"complete lists of {each.replica}"] += each.complete
        self.counts[f"grown lists of {each.replica}"] += grown

    def _fault(self, fault: str) -> None:
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)
