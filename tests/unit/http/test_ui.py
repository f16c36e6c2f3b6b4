"""The status page as it is served: one document, its policy, its tag; and what its sources may never do."""

import base64
import gzip
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import zstandard

from gdsvc._meter import RequestMeter
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Received, Scope, Sent
from gdsvc.http.app import App, Route, RouteTable
from gdsvc.http.ui import SCRIPTS, SOURCES, STYLE, Page, UiRoute

MARKUP_SINKS = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "setHTMLUnsafe",
    "createContextualFragment",
    "DOMParser",
    "document.write",
    "srcdoc",
    "eval(",
    "new Function",
)
LARGEST = 128 * 1024  # bytes of the page, and of what a browser fetches:
LARGEST_COMPRESSED = 32 * 1024
SOURCE_LINES = 400


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of the style and the script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside in ("style", "script"):
            self.inline[self._inside] = self.inline.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""


def scope_of(method: str, **fields: str) -> Scope:
    """A request for /ui with these header fields."""
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": "/ui",
        "raw_path": b"/ui",
        "query_string": b"",
        "headers": [(b"host", b"test"), *headers],
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }


async def ask(route: UiRoute, **fields: str) -> Response:
    """GET /ui with these header fields."""

    async def receive() -> Received:
        raise AssertionError("a GET has no body to wait for")

    return await route.page(scope_of("GET", **fields), receive)


def fields_of(response: Response) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in response.headers}


def directives(policy: str) -> dict[str, list[str]]:
    """A Content-Security-Policy, taken apart."""
    return {name: values for name, *values in (directive.split() for directive in policy.split("; "))}


@pytest.fixture(scope="module")
def elements() -> Elements:
    return Elements(Page().body.decode())


async def test_the_page_comes_with_the_headers_that_bind_it() -> None:
    response = await ask(UiRoute())
    fields = fields_of(response)
    assert response.status == 200
    assert response.body == Page().body
    assert fields["content-type"] == "text/html; charset=utf-8"
    assert fields["content-length"] == str(len(response.body))
    assert fields["x-content-type-options"] == "nosniff"
    assert fields["referrer-policy"] == "no-referrer"
    assert fields["cache-control"] == "no-cache"
    assert fields["content-security-policy"] == Page().policy


