"""The clock that leases are judged by: monotonic time less the time in which the service itself could not receive.

A process that was suspended, or whose loop was blocked, finds the heartbeats of that time still waiting in its
sockets, behind its own timers: judged by plain monotonic time it would expire every pool on waking. So a gap between
two ticks of `STALL_SECS` or more does not count, but at most half of any four leases is forgiven this way: a service
that stalls all the time must still let a dead pool go.
"""

import time
from collections import deque
from collections.abc import Callable

TICK_SECS = 0.1  # how often `tick` is to be called
STALL_SECS = 1.0  # ten missed ticks: no longer the jitter of a busy machine


class LeaseClock:
    """Lease time, in seconds since the clock was made. `on_stall(gap_secs, forgiven_secs)` is told of every stall."""

    def __init__(
        self,
        lease_secs: float,
        monotonic: Callable[[], float] = time.monotonic,
        on_stall: Callable[[float, float], None] = lambda gap, forgiven: None,
    ) -> None:
        self._window_secs = 4 * lease_secs
        self._monotonic = monotonic
        self._on_stall = on_stall
        self._ticked_at = self._started_at = monotonic()
        self._now = 0.0
        self._heard_secs = 0.0
        self._forgiven = 0.0
        self._forgiven_spans: deque[tuple[float, float]] = deque()  # (end, length), those inside the window
        self.stalls = 0
        self.stalled_secs = 0.0

    def now(self) -> float:
        """Lease time now. It never runs back: what was read before a stall was found stands until time is there."""
        observed_at = self._monotonic()
        if observed_at - self._ticked_at >= STALL_SECS:
            self._stalled_until(observed_at)
        now = observed_at - self._started_at - self._forgiven
        if now > self._now:
            self._now = now
        return self._now

    def heard_secs(self) -> float:
        """For how long the service has been able to receive, stalls left out without a bound.

        Completeness is judged by this one: a list is complete once everybody alive had a lease's time to be heard.
        """
        self._heard_secs = max(self._heard_secs, self._observe() - self._started_at - self.stalled_secs)
        return self._heard_secs

    def tick(self) -> None:
        """Says that the loop runs."""
        self._ticked_at = self._observe()

    def _observe(self) -> float:
        observed_at = self._monotonic()
        if observed_at - self._ticked_at >= STALL_SECS:
            self._stalled_until(observed_at)
        return observed_at

    def _stalled_until(self, observed_at: float) -> None:
        gap = observed_at - self._ticked_at
        self._ticked_at = observed_at
        forgiven = min(gap, max(0.0, self._window_secs / 2 - self._forgiven_since(observed_at - self._window_secs)))
        self._forgiven += forgiven
        self._forgiven_spans.append((observed_at, forgiven))
        self.stalls += 1
        self.stalled_secs += gap
        self._on_stall(gap, forgiven)

    def _forgiven_since(self, window_start: float) -> float:
        spans = self._forgiven_spans
        while spans and spans[0][0] <= window_start:
            spans.popleft()
        return sum(min(length, end - window_start) for end, length in spans)
