"""The OpenAPI 3.1 description of the service: schemas from the model types, paths from one table beside the routes."""

from typing import Any

import msgspec

from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope
from gdsvc.http.health import Health, Ready
from gdsvc.http.problems import ProblemBody
from gdsvc.http.prometheus import TargetGroup
from gdsvc.model import (
    MAX_COUNT,
    MAX_NAME_BYTES,
    Lease,
    PoolCapacity,
    PoolKey,
    PoolListing,
    PoolLocation,
    PoolRegistration,
    RouterReplica,
)
from gdsvc.pool_discovery.explain import Explanation

Json = dict[str, Any]

_OPEN_TYPES = ("PoolRegistration", "PoolListing", "PoolLocation", "PoolCapacity")  # keep members that we do not know
_TEXT = {"type": "string"}

# The rules of model.py as patterns (ECMA-262). What they cannot say, descriptions do: lengths in bytes, sound IPv6.
_NO_NAME = r"\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # controls, bidi controls
_SPACE = r" \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACE_CONTROLS = r"\u0009-\u000d\u001c-\u001f\u0085"
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_NAME_BYTES,
    "pattern": f"^[^{_NO_NAME}{_SPACE}]([^{_NO_NAME}]*[^{_NO_NAME}{_SPACE}])?$",
    "description": f"At most {MAX_NAME_BYTES} bytes of UTF-8.",
}
_REGION = {"type": "string", "pattern": f"[^{_SPACE}{_SPACE_CONTROLS}]"}
_POOL_ID = {"type": "string", "pattern": "^pool-v1-[0-9a-f]{64}$"}
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HOST = rf"({_OCTET}(\.{_OCTET}){{3}}|(?![0-9.]+([:/]|$))[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_PORT = "(?!0+(/|$))([0-9]{1,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_BASE_URL = {
    "type": "string",
    "pattern": f"^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(:{_PORT})?/?$",
    "description": "A bare base URL; in brackets, a valid IPv6 address.",
}


class ListSource(msgspec.Struct):
    """A source of an incomplete list; `as_of` is the instant its statement rests on."""

    name: str
    complete: bool
    as_of: str


class PoolList(msgspec.Struct, omit_defaults=True):
    """Pools by key. `sources` names what is incomplete; it is absent while all are complete."""

    complete: bool
    pools: list[PoolListing]
    sources: list[ListSource] = []


class RouterList(msgspec.Struct, omit_defaults=True):
    """Router replicas by id. `sources` names what is incomplete; it is absent while all are complete."""

    complete: bool
    routers: list[RouterReplica]
    sources: list[ListSource] = []


_TYPES = (PoolRegistration, PoolList, RouterList, Lease, RouterReplica, PoolKey, PoolLocation, PoolCapacity)
_PROBLEMS = {
    400: "The request or its JSON is malformed.",
    404: "Not known.",
    405: "The method is not allowed here; the header Allow lists those that are.",
    408: "The body did not arrive in time.",
    409: "The id is given on the command line and cannot be changed.",
    413: "The body is larger than the service takes.",
    415: "The Content-Type is not JSON.",
    422: "Well-formed, but wrong: `field` names the member and the message what was expected.",
    429: "A limit is reached; Retry-After says when to come back.",
    501: "Nothing registers here: what is listed comes from EndpointSlices alone.",
    503: "The service cannot answer now; Retry-After says when to come back.",
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _problems(*statuses: int) -> Json:
    return {
        str(status): {"description": _PROBLEMS[status], "content": _json(_ref("ProblemBody"))}
        for status in (400, *statuses)
    }


def _path_parameter(name: str, description: str) -> Json:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": _NAME}


def _filter_parameter(name: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": f"Only pools with this {name}; repeat it for any of several. Different filters must all match.",
        "schema": {"type": "array", "items": _TEXT},
        "style": "form",
        "explode": True,
    }


def _query_parameter(name: str, schema: Json, description: str, *, required: bool = False) -> Json:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _list(name: str, summary: str, parameters: list[Json], schema: Json) -> Json:
    conditional = {"name": "If-None-Match", "in": "header", "schema": _TEXT, "description": "Entity tags already held."}
    headers = {"ETag": {"schema": _TEXT}, "Vary": {"schema": _TEXT}}
    return {
        "summary": summary,
        "operationId": f"list{name}s",
        "parameters": [*parameters, conditional],
        "responses": {
            "200": {"description": "The list.", "headers": headers, "content": _json(schema)},
            "304": {"description": "The list has not changed.", "headers": headers},
            **_problems(503),
        },
    }


def _register(name: str, schema: str, summary: str, key: Json, *problems: int) -> Json:
    """`key` tells where in the body the path parameters of the DELETE are."""
    link = {"operationId": f"deregister{name}", "parameters": key, "description": "Takes out what was registered."}
    answer = {"description": "Registered or renewed.", "content": _json(_ref("Lease")), "links": {"deregister": link}}
    return {
        "summary": summary,
        "operationId": f"register{name}",
        "requestBody": {"required": True, "content": _json(_ref(schema))},
        "responses": {
            "200": answer,
            **_problems(408, 413, 415, 422, *problems, 501, 503),
        },
    }


def _deregister(name: str, parameters: list[Json], *problems: int) -> Json:
    return {
        "summary": f"Take a {name.lower()} out at once; a later heartbeat lists it again",
        "operationId": f"deregister{name}",
        "parameters": parameters,
        "responses": {"204": {"description": "Taken out."}, **_problems(404, *problems, 501, 503)},
    }


def _probe(name: str, summary: str, schema: Json, *more: tuple[int, str, Json]) -> Json:
    answers = {"200": {"description": "As it is now.", "content": _json(schema)}}
    answers |= {str(status): {"description": text, "content": _json(body)} for status, text, body in more}
    return {"summary": summary, "operationId": name, "responses": {**_problems(), **answers}}


def _watch(name: str, summary: str, parameters: list[Json]) -> Json:
    seen = {"name": "Last-Event-ID", "in": "header", "schema": _TEXT, "description": "The id of the event seen last."}
    since = {"name": "since", "in": "query", "schema": _TEXT, "description": "The same, for who cannot set headers."}
    described = (
        f"`resync`: the {name}List that replaces everything before it, first and whenever single changes do not do; "
        "`upserted`: a member that is new or has changed; `removed`: the key of one that has left."
    )
    stream = {"description": described, "content": {"text/event-stream": {"schema": _TEXT}}}
    return {
        "summary": summary,
        "operationId": f"watch{name}s",
        "parameters": [*parameters, since, seen],
        "responses": {"200": stream, **_problems(429, 503)},
    }


_ANY_OBJECT: Json = {"type": "object"}
_METRICS = {"text/plain": {"schema": _TEXT}, "application/openmetrics-text": {"schema": _TEXT}}
_POOL_KEY = [
    _path_parameter("site_id", "The pool's site."),
    _path_parameter("namespace", "The pool's Kubernetes namespace."),
    _path_parameter("dgd_name", "The name of the pool's deployment."),
]
_KEY_IN_BODY = {parameter["name"]: f"$request.body#/key/{parameter['name']}" for parameter in _POOL_KEY}

_FILTERS = [_filter_parameter(name) for name in ("model", "region", "site_id")]
_TARGETS = [
    _query_parameter(
        "targets",
        {"type": "string", "enum": ["frontends", "relays", "routers"]},
        "What to scrape.",
        required=True,
    ),
    _query_parameter(
        "port",
        {"type": "integer", "minimum": 1, "maximum": 65535},
        "The port of the relays' metrics; required for them, ignored for others.",
    ),
    _query_parameter(
        "incomplete",
        {"type": "string", "enum": ["allow"]},
        "`allow`: answer a list that is not complete too, which is otherwise refused with 503.",
    ),
]

PATHS: Json = {
    "/pools": {
        "get": _list("Pool", "Every pool whose lease holds", _FILTERS, _ref("PoolList")),
        "post": _register("Pool", "PoolRegistration", "Register a pool, or renew its lease", _KEY_IN_BODY, 429),
    },
    "/pools/watch": {"get": _watch("Pool", "The pools, and every change of them as it happens", _FILTERS)},
    "/pools/{site_id}/{namespace}/{dgd_name}": {"delete": _deregister("Pool", _POOL_KEY)},
    "/pools/{site_id}/{namespace}/{dgd_name}/explain": {
        "get": {
            "summary": "Why a pool is listed or not, and what happened to it lately",
            "operationId": "explainPool",
            "parameters": _POOL_KEY,
            "responses": {
                "200": {"description": "What is known.", "content": _json(_ref("Explanation"))},
                **_problems(404, 503),
            },
        }
    },
    "/routers": {
        "get": _list("Router", "Every router replica", [], _ref("RouterList")),
        "post": _register(
            "Router", "RouterReplica", "Register a router replica, or renew its lease", {"id": "$request.body#/id"}, 409
        ),
    },
    "/routers/watch": {"get": _watch("Router", "The router replicas, and every change of them as it happens", [])},
    "/routers/{id}": {"delete": _deregister("Router", [_path_parameter("id", "The replica's id.")], 409)},
    "/live": {"get": _probe("live", "Whether the process answers", _ANY_OBJECT)},
    "/ready": {
        "get": _probe(
            "ready", "Whether to send requests here", _ref("Ready"), (503, "Not ready; with reasons.", _ref("Ready"))
        )
    },
    "/health": {"get": _probe("health", "Detail by source, for people", _ref("Health"))},
    "/metrics": {
        "get": {
            "summary": "Prometheus or OpenMetrics text, by Accept",
            "operationId": "metrics",
            "responses": {"200": {"description": "The metrics.", "content": _METRICS}, **_problems()},
        }
    },
    "/openapi.json": {"get": _probe("openapi", "This description", _ANY_OBJECT)},
    "/ui": {
        "get": {
            "summary": "The status page, for people",
            "operationId": "ui",
            "responses": {
                "200": {"description": "The page.", "content": {"text/html": {"schema": _TEXT}}},
                "304": {"description": "The page has not changed."},
                **_problems(),
            },
        }
    },
    "/sd/prometheus": {
        "get": _list(
            "PrometheusTarget",
            "Targets for Prometheus' HTTP service discovery",
            [*_TARGETS, *_FILTERS],
            {"type": "array", "items": _ref("TargetGroup")},
        )
    },
}


def _schemas() -> Json:
    types = (*_TYPES, Ready, Health, ProblemBody, Explanation, TargetGroup)
    _, made = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas: Json = msgspec.json.decode(msgspec.json.encode(made))  # its default values are JSON only when encoded
    for schema in schemas.values():
        schema["description"] = schema["description"].partition(" Raises ")[0]  # that is for readers of the code
    for name in _OPEN_TYPES:
        schemas[name]["properties"].pop("extra")
        schemas[name].pop("additionalProperties", None)
    schemas["PoolKey"].pop("additionalProperties", None)  # taken and dropped
    for name in schemas["PoolKey"]["properties"]:
        schemas["PoolKey"]["properties"][name] = dict(_NAME)
    schemas["RouterReplica"]["properties"] |= {"id": dict(_NAME), "url": dict(_BASE_URL)}
    schemas["PoolLocation"]["properties"]["region"] = dict(_REGION)
    schemas["PoolListing"]["properties"]["id"] = dict(_POOL_ID)
    for name in ("PoolRegistration", "PoolListing"):
        schemas[name]["properties"]["frontends"]["items"] = dict(_BASE_URL)
    for name, count in schemas["PoolCapacity"]["properties"].items():
        del name
        count["anyOf"] = [{"type": "integer", "minimum": 0, "maximum": MAX_COUNT}, {"type": "null"}]
    for name in ("frontends", "capabilities"):  # null is taken for an absent list
        registered = schemas["PoolRegistration"]["properties"][name]
        schemas["PoolRegistration"]["properties"][name] = {
            "anyOf": [{key: registered.pop(key) for key in ("type", "items")}, {"type": "null"}],
            **registered,
        }
    return schemas


def document(version: str) -> Json:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gdsvc",
            "version": version,
            "summary": "Discovery of LLM inference pools and of the routers in front of them",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": PATHS,
        "components": {"schemas": _schemas()},
    }


class OpenApiRoute:
    """GET /openapi.json, encoded when it is first asked for."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._encoded: bytes | None = None

    async def openapi(self, scope: Scope, receive: Receive) -> Response:
        """The description as JSON."""
        del scope, receive
        if self._encoded is None:
            self._encoded = msgspec.json.encode(document(self._version))
        return Response(200, self._encoded)
