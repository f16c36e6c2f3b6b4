"""What the Global Frontend counts, and how that is shown to a scrape. Counting costs a dict look-up, no lock.

The pools that label something are those of the catalog; series of a pool that has left are dropped after a while.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from gdsvc._histogram import Histogram

SELECTION_BOUNDS_MS: Final = tuple(0.01 * 3**power for power in range(17))
FIRST_BYTE_BOUNDS_SECS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
KEPT_SECS: Final = 600.0  # a pool that left is scraped for so long: ten scrapes of a minute
NO_POOL: Final = ""  # the request was answered here

NAMED_ROUTES: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
)
OTHER_ROUTE: Final = "other"  # of the API; callers must not make labels


class By(Enum):
    """Who broke off an exchange."""

    CALLER = "caller"
    UPSTREAM = "upstream"
    SHUTDOWN = "shutdown"


Labels: TypeAlias = tuple[str, str, int]  # route, pool, status
_Values = TypeVar("_Values", bound=tuple[str, ...])


class Counts:
    """All of them. `requests` has an entry for each request that was answered or broken off; 0: without an answer."""

    def __init__(self) -> None:
        self.requests: dict[Labels, int] = {}
        self.outcomes: dict[tuple[str, str], int] = {}  # pool, what came of asking it
        self.aborted: Counter[By] = Counter(dict.fromkeys(By, 0))
        self.retries: Counter[str] = Counter()
        self.selection = Histogram(SELECTION_BOUNDS_MS)
        self.first_byte = {route: Histogram(FIRST_BYTE_BOUNDS_SECS) for route in (*NAMED_ROUTES, OTHER_ROUTE)}
        self._gone_since: dict[str, float] = {}

    def forget(self, present: Iterable[str], now: float) -> None:
        """Drops the series of pools that have not been among `present` for KEPT_SECS."""
        kept = {NO_POOL, *present}
        seen = {pool for _, pool, _ in self.requests} | {pool for pool, _ in self.outcomes}
        self._gone_since = {pool: self._gone_since.get(pool, now) for pool in seen - kept}
        dropped = {pool for pool, since in self._gone_since.items() if now - since >= KEPT_SECS}
        for labels in [labels for labels in self.requests if labels[1] in dropped]:
            del self.requests[labels]
        for pair in [pair for pair in self.outcomes if pair[0] in dropped]:
            del self.outcomes[pair]

    def metrics(self) -> Iterator[Metric]:
        """What was counted; copied in one step each, since scrapes run in a thread."""
        requests = CounterMetricFamily(
            "gdsvc_frontend_requests",
            "Requests by what was answered; status 0: broken off before an answer. Without a pool: answered here.",
            labels=["route", "pool", "status"],
        )
        for (route, pool, status), count in self.requests.copy().items():
            requests.add_metric([route, pool, str(status)], count)
        yield requests
        yield _counter(
            "upstream_connections", "Attempts at a pool by what came of them.", self.outcomes, "pool", "outcome"
        )
        yield _counter(
            "aborted",
            "Answers that were broken off, by who did it.",
            {(by.value,): count for by, count in self.aborted.copy().items()},
            "by",
        )
        yield _counter(
            "retries",
            "Requests sent a second time, by what had become of the first.",
            {(cause,): count for cause, count in self.retries.copy().items()},
            "cause",
        )
        first_byte = HistogramMetricFamily(
            "gdsvc_frontend_time_to_first_byte_seconds",
            "From a request's head to the first byte of its answer from a pool.",
            labels=["route"],
        )
        for route, histogram in self.first_byte.items():
            first_byte.add_metric([route], *histogram.cumulative())
        yield first_byte
        selection = HistogramMetricFamily(
            "dynamo_global_frontend_overhead_selection_ms", "Milliseconds that choosing a frontend took."
        )
        selection.add_metric([], *self.selection.cumulative())
        yield selection


def gauge(name: str, text: str, values: Iterable[tuple[str, float]], label: str) -> Metric:
    """A family of what is so at the moment."""
    family = GaugeMetricFamily(f"gdsvc_frontend_{name}", text, labels=[label])
    for value, number in values:
        family.add_metric([value], number)
    return family


def _counter(name: str, text: str, counts: dict[_Values, int], *labels: str) -> Metric:
    family = CounterMetricFamily(f"gdsvc_frontend_{name}", text, labels=labels)
    for values, count in counts.copy().items():
        family.add_metric(values, count)
    return family
