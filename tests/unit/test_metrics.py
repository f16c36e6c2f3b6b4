"""The exposition: parses in both formats, names its units, keeps its labels bounded."""

import re
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gdsvc import metrics
from gdsvc._meter import BOUNDS, RequestMeter
from gdsvc.metrics import Family, Reading

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
FAMILIES = [value for value in vars(metrics).values() if isinstance(value, Family)]


def sample_readings() -> Iterator[Reading]:
    """A value for every family, different for each."""
    for value, family in enumerate(FAMILIES, 1):
        yield (family, float(value), "one") if family.label else (family, float(value))


def rendered(accept: str, *readers: metrics.Reader, meter: RequestMeter | None = None) -> tuple[str, str]:
    registry = metrics.registry(list(readers), meter or RequestMeter(["/pools"]))
    body, content_type = metrics.render(registry, accept)
    return body.decode(), content_type


def test_every_family_is_exposed_with_its_value_and_help() -> None:
    body, content_type = rendered("", sample_readings)
    assert content_type.startswith("text/plain")
    found = {family.name: family for family in parse_text(body)}
    for value, family in enumerate(FAMILIES, 1):
        exposed = found[family.name]
        assert (exposed.type, exposed.documentation) == (family.kind, family.help)
        suffix = "_total" if family.kind == "counter" else ""
        labels = {family.label: "one"} if family.label else {}
        assert [(s.name, s.labels, s.value) for s in exposed.samples] == [(family.name + suffix, labels, float(value))]


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    meter = RequestMeter(["/pools"])
    meter.record(0, "GET", 200, 0.001)
    body, content_type = rendered(OPENMETRICS, sample_readings, meter=meter)
    assert content_type.startswith("application/openmetrics-text")
    names = {family.name for family in parse_openmetrics(body)}  # type: ignore[no-untyped-call]
    assert names >= {family.name for family in FAMILIES} | {"gdsvc_http_requests"}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_are_ours_and_end_in_a_unit_where_they_have_one(family: Family) -> None:
    assert re.fullmatch(r"gdsvc_[a-z]+(_[a-z]+)*", family.name)
    assert not family.name.endswith(("_total", "_ms", "_bytes_count"))
    assert family.help.endswith(".")
    assert family.help.startswith("Seconds") == family.name.endswith("_seconds")


def test_readings_of_one_family_become_samples_of_one_family() -> None:
    def outcomes() -> Iterator[Reading]:
        yield metrics.REGISTRATIONS, 3, "new"
        yield metrics.REGISTRATIONS, 5, "renewed"

    body, _ = rendered("", outcomes)
    (family,) = [family for family in parse_text(body) if family.name == "gdsvc_registrations"]
    assert [(s.labels, s.value) for s in family.samples] == [({"outcome": "new"}, 3.0), ({"outcome": "renewed"}, 5.0)]


def test_requests_and_durations_come_from_the_meter() -> None:
    meter = RequestMeter(["/pools", "other"])
    meter.record(0, "GET", 200, 0.0002)
    meter.record(0, "GET", 200, 99.0)
    meter.record(1, "BREW", 404, 0.5)
    body, _ = rendered("", meter=meter)
    families = {family.name: family for family in parse_text(body)}
    assert [(s.labels, s.value) for s in families["gdsvc_http_requests"].samples] == [
        ({"route": "/pools", "method": "GET", "status": "200"}, 2.0),
        ({"route": "other", "method": "other", "status": "404"}, 1.0),
    ]
    durations = families["gdsvc_http_request_duration_seconds"]
    of_pools = [s for s in durations.samples if s.labels["route"] == "/pools"]
    buckets = {s.labels["le"]: s.value for s in of_pools if s.name.endswith("_bucket")}
    assert len(buckets) == len(BOUNDS) + 1
    assert (buckets["0.0001"], buckets["0.00025"], buckets["10.0"], buckets["+Inf"]) == (0.0, 1.0, 1.0, 2.0)
    assert [s.value for s in of_pools if s.name.endswith("_count")] == [2.0]
    assert [s.value for s in of_pools if s.name.endswith("_sum")] == pytest.approx([99.0002])


def test_values_are_read_at_the_scrape() -> None:
    pools = [1.0]
    registry = metrics.registry([lambda: [(metrics.POOLS, pools[0])]], RequestMeter([]))
    assert b"\ngdsvc_pools 1.0\n" in metrics.render(registry, "")[0]
    pools[0] = 2.0
    assert b"\ngdsvc_pools 2.0\n" in metrics.render(registry, "")[0]


def test_the_figures_of_the_process_are_there() -> None:
    body, _ = rendered("")
    assert "\nprocess_resident_memory_bytes " in body
    assert "\npython_gc_collections_total" in body
