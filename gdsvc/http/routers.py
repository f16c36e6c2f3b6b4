"""The router routes: register and renew a replica, list, deregister."""

from gdsvc import model
from gdsvc.asgi.bodies import Bodies
from gdsvc.asgi.responses import Response
from gdsvc.asgi.streams import Stream
from gdsvc.asgi.types import Receive, Scope
from gdsvc.errors import NotFound
from gdsvc.http.lists import Lists
from gdsvc.http.pools import read_json
from gdsvc.http.watch import Feed
from gdsvc.pool_discovery.directory import EVERYTHING
from gdsvc.pool_discovery.registrar import ReplicaRegistrar


def removal(key: bytes) -> bytes:
    """The data of the event that tells of a replica's leaving, from its sort key."""
    return b'{"id":%b}' % model.encode(key.decode())


class RouterRoutes:
    """Handlers over a registrar of replicas and the lists of its directory."""

    def __init__(self, registrar: ReplicaRegistrar, lists: Lists, feed: Feed, bodies: Bodies) -> None:
        self._registrar = registrar
        self._lists = lists
        self._feed = feed
        self._bodies = bodies
        self._granted = Response(200, model.encode(registrar.lease))

    async def register(self, scope: Scope, receive: Receive) -> Response:
        """POST /routers."""
        body = await read_json(scope, receive, self._bodies)
        source = scope["client"][0]
        if not await self._registrar.renew(body, source):
            await self._registrar.register(model.decode_router(body), body, source)
        return self._granted

    async def list(self, scope: Scope, receive: Receive) -> Response:
        """GET /routers."""
        del receive
        return await self._lists.respond(scope)

    async def watch(self, scope: Scope, receive: Receive) -> Stream:
        """GET /routers/watch: the list and then every change, as server-sent events."""
        del receive
        return self._feed.watch(scope, EVERYTHING)

    async def deregister(self, scope: Scope, receive: Receive, router_id: str) -> Response:
        """DELETE /routers/{id}."""
        del receive
        if not await self._registrar.deregister(router_id, scope["client"][0]):
            raise NotFound("no such router is registered")
        return Response(204)
