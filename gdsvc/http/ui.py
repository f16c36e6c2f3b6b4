"""GET /ui: the status page, joined from the sources in ui/ when it is first asked for, under a policy of its own.

The page is one document: no other request than those for the lists, the watches and the metrics leaves it.
"""

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Final

import zstandard

from gdsvc.asgi.negotiation import Coding, content_coding, none_match
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Receive, Scope, header

SOURCES: Final = Path(__file__).with_suffix("")
STYLE: Final = "style.css"
SCRIPTS: Final = (  # in this order one module: what runs at once comes last
    "frames.js",
    "text.js",
    "members.js",
    "view.js",
    "stream.js",
    "leases.js",
    "table.js",
    "plots.js",
    "feed.js",
    "why.js",
    "status.js",
    "main.js",
)
_CONTENT_TYPE: Final = b"text/html; charset=utf-8"


class Page:
    """The page as bytes and its Content-Security-Policy. Raises OSError where a source is missing."""

    def __init__(self, sources: Path = SOURCES) -> None:
        style = (sources / STYLE).read_text()
        script = "".join((sources / name).read_text() for name in SCRIPTS)
        frame = (sources / "index.html").read_text()
        filled = _fill(_fill(frame, "<style></style>", style), '<script type="module"></script>', script)
        self.body = filled.encode()
        self.policy = _policy(style, script)


class UiRoute:
    """The handler of /ui. The page is made once, and compressed once for each content coding that is asked for."""

    def __init__(self) -> None:
        self._page: Page | None = None
        self._responses: dict[Coding, tuple[Response, Response, bytes]] = {}  # whole, not modified, entity tag

    async def page(self, scope: Scope, receive: Receive) -> Response:
        """GET /ui: the page, or 304."""
        del receive
        coding = content_coding(header(scope, b"accept-encoding"))
        if coding not in self._responses:
            if self._page is None:
                self._page = Page()
            self._responses[coding] = _responses(self._page, coding)
        whole, unchanged, etag = self._responses[coding]
        if_none_match = header(scope, b"if-none-match")
        return whole if if_none_match is None or not none_match(if_none_match, etag) else unchanged


def _fill(frame: str, place: str, text: str) -> str:
    """`frame` with `text` inside the empty element `place`, which is there once."""
    before, after = frame.split(place)
    opening, closing = place.split("><")
    return f"{before}{opening}>{text}<{closing}{after}"


def _policy(style: str, script: str) -> str:
    """Nothing but this style and this script runs; what the script asks, it asks here; text never becomes markup."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",  # the icon in the page's head
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    """The source expression that allows an inline element of exactly `text` (CSP Level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _responses(page: Page, coding: Coding) -> tuple[Response, Response, bytes]:
    body = _coded(page.body, coding)
    etag = f'"{hashlib.sha256(page.body).hexdigest()[:16]}-{coding}"'.encode()
    headers = (
        (b"etag", etag),
        (b"vary", b"accept-encoding"),
        (b"cache-control", b"no-cache"),  # kept, but asked for anew: the page of another version speaks otherwise
        (b"content-security-policy", page.policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),  # the names of our pools are no business of their frontends
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )
    coded = () if coding == "identity" else ((b"content-encoding", coding.encode()),)
    return Response(200, body, _CONTENT_TYPE, (*headers, *coded)), Response(304, headers=headers), etag


def _coded(body: bytes, coding: Coding) -> bytes:
    match coding:
        case "zstd":
            return zstandard.ZstdCompressor().compress(body)
        case "gzip":
            return gzip.compress(body, mtime=0)
        case "identity":
            return body
