"""Joins paths and handlers; openapi.py describes the same paths, and a test holds the two together."""

from gdsvc.http.app import Handler, Route, RouteTable
from gdsvc.http.health import HealthRoutes
from gdsvc.http.openapi import OpenApiRoute
from gdsvc.http.pools import PoolRoutes
from gdsvc.http.prometheus import PrometheusRoutes
from gdsvc.http.routers import RouterRoutes
from gdsvc.http.ui import UiRoute

POOLS = "/pools"
POOLS_WATCH = "/pools/watch"
POOL = "/pools/{site_id}/{namespace}/{dgd_name}"
EXPLAIN = "/pools/{site_id}/{namespace}/{dgd_name}/explain"
ROUTERS = "/routers"
ROUTERS_WATCH = "/routers/watch"
ROUTER = "/routers/{id}"
LIVE = "/live"
READY = "/ready"
HEALTH = "/health"
METRICS = "/metrics"
OPENAPI = "/openapi.json"
UI = "/ui"
PROMETHEUS = "/sd/prometheus"

PATHS = (
    POOLS,
    POOLS_WATCH,
    POOL,
    EXPLAIN,
    ROUTERS,
    ROUTERS_WATCH,
    ROUTER,
    LIVE,
    READY,
    HEALTH,
    METRICS,
    OPENAPI,
    UI,
    PROMETHEUS,
)


def route_table(
    pools: PoolRoutes,
    routers: RouterRoutes,
    health: HealthRoutes,
    openapi: OpenApiRoute,
    prometheus: PrometheusRoutes,
) -> RouteTable:
    """Every route of the discovery service."""
    handlers: dict[str, dict[str, Handler]] = {
        POOLS: {"GET": pools.list, "POST": pools.register},
        POOLS_WATCH: {"GET": pools.watch},
        POOL: {"DELETE": pools.deregister},
        EXPLAIN: {"GET": pools.explain},
        ROUTERS: {"GET": routers.list, "POST": routers.register},
        ROUTERS_WATCH: {"GET": routers.watch},
        ROUTER: {"DELETE": routers.deregister},
        LIVE: {"GET": health.live},
        READY: {"GET": health.ready},
        HEALTH: {"GET": health.health},
        METRICS: {"GET": health.metrics},
        OPENAPI: {"GET": openapi.openapi},
        UI: {"GET": UiRoute().page},
        PROMETHEUS: {"GET": prometheus.targets},
    }
    return RouteTable([Route(path, handlers[path]) for path in PATHS])
