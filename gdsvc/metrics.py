"""Every metric family, declared once with its unit in its name; values are read from counters at scrape time.

Declares names, kinds and labels. It does not count: whoever counts gives a reader. No label takes a caller's text.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gdsvc._meter import BOUNDS, RequestMeter


class Family(Struct, frozen=True):
    """A metric family; counters are named without their suffix `_total`."""

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    label: str | None = None


POOLS = Family("gauge", "gdsvc_pools", "Pools listed.")
ROUTERS = Family("gauge", "gdsvc_routers", "Router replicas listed.")
REVISION = Family("gauge", "gdsvc_revision", "Revision of the pool list; starts anew with the process.")
COMPLETE = Family("gauge", "gdsvc_complete", "1 where the pool list is complete, else 0.")
REGISTRATIONS = Family(
    "counter", "gdsvc_registrations", "POST /pools by what came of it: new, changed, renewed or rejected.", "outcome"
)
EXPIRED = Family("counter", "gdsvc_expired", "Pools whose lease ended.")
DEREGISTERED = Family("counter", "gdsvc_deregistered", "Pools taken out by DELETE.")
CONFLICTS = Family("counter", "gdsvc_conflicts", "Registrations that brought back a payload replaced within a lease.")
POOL_ENCODINGS = Family("counter", "gdsvc_pool_encodings", "Pool listings encoded: one for each new or changed pool.")
LIST_ENCODINGS = Family("counter", "gdsvc_list_encodings", "Bodies of the pool list made, by content coding.", "coding")
STALLS = Family("counter", "gdsvc_stalls", "Times the service could not receive for a second or more.")
STALLED_SECONDS = Family("counter", "gdsvc_stalled_seconds", "Seconds in which the service could not receive.")
CONNECTIONS = Family("gauge", "gdsvc_connections", "Open client connections, idle ones included.")
CONNECTION_SLOTS = Family("gauge", "gdsvc_connection_slots", "Client connections that are served at once.")
SOURCE_COMPLETE = Family(
    "gauge", "gdsvc_source_complete", "1 where what is known from this source is complete, else 0.", "source"
)
SOURCE_SILENT = Family(
    "gauge",
    "gdsvc_source_silent_seconds",
    "Seconds since the last whole list or change event came from this source; a quiet cluster has none for long.",
    "source",
)
WATCH_ERRORS = Family("counter", "gdsvc_watch_errors", "Errors of the watch of Kubernetes.", "kind")
RELISTS = Family("counter", "gdsvc_relists", "Whole lists taken in from Kubernetes, the first included.", "cause")
STORE_POLLS = Family("counter", "gdsvc_store_polls", "Readings of the store of registrations, those that failed too.")
STORE_ERRORS = Family(
    "counter", "gdsvc_store_errors", "Calls to the store of registrations that failed, each attempt counted.", "kind"
)
STORE_BATCHES = Family("counter", "gdsvc_store_batches", "Calls that wrote renewals to the store of registrations.")
STORE_RENEWALS = Family(
    "counter", "gdsvc_store_renewals", "Renewals in those calls, repeated ones too; by the calls, the size of a batch."
)
STORE_UNREADABLE = Family(
    "gauge", "gdsvc_store_unreadable", "Registrations that the last reading of the store found and could not read."
)
STORE_WRITES = Family("counter", "gdsvc_store_writes", "Requests to the API server that keeps registrations in Leases.")
STORE_WRITES_REPEATED = Family(
    "counter", "gdsvc_store_writes_repeated", "Those of them that had to be made again, since they failed."
)
STORE_UNWRITTEN = Family(
    "counter", "gdsvc_store_unwritten", "Heartbeats that needed no write, by --kubernetes-renew-fraction."
)
STORE_LAG = Family(
    "gauge", "gdsvc_store_lag_seconds", "Seconds since when something written to the store may not have been seen."
)
WATCHERS = Family("gauge", "gdsvc_watchers", "Watch streams that are open.")
WATCH_EVENTS = Family("counter", "gdsvc_watch_events", "Changes written to watchers, each counted for each of them.")
WATCH_EVENT_ENCODINGS = Family(
    "counter", "gdsvc_watch_event_encodings", "Changes encoded for watchers: each once, however many watch."
)
WATCH_RESYNCS = Family(
    "counter",
    "gdsvc_watch_resyncs",
    "Whole views written to watchers: at their start, since what they had seen is gone from the journal, since "
    "completeness changed, since they were behind.",
    "cause",
)
WATCHERS_CLOSED = Family(
    "counter",
    "gdsvc_watchers_closed",
    "Watch streams that ended: the watcher left, was too slow twice, took nothing, the service stops, a fault.",
    "cause",
)
WATCH_LAG = Family("gauge", "gdsvc_watch_lag_events", "By how many changes the slowest watcher is behind.")

Reading = tuple[Family, float] | tuple[Family, float, str]  # a family, its value, the value of its label
Reader = Callable[[], Iterable[Reading]]


class ScrapeCollector(Collector):
    """Makes the families of what the readers and the request meter hold at the moment of a scrape."""

    def __init__(self, readers: Sequence[Reader], meter: RequestMeter) -> None:
        self._readers = readers
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """All families, each once."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for reader in self._readers:
            for family, value, *label in reader():
                if family.name not in families:
                    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                    families[family.name] = kind(
                        family.name, family.help, labels=[family.label] if family.label else []
                    )
                families[family.name].add_metric(label, value)
        yield from families.values()
        yield from self._requests()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "gdsvc_http_requests", "Requests answered.", labels=["route", "method", "status"]
        )
        for route, method, status, count in self._meter.counts():
            requests.add_metric([route, method, status], count)
        yield requests
        durations = HistogramMetricFamily(
            "gdsvc_http_request_duration_seconds",
            "From the request's head to the last byte handed over.",
            labels=["route"],
        )
        bounds = [*map(str, BOUNDS), "+Inf"]
        for route, cumulative, seconds in self._meter.durations():
            durations.add_metric([route], list(zip(bounds, cumulative, strict=True)), seconds)
        yield durations


def registry(readers: Sequence[Reader], meter: RequestMeter) -> CollectorRegistry:
    """A registry of our families and of the process's own figures (memory, CPU, file descriptors, GC)."""
    made = CollectorRegistry()
    made.register(ScrapeCollector(readers, meter))
    ProcessCollector(registry=made)
    GCCollector(registry=made)
    return made


def render(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The exposition in the format that the Accept header asks for (Prometheus text or OpenMetrics), and its type."""
    try:
        encoder, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # it reads any version as a number
        encoder, content_type = choose_encoder("")
    return encoder(registry), content_type
