"""The router routes: register and renew a replica, list, deregister."""

from gdsvc import model
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope
from gdsvc.errors import NotFound
from gdsvc.http.lists import Lists
from gdsvc.http.pools import read_json
from gdsvc.pool_discovery.registrar import ReplicaRegistrar


class RouterRoutes:
    """Handlers over a registrar of replicas and the lists of its directory."""

    def __init__(self, registrar: ReplicaRegistrar, lists: Lists, bodies: Bodies) -> None:
        self._registrar = registrar
        self._lists = lists
        self._bodies = bodies
        self._granted = Response(200, model.encode(registrar.lease))

    async def register(self, scope: Scope, receive: Receive) -> Response:
        """POST /routers."""
        body = await read_json(scope, receive, self._bodies)
        if not await self._registrar.renew(body):
            await self._registrar.register(model.decode_router(body), body)
        return self._granted

    async def list(self, scope: Scope, receive: Receive) -> Response:
        """GET /routers."""
        del receive
        return await self._lists.respond(scope)

    async def deregister(self, scope: Scope, receive: Receive, router_id: str) -> Response:
        """DELETE /routers/{id}."""
        del scope, receive
        if not await self._registrar.deregister(router_id):
            raise NotFound("no such router is registered")
        return Response(204)
