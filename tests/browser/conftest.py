"""One Chromium for all browser tests, a context of its own for each page. Without Playwright there is nothing here."""

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.process import Serve, Service, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.status_page import StatusPage

# The default suite needs no browser, so it does not import what drives one: `pytest -m browser` then finds no test.
collect_ignore_glob = [] if importlib.util.find_spec("playwright") else ["test_*.py"]

Open = Callable[..., "StatusPage"]  # the fixture `open_page`: `opened`, less the browser


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Headless Chromium, without a sandbox where it is root that runs it: Chromium refuses that."""
    from playwright.sync_api import sync_playwright

    from tests.browser.status_page import chromium_path

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), chromium_sandbox=False)
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve(*flags)` starts a service that is live when it returns, and gone after the test."""
    with contextlib.ExitStack() as services:

        def start(*flags: str, **options: Any) -> Service:
            return services.enter_context(running(tmp_path, *flags, **options))

        yield start


@pytest.fixture
def open_page(serve: Serve, browser: "Browser") -> Iterator[Open]:
    """`open_page(service, **options)` opens the status page; it is closed, and its complaints judged, after the test.

    Asks for `serve` so that pages are closed before the services that they watch.
    """
    del serve
    from tests.browser.status_page import opened

    with contextlib.ExitStack() as pages:

        def start(service: Service, **options: Any) -> "StatusPage":
            return pages.enter_context(opened(browser, service, **options))

        yield start
