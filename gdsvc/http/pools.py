"""The pool routes: register and renew, list, deregister."""

from gdsvc import model
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.body import Disconnected
from gdsvc.asgi.negotiation import is_json
from gdsvc.asgi.paths import query_values
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope, header
from gdsvc.errors import GdsvcError, Invalid, NotFound
from gdsvc.http.lists import Lists
from gdsvc.http.problems import UnsupportedMediaType
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.registrar import PoolRegistrar

_FILTERS = frozenset({"model", "region", "site_id"})


async def read_json(scope: Scope, receive: Receive, bodies: Bodies) -> bytes:
    """The body of a request that says it is JSON. Raises UnsupportedMediaType, and as Bodies does."""
    if not is_json(header(scope, b"content-type")):
        raise UnsupportedMediaType("expected a Content-Type of application/json")
    return await bodies.read(scope, receive)


class PoolRoutes:
    """Handlers over a registrar and the lists of its directory. `rejected` counts registrations that were refused."""

    def __init__(self, registrar: PoolRegistrar, lists: Lists, bodies: Bodies) -> None:
        self._registrar = registrar
        self._lists = lists
        self._bodies = bodies
        self._granted = Response(200, model.encode(registrar.lease))
        self.rejected = 0

    async def register(self, scope: Scope, receive: Receive) -> Response:
        """POST /pools. A body that this pool sent before only moves the lease: nothing is decoded."""
        try:
            body = await read_json(scope, receive, self._bodies)
            if not await self._registrar.renew(body):
                await self._registrar.register(model.decode_registration(body), body)
        except Disconnected:
            raise
        except GdsvcError:
            self.rejected += 1
            raise
        return self._granted

    async def list(self, scope: Scope, receive: Receive) -> Response:
        """GET /pools, all or those that match `model`, `region` and `site_id`."""
        del receive
        return await self._lists.respond(scope, _filter(scope["query_string"]))

    async def deregister(self, scope: Scope, receive: Receive, *names: str) -> Response:
        """DELETE /pools/{site_id}/{namespace}/{dgd_name}."""
        del scope, receive
        try:
            known = await self._registrar.deregister(model.PoolKey(*names))
        except Invalid:  # no pool can have such a key
            known = False
        if not known:
            raise NotFound("no such pool is registered")
        return Response(204)


def _filter(query_string: bytes) -> Filter:
    values = query_values(query_string, _FILTERS) if query_string else {}
    if not values:
        return EVERYTHING
    sets = [frozenset(values[name]) if name in values else None for name in ("model", "region", "site_id")]
    return Filter(*sets)
