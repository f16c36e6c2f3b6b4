"""The ASGI callable of the Global Frontend: finds what a request is, and who answers it.

How a request reaches a pool, and what becomes of it, is decided in forwarding.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from gdsvc import logs
from gdsvc._heads import CallerHead
from gdsvc.asgi.body import refuse_body
from gdsvc.asgi.heads import REFUSED_METHODS, check_fields
from gdsvc.asgi.responses import Response, respond
from gdsvc.asgi.types import Receive, Scope, Send
from gdsvc.errors import GdsvcError
from gdsvc.frontend.counts import NAMED_ROUTES, OTHER_ROUTE
from gdsvc.frontend.forwarding import Forwarder
from gdsvc.frontend.headers import read
from gdsvc.frontend.problems import Looped, NotAllowed, NoUpgrade, UnknownPath, internal, problem

API: Final = b"/v1/"
_ROUTES: Final = {route.encode(): route for route in NAMED_ROUTES}  # by raw path

Handler = Callable[[Scope], Awaitable[Response]]

log = logs.get("gdsvc.frontend")


class App:
    """`app(scope, receive, send)` for one request. `pages` answer GET, by raw path."""

    def __init__(self, forwarder: Forwarder, pages: Mapping[bytes, Handler]) -> None:
        self._forwarder = forwarder
        self._pages = pages

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[None, None, None]:
        """Answers one request; raises BrokenOff where an answer that had begun cannot be ended."""
        proxies = self._forwarder.trusted
        head = read(scope["headers"], trusted=bool(proxies) and proxies(scope["client"][0]))
        route = _ROUTES.get(scope["raw_path"])
        if route is None or not head.is_plain or scope["method"] != "POST":
            return self._look_closer(scope, receive, send, head)
        return self._forwarder.forward(scope, receive, send, head, route)

    async def _look_closer(self, scope: Scope, receive: Receive, send: Send, head: CallerHead) -> None:
        """Answers what may not be an ordinary request of the API."""
        try:
            page = self._page(scope, head)
            response = None if page is None else await page(scope)
        except GdsvcError as error:
            response = problem(error)
        except Exception:  # the last line of defence: logged whole, the caller learns nothing
            log.exception("frontend.failed", path=scope["path"][:200])
            response = internal()
        if response is None:
            await self._forwarder.forward(scope, receive, send, head, _route(scope["raw_path"]))
        elif head.length > 0 or head.coding is not None:
            await refuse_body(send, receive, response)
        else:
            await respond(send, response, head=scope["method"] == "HEAD")

    def _page(self, scope: Scope, head: CallerHead) -> Handler | None:
        """What answers here; None for a request that a pool answers. Raises what the caller is told."""
        path, method = scope["raw_path"], scope["method"]
        check_fields(head.host, head.coding, scope["http_version"])
        page = self._pages.get(path)
        if method in REFUSED_METHODS:
            raise NotAllowed("" if page is None else "GET, HEAD", closes=True)
        if page is not None:
            if method not in ("GET", "HEAD"):
                raise NotAllowed("GET, HEAD")
            return page
        if head.upgrade is not None and b"websocket" in head.upgrade.lower():
            raise NoUpgrade
        if not path.startswith(API) or ((b"/." in path or b"%" in path) and _leaves(path)):
            raise UnknownPath
        if method != "POST":
            raise NotAllowed("POST")
        if head.looped:
            raise Looped
        return None


def _route(raw_path: bytes) -> str:
    return _ROUTES.get(raw_path) or _ROUTES.get(unquote_to_bytes(raw_path), OTHER_ROUTE)


def _leaves(path: bytes) -> bool:
    """Whether dot segments lead out of the API: a server before a pool may take them away (RFC 3986 section 5.2.4)."""
    depth = 0
    for segment in unquote_to_bytes(path).split(b"/")[2:]:
        depth += (segment not in (b"", b".")) - 2 * (segment == b"..")
        if depth < 0:
            return True
    return False
