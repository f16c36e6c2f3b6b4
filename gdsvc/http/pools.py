"""The pool routes: register and renew, list, deregister."""

import msgspec

from gdsvc import model
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.body import Disconnected
from gdsvc.asgi.negotiation import is_json
from gdsvc.asgi.paths import query_values
from gdsvc.asgi.responses import Response
from gdsvc.asgi.streams import Stream
from gdsvc.asgi.types import Receive, Scope, header
from gdsvc.errors import GdsvcError, Invalid, NotFound
from gdsvc.http.lists import Lists
from gdsvc.http.problems import UnsupportedMediaType
from gdsvc.http.watch import Feed
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.explain import Explainer
from gdsvc.pool_discovery.registrar import PoolRegistrar

_ENCODER = msgspec.json.Encoder()
_FILTERS = frozenset({"model", "region", "site_id"})


async def read_json(scope: Scope, receive: Receive, bodies: Bodies) -> bytes:
    """The body of a request that says it is JSON. Raises UnsupportedMediaType, and as Bodies does."""
    if not is_json(header(scope, b"content-type")):
        raise UnsupportedMediaType("expected a Content-Type of application/json")
    return await bodies.read(scope, receive)


class PoolRoutes:
    """Handlers over a registrar and the lists of its directory. `rejected` counts registrations that were refused."""

    def __init__(
        self, registrar: PoolRegistrar, explainer: Explainer, lists: Lists, feed: Feed, bodies: Bodies
    ) -> None:
        self._registrar = registrar
        self._explainer = explainer
        self._lists = lists
        self._feed = feed
        self._bodies = bodies
        self._granted = Response(200, model.encode(registrar.lease))
        self.rejected = 0

    async def register(self, scope: Scope, receive: Receive) -> Response:
        """POST /pools. A body that this pool sent before only moves the lease: nothing is decoded."""
        try:
            body = await read_json(scope, receive, self._bodies)
            source = scope["client"][0]
            if not await self._registrar.renew(body, source):
                await self._registrar.register(model.decode_registration(body), body, source)
        except Disconnected:
            raise
        except GdsvcError:
            self.rejected += 1
            raise
        return self._granted

    async def list(self, scope: Scope, receive: Receive) -> Response:
        """GET /pools, all or those that match `model`, `region` and `site_id`."""
        del receive
        return await self._lists.respond(scope, filter_of(scope["query_string"]))

    async def watch(self, scope: Scope, receive: Receive) -> Stream:
        """GET /pools/watch: the list and then every change, as server-sent events; filters as for the list."""
        del receive
        return self._feed.watch(scope, filter_of(scope["query_string"]))

    async def explain(self, scope: Scope, receive: Receive, *names: str) -> Response:
        """GET /pools/{site_id}/{namespace}/{dgd_name}/explain."""
        del scope, receive
        try:
            explained = self._explainer.explain(model.PoolKey(*names))
        except Invalid:  # no pool can have such a key
            explained = None
        if explained is None:
            raise NotFound("nothing is known of this pool: it was never heard of, or so long ago that it is forgotten")
        return Response(200, _ENCODER.encode(explained))

    async def deregister(self, scope: Scope, receive: Receive, *names: str) -> Response:
        """DELETE /pools/{site_id}/{namespace}/{dgd_name}."""
        del receive
        try:
            known = await self._registrar.deregister(model.PoolKey(*names), scope["client"][0])
        except Invalid:  # no pool can have such a key
            known = False
        if not known:
            raise NotFound("no such pool is registered")
        return Response(204)


def removal(key: bytes) -> bytes:
    """The data of the event that tells of a pool's leaving, from its sort key."""
    return b'{"key":%b}' % model.encode(model.key_of(key))


def filter_of(query_string: bytes) -> Filter:
    """Which pools a query asks for."""
    values = query_values(query_string, _FILTERS) if query_string else {}
    if not values:
        return EVERYTHING
    sets = [frozenset(values[name]) if name in values else None for name in ("model", "region", "site_id")]
    return Filter(*sets)
