"""The OpenAPI document: valid, of exactly the routes there are, and true of real bodies."""

import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from gdsvc import model
from gdsvc.errors import Invalid
from gdsvc.http.app import RouteTable
from gdsvc.http.health import HealthRoutes
from gdsvc.http.openapi import OpenApiRoute, document
from gdsvc.http.pools import PoolRoutes
from gdsvc.http.prometheus import PrometheusRoutes
from gdsvc.http.routers import RouterRoutes
from gdsvc.http.routes import PATHS, route_table

KEY = {"site_id": "s", "namespace": "n", "dgd_name": "p"}
DOCUMENT = json.loads(json.dumps(document("1.2.3")))  # as a caller has it

RIGHT: list[dict[str, Any]] = [
    {"key": KEY},
    {"key": KEY, "frontends": None, "capabilities": None, "location": None, "model": None, "capacity": None},
    {"key": KEY, "frontends": ["http://a:1"], "capabilities": ["x"], "model": "m"},
    {"key": KEY, "location": {"region": "eu", "cluster": None, "rack": 3}, "generation": {"a": [1]}},
    {"key": KEY, "capacity": {"live_workers": 2**64 - 1, "expected_ranks": 0, "observed_ranks": None, "gpu": "x"}},
    {"key": {**KEY, "shard": 1}},
    {"key": {**KEY, "dgd_name": "é" * 126}},
]
WRONG: list[Any] = [
    [],
    {},
    {"key": {}},
    {"key": {**KEY, "site_id": ""}},
    {"key": {**KEY, "site_id": "a" * 254}},
    {"key": {**KEY, "site_id": 1}},
    {"key": KEY, "model": 1},
    {"key": KEY, "frontends": "http://a"},
    {"key": KEY, "frontends": [1]},
    {"key": KEY, "location": {}},
    {"key": KEY, "capacity": {"live_workers": -1}},
    {"key": KEY, "capacity": {"live_workers": 2**64}},
    {"key": KEY, "capacity": {"live_workers": 1.5}},
    {"key": KEY, "capacity": {"live_workers": True}},
    {"key": KEY, "capabilities": [None]},
]


def validator(name: str) -> jsonschema.Draft202012Validator:
    """Of the schema `name`, with the others at hand."""
    return jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", **DOCUMENT})


def table() -> RouteTable:
    """The routes; nothing behind them is called."""
    unused: Any = object.__new__
    return route_table(
        unused(PoolRoutes),
        unused(RouterRoutes),
        unused(HealthRoutes),
        OpenApiRoute("1.2.3"),
        unused(PrometheusRoutes),
    )


def test_the_document_is_valid_openapi_31() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_paths_and_methods_are_exactly_those_that_are_routed() -> None:
    routed = {route.path: {method.lower() for method in route.handlers} for route in table().routes}
    assert list(DOCUMENT["paths"]) == list(PATHS)
    assert {path: set(operations) for path, operations in DOCUMENT["paths"].items()} == routed


def test_path_parameters_are_those_of_the_path() -> None:
    for path, operations in DOCUMENT["paths"].items():
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            assert [p["name"] for p in parameters if p["in"] == "path"] == names


def test_operations_have_unique_names_and_say_what_they_answer() -> None:
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        assert operation["summary"]
        assert any(status.startswith("2") for status in operation["responses"])


def test_every_schema_is_used_and_none_speaks_of_the_code() -> None:
    text = json.dumps(DOCUMENT)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f'"#/components/schemas/{name}"' in text or name in ("PoolKey", "PoolLocation", "PoolCapacity"), name
        assert "Raises" not in schema["description"]
        assert "extra" not in schema["properties"]


@pytest.mark.parametrize("registration", RIGHT)
def test_what_the_service_takes_the_schema_takes(registration: dict[str, Any]) -> None:
    model.decode_registration(json.dumps(registration).encode())
    validator("PoolRegistration").validate(registration)


@pytest.mark.parametrize("registration", WRONG)
def test_what_the_schema_refuses_the_service_refuses(registration: Any) -> None:
    with pytest.raises(Invalid):
        model.decode_registration(json.dumps(registration).encode())
    assert not validator("PoolRegistration").is_valid(registration)


@pytest.mark.parametrize("registration", RIGHT)
@pytest.mark.parametrize("complete", [True, False])
def test_lists_are_as_their_schema_says(registration: dict[str, Any], complete: bool) -> None:
    listing = model.listing_of(model.decode_registration(json.dumps(registration).encode()), ("10.0.0.1",))
    listed: dict[str, Any] = {"complete": complete, "pools": [json.loads(model.encode_listing(listing))]}
    if not complete:
        listed["sources"] = [{"name": "pool-registrations", "complete": False, "as_of": "2026-01-01T00:00:00.000Z"}]
    validator("PoolList").validate(listed)
    del listed["pools"][0]["id"]
    assert not validator("PoolList").is_valid(listed)


def test_leases_routers_and_problems_are_as_their_schemas_say() -> None:
    validator("Lease").validate(json.loads(model.encode(model.Lease(5, 15))))
    router = json.loads(model.encode(model.RouterReplica("r", "http://[::1]:1")))
    validator("RouterReplica").validate(router)
    validator("RouterList").validate({"complete": True, "routers": [router]})
    validator("ProblemBody").validate({"error": {"message": "m", "field": "$.key"}})
    validator("ProblemBody").validate({"error": {"message": "m"}})
    assert not validator("ProblemBody").is_valid({"error": {}})
    assert not validator("RouterReplica").is_valid({"id": "", "url": "http://a"})


async def test_the_route_answers_with_the_document() -> None:
    route = OpenApiRoute("1.2.3")
    scope: Any = {}
    response = await route.openapi(scope, scope)
    assert (response.status, json.loads(response.body)) == (200, DOCUMENT)
    assert (await route.openapi(scope, scope)).body == response.body


# By `fullmatch` where a pattern ends in `$`: Python's takes a line feed behind the end, ECMA-262's does not.
ODD = "\0\n\x1c\x7f\x85 \u00a0\u061c\u1680\u200a\u200b\u200e\u2028\u202e\u202f\u2066\u3000\ufeffaé\U0001f44d"
HOSTS = st.text("aZ09.-_", max_size=8) | st.sampled_from(
    ["1.2.3.4", "256.1.1.1", "01.1.1.1", "1.2.3", "[::1]", "a b", "é"]
)
PORTS = st.sampled_from(["", ":", ":a"]) | st.integers(0, 99999).map(lambda port: f":{port}") | st.just(":00080")
URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "HTTPS", "ftp", ""]),
    HOSTS,
    PORTS,
    st.sampled_from(["", "/", "/a", "?", "\n"]),
)


@given(st.text(ODD, max_size=6))
def test_the_pattern_of_names_is_the_rule_of_the_model(name: str) -> None:
    schema = DOCUMENT["components"]["schemas"]["PoolKey"]["properties"]["site_id"]
    assert (re.fullmatch(schema["pattern"], name) is not None) == (model.text_fault(name) is None)


@given(st.text(ODD, max_size=6))
def test_the_pattern_of_regions_is_the_rule_of_the_model(region: str) -> None:
    schema = DOCUMENT["components"]["schemas"]["PoolLocation"]["properties"]["region"]
    assert (re.search(schema["pattern"], region) is not None) == bool(region.strip())


@given(URLS)
def test_the_pattern_of_base_urls_is_the_rule_of_the_model(url: str) -> None:
    schema = DOCUMENT["components"]["schemas"]["RouterReplica"]["properties"]["url"]
    assert (re.fullmatch(schema["pattern"], url) is not None) == (model.base_url_fault(url) is None)