def test_the_policy_allows_this_style_this_script_and_our_own_answers_only(elements: Elements) -> None:
    def hashed(tag: str) -> str:
        digest = hashlib.sha256(elements.inline[tag].encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert directives(Page().policy) == {
        "default-src": ["'none'"],
        "script-src": [hashed("script")],
        "style-src": [hashed("style")],
        "img-src": ["data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["'none'"],
    }


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
async def test_each_coding_is_the_same_page_under_a_tag_of_its_own(coding: str) -> None:
    route = UiRoute()
    response = await ask(route, accept_encoding=coding)
    fields = fields_of(response)
    decoders: dict[str, Callable[[bytes], bytes]] = {
        "identity": bytes,
        "gzip": gzip.decompress,
        "zstd": zstandard.ZstdDecompressor().decompress,
    }
    assert decoders[coding](response.body) == Page().body
    assert fields.get("content-encoding", "identity") == coding
    assert fields["vary"] == "accept-encoding"
    assert fields["etag"].endswith(f'-{coding}"')
    assert await ask(route, accept_encoding=coding) is response


async def test_a_page_that_the_browser_has_is_not_sent_again() -> None:
    route = UiRoute()
    whole = await ask(route)
    etag = fields_of(whole)["etag"]
    unchanged = await ask(route, if_none_match=etag)
    assert (unchanged.status, unchanged.body, fields_of(unchanged)["etag"]) == (304, b"", etag)
    assert fields_of(unchanged)["content-security-policy"] == Page().policy  # which the kept page is shown under
    assert (await ask(route, if_none_match='"of another version"')).status == 200
    assert (await ask(route, if_none_match=etag, accept_encoding="gzip")).status == 200


async def test_head_has_the_same_headers_and_no_page() -> None:
    table = RouteTable([Route("/ui", {"GET": UiRoute().page})])
    sent: list[Sent] = []

    async def receive() -> Received:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Sent) -> None:
        sent.append(message)

    await App(table, RequestMeter(["/ui", "other"]))(scope_of("HEAD"), receive, send)
    start, end = sent
    assert start["type"] == "http.response.start"
    assert end["type"] == "http.response.body"
    assert (start["status"], dict(start["headers"]), end["body"]) == (200, dict((await ask(UiRoute())).headers), b"")


async def test_the_page_is_small() -> None:
    assert len(Page().body) < LARGEST
    assert len((await ask(UiRoute(), accept_encoding="gzip")).body) < LARGEST_COMPRESSED


def test_every_source_is_in_the_page_once_and_as_it_is(elements: Elements) -> None:
    assert {path.name for path in SOURCES.iterdir()} == {"index.html", STYLE, *SCRIPTS}
    assert elements.inline["style"] == (SOURCES / STYLE).read_text()
    assert elements.inline["script"] == "".join((SOURCES / name).read_text() for name in SCRIPTS)


def test_a_missing_source_is_an_error_not_half_a_page(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Page(tmp_path)


def test_nothing_is_loaded_from_elsewhere(elements: Elements) -> None:
    for tag, attributes in elements.found:
        assert not attributes.keys() & {"src", "srcset", "action", "formaction", "data", "poster"}, (tag, attributes)
        if tag == "link":
            assert attributes["rel"] == "icon"
            assert (attributes["href"] or "").startswith("data:image/svg+xml,")
    assert not re.search(r"@import|url\(", elements.inline["style"])
    assert not re.findall(r"\bimport\b|https?://|wss?://", elements.inline["script"])
    requests = re.findall(r"(?:fetch|new EventSource)\(([^,;)]+)", elements.inline["script"])
    assert sorted(requests) == [
        '"metrics"',
        "`pools/${namesOf(key",
        "this.#paths.list",
        "this.#paths.watch + since",
    ]


def test_paths_are_relative_so_that_the_page_works_behind_a_prefix(elements: Elements) -> None:
    named = re.findall(r'"(/?(?:pools|routers|metrics)(?:/watch)?)"', elements.inline["script"])
    assert {"pools", "pools/watch", "routers", "routers/watch", "metrics"} <= set(named)
    assert not [path for path in named if path.startswith("/")]


def test_no_text_can_become_markup_or_code(elements: Elements) -> None:
    for name in SCRIPTS:
        source = (SOURCES / name).read_text()
        assert not [sink for sink in MARKUP_SINKS if sink in source], name
        assert not re.search(
            r'setAttribute\([^,]*"(?:style|on\w+)"|\bon[a-z]+ ?= |["\']on\w+["\']|\bstyle: "', source
        ), name
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], (tag, attributes)


def test_addresses_become_links_only_behind_the_one_check(elements: Elements) -> None:
    written = re.findall(r'.*["\']?\bhref\b.*', elements.inline["script"])
    assert [line.strip() for line in written] == [
        "return plainWeb && !parsed.username && !parsed.password ? parsed.href : null;",
        'setAttribute(anchor, "href", target);',
    ]


def test_every_element_that_the_script_asks_for_is_there(elements: Elements) -> None:
    ids = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    asked = set(re.findall(r'\bpart\("([\w-]+)"\)', elements.inline["script"]))
    assert asked
    assert asked <= ids


def test_every_column_has_a_head_that_is_a_button_and_every_landmark_a_name(elements: Elements) -> None:
    sorting = [
        attributes["data-sort"] for tag, attributes in elements.found if tag == "button" and "data-sort" in attributes
    ]
    assert sorting == ["name", "model", "region", "site", "namespace", "frontends", "lease"]
    assert sum(tag == "caption" for tag, _ in elements.found) == 2
    for tag, attributes in elements.found:
        if tag == "section" and "id" in attributes:
            assert attributes.keys() & {"aria-label", "aria-labelledby"}
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]


@pytest.mark.parametrize("name", ["index.html", STYLE, *SCRIPTS])
def test_sources_are_short_and_ascii_but_for_signs(name: str) -> None:
    source = (SOURCES / name).read_text()
    assert source.count("\n") < SOURCE_LINES
    assert set(re.findall(r"[^\x00-\x7f]", source)) <= set("\u2013…·↑↓⟨⟩")  # no character that hides, no homograph
