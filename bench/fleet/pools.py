"""Simulated pools: what each sends, when it was last heard, and whether its lease can have ended.

Instants are sent times on the generator's clock: a pool beats in time when it *sends* in time, whatever the service
does with it then.
"""

from collections.abc import Callable
from math import inf

NAMESPACE = "fleet"


def body(site: str, number: int, version: int) -> bytes:
    """About 300 bytes that register pool `number`; `version` is what a change changes."""
    return (
        b'{"key":{"site_id":"%b","namespace":"fleet","dgd_name":"%b"},"location":{"region":"us-east-2",'
        b'"availability_zone":"us-east-2a"},"model":"Qwen/Qwen3-32B","frontends":["http://10.%d.%d.%d:8000"],'
        b'"capacity":{"max_concurrency":%d,"live_workers":8},"capabilities":["chat","tools"]}'
    ) % (site.encode(), name_of(number).encode(), number >> 16 & 255, number >> 8 & 255, number & 255, version)


def name_of(number: int) -> str:
    """The dgd_name of pool `number`."""
    return f"pool-{number:07}"


class Pool:
    """One pool, as its relays and the service know it. `lease_secs` is what the service grants."""

    def __init__(self, number: int, request: Callable[[int], bytes]) -> None:
        self.number = number
        self.name = name_of(number)
        self.version = 1
        self.leaving = False  # its relays have stopped, since it is being taken out
        self.gone = False  # seen to be gone, or missing, when it should not be
        self.in_flight: list[float] = []  # when the beats were due out that have no answer yet
        self._make = request
        self.request = request(self.version)
        self._heard_at = -inf  # when the last beat was sent that was answered
        self._lapses = 0  # leases that may have ended before a beat came, and were not seen to
        self._suspected = 0  # removals that were false if a beat in flight is answered

    @property
    def heard_at(self) -> float:
        """When the last answered beat was sent; -inf before the first."""
        return self._heard_at

    @property
    def is_known(self) -> bool:
        """Whether it has been heard at all."""
        return self._heard_at > -inf

    def change(self) -> None:
        """From now on its relays say something else."""
        self.version += 1
        self.request = self._make(self.version)

    def asked(self, now: float) -> None:
        """A beat is on its way."""
        self.in_flight.append(now)

    def answered(self, asked_at: float, sent_at: float, lease_secs: float) -> int:
        """A beat was answered; how many removals it shows to have been false."""
        self.in_flight.remove(asked_at)
        if self._heard_at > -inf and sent_at - self._heard_at >= lease_secs:
            self._lapses += 1
            self._suspected = 0
        self._heard_at = max(self._heard_at, sent_at)
        false, self._suspected = self._suspected, 0
        return false

    def unanswered(self, asked_at: float) -> None:
        """A beat had no answer; whether the service heard it is not known."""
        self.in_flight.remove(asked_at)
        if not self.in_flight:
            self._suspected = 0

    def removed(self, now: float, lease_secs: float) -> bool:
        """Whether a removal seen at `now`, which nobody asked for, is certainly false. It may turn out so later."""
        if self._lapses:
            self._lapses -= 1
            return False
        if now - self._heard_at < lease_secs:
            return True
        if any(asked_at - self._heard_at < lease_secs for asked_at in self.in_flight):
            self._suspected += 1
        return False

    def must_be_listed(self, now: float, lease_secs: float) -> bool:
        """Whether a list made just now has to hold it."""
        return not self.leaving and now - self._heard_at < lease_secs
