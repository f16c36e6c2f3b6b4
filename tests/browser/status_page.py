"""The status page as a reader has it: opened in headless Chromium, asked by what it shows, its complaints kept."""

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, expect

from tests.e2e.process import Service
from tests.e2e.wire import registration

Scripted = tuple[str, str]  # a content type and a body: an answer that no service of ours gives

UNKNOWN = "\u2013"  # an en dash, where the page has no value to show
SOON_MS = 20_000  # that anything may take on a busy machine
BEAT_SECS = 0.3

# Chromium says so of each request that fails; what the page makes of it is what counts.
_LOST = re.compile(r"Failed to load resource: (net::ERR_|the server responded with a status of (404|429|503))")


def chromium_path() -> str:
    """Chromium of the system. Fails where there is none."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is not installed (Debian: apt-get install chromium)"
    return path


class StatusPage:
    """One open page. `complaints` are the console's errors, refusals by the policy among them, and uncaught ones."""

    def __init__(
        self, context: BrowserContext, service: Service, scripted: Mapping[str, Scripted], *, movable_clock: bool
    ) -> None:
        self.complaints: list[str] = []
        self.page = context.new_page()
        if movable_clock:
            self.page.clock.install()
        for path, (content_type, body) in scripted.items():
            self.page.route(
                re.compile(rf"^http://[^/]+/{path}(\?.*)?$"),
                lambda route, _, content_type=content_type, body=body: route.fulfill(
                    body=body, headers={"Content-Type": content_type}
                ),
            )
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(f"http://127.0.0.1:{service.port}/ui")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _LOST.match(message.text):
            self.complaints.append(message.text)

    @property
    def rows(self) -> Locator:
        """The rows of pools that are elements now, in their order."""
        return self.page.locator("#viewport tbody tr:not(.space)")

    @property
    def names(self) -> list[str]:
        """The names in those rows."""
        return [text.strip() for text in self.rows.locator("th").all_inner_texts()]

    @property
    def filter(self) -> Locator:
        return self.page.get_by_role("searchbox", name=re.compile("Filter pools"))

    @property
    def why(self) -> Locator:
        """The panel of reasons."""
        return self.page.get_by_role("dialog")

    def row(self, name: str) -> Locator:
        return self.rows.filter(has=self.page.get_by_role("rowheader", name=name, exact=True))

    def head(self, column: str) -> Locator:
        return self.page.locator("#viewport").get_by_role("columnheader", name=column, exact=True)

    def sort_by(self, column: str) -> None:
        self.head(column).get_by_role("button").click()

    def expect_state(self, state: str) -> None:
        expect(self.page.locator("#connection")).to_have_text(state, timeout=SOON_MS)

    def expect_completeness(self, text: str) -> None:
        expect(self.page.locator("#completeness")).to_have_text(text, timeout=SOON_MS)

    def expect_count(self, text: str) -> None:
        expect(self.page.locator("#pools-count")).to_have_text(text, timeout=SOON_MS)

    def expect_listed(self, name: str) -> None:
        expect(self.row(name)).to_have_count(1, timeout=SOON_MS)

    def expect_gone(self, name: str) -> None:
        expect(self.row(name)).to_have_count(0, timeout=SOON_MS)

    def expect_complaint(self) -> None:
        """Fails where none comes."""
        if not self.complaints:
            self.page.wait_for_event("console", timeout=SOON_MS)
        assert self.complaints

    def show_or_hide(self, *, hidden: bool) -> None:
        """What a browser does when another tab comes to the front, or this one again."""
        self.evaluate(
            f"Object.defineProperty(document, 'hidden', {{ value: {str(hidden).lower()}, configurable: true }});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )

    def evaluate(self, script: str) -> Any:
        return self.page.evaluate(script)


@contextlib.contextmanager
def opened(
    browser: Browser,
    service: Service,
    *,
    scripted: Mapping[str, Scripted] | None = None,
    movable_clock: bool = False,
    **options: Any,
) -> Iterator[StatusPage]:
    """The page in a context of its own with these options; `scripted` paths (patterns) are not asked of the service.

    `movable_clock`: page.clock can move the page's time on; it runs by itself too.

    Fails where the page complained.
    """
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | options))
    try:
        status = StatusPage(context, service, scripted or {}, movable_clock=movable_clock)
        yield status
    finally:
        context.close()
    assert not status.complaints, status.complaints


@contextlib.contextmanager
def beating(service: Service, *names: str, **members: object) -> Iterator[set[str]]:
    """These pools register again and again, from a thread; the set may be changed meanwhile."""
    pools = set(names)
    ended = threading.Event()

    def beat() -> None:
        while True:
            with service.connect() as connection:
                for name in sorted(pools):
                    connection.send(registration(name, **members))
                    assert connection.read().status == 200
            if ended.wait(BEAT_SECS):
                return

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield pools
    finally:
        ended.set()
        thread.join()
