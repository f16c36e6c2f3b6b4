"""The status page by keyboard alone, as a screen reader is told of it, in both colour schemes, on a phone."""

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.status_page import SOON_MS, StatusPage
from tests.e2e.process import Serve, Service
from tests.e2e.wire import pool

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 320, "height": 640}
BLOCKING = {"serious", "critical"}


@pytest.fixture
def service(serve: Serve) -> Service:
    """A service with forty pools and a router, for which nothing expires."""
    service = serve("--lease-duration-secs", "3600", "--router", "ohio-0=http://10.1.0.1:9000")
    for n in range(40):
        frontends = [f"http://10.0.0.{n + 1}:8000"]
        service.post("/pools", pool(f"pool-{n:02}", model="org/model", location={"region": "eu"}, frontends=frontends))
    return service


def violations(status: StatusPage) -> list[Any]:
    """What axe-core finds that keeps people out."""
    found = Axe().run(status.page).response["violations"]
    return [(it["id"], it["help"], [node["html"] for node in it["nodes"]]) for it in found if it["impact"] in BLOCKING]


def focused(status: StatusPage) -> str:
    """Id, label or text of the element that has the focus."""
    script = "(e => e.id || e.ariaLabel || e.textContent.trim())(document.activeElement)"
    return str(status.evaluate(script))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_that_keeps_people_out(
    service: Service, open_page: Open, scheme: str, viewport: dict[str, int]
) -> None:
    status = open_page(service, color_scheme=scheme, viewport=viewport)
    status.expect_count("40")
    expect(status.row("pool-00").locator(".lease")).to_have_class(re.compile("known"), timeout=SOON_MS)
    assert violations(status) == []
    status.row("pool-00").get_by_role("button").click()
    expect(status.why.locator("[data-part=verdict]")).to_have_text("listed", timeout=SOON_MS)
    assert violations(status) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_when_the_service_is_gone(service: Service, open_page: Open, scheme: str) -> None:
    status = open_page(service, color_scheme=scheme)
    status.expect_count("40")
    assert service.stop() == 0
    status.expect_state("Reconnecting")
    assert violations(status) == []


def test_everything_can_be_done_with_the_keyboard(service: Service, open_page: Open) -> None:
    status = open_page(service)
    press = status.page.keyboard.press
    status.expect_count("40")

    press("Tab")
    assert focused(status) == "Skip to the pools"
    expect(status.page.get_by_role("link", name="Skip to the pools")).to_be_in_viewport()
    press("Enter")
    press("Tab")
    assert focused(status) == "filter"
    press("Tab")
    assert focused(status) == "viewport"
    press("Tab")
    assert focused(status) == "Name"
    press("Enter")
    status.expect_listed("pool-39")
    assert status.names[0] == "pool-39"

    for _ in range(7):  # the other heads, then the controls of one row
        press("Tab")
    assert focused(status) == "10.0.0.40:8000"
    press("Tab")
    assert focused(status) == "Why pool-39"
    press("ArrowDown")
    press("ArrowDown")
    assert focused(status) == "Why pool-37"
    press("End")
    assert focused(status) == "Why pool-00"
    expect(status.row("pool-00")).to_be_in_viewport()
    press("Tab")
    assert not focused(status).startswith("Why")  # one row is reached by Tab, not all of them
    press("Shift+Tab")
    assert focused(status) == "Why pool-00"

    press("Enter")
    expect(status.why).to_be_visible()
    assert status.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    press("Escape")
    expect(status.why).to_be_hidden()
    assert focused(status) == "Why pool-00"


def test_the_focus_is_seen(service: Service, open_page: Open) -> None:
    status = open_page(service)
    status.expect_count("40")
    for _ in range(14):
        status.page.keyboard.press("Tab")
        outline = "(e => e.matches('a.skip') || getComputedStyle(e).outlineStyle)(document.activeElement)"
        assert status.evaluate(outline) in (True, "solid"), focused(status)


def test_a_focused_row_that_leaves_hands_the_focus_to_the_table(service: Service, open_page: Open) -> None:
    status = open_page(service)
    status.expect_listed("pool-03")
    status.row("pool-03").get_by_role("button").focus()
    with service.connect() as connection:
        assert connection.request("DELETE", "/pools/ohio/dynamo/pool-03").status == 204
    status.expect_gone("pool-03")
    assert focused(status) == "viewport"


def test_those_who_want_no_motion_see_none(service: Service, open_page: Open) -> None:
    status = open_page(service, reduced_motion="reduce")
    expect(status.row("pool-00").locator(".lease")).to_have_class(re.compile("known"), timeout=SOON_MS)
    service.post("/pools", pool("pool-00", model="org/changed"))
    expect(status.row("pool-00")).to_contain_text("org/changed", timeout=SOON_MS)
    assert status.evaluate("document.getAnimations().length") == 0


def test_the_state_is_said_aloud_once_not_every_second(service: Service, open_page: Open) -> None:
    status = open_page(service)
    announcer = status.page.locator("#announcer")
    expect(announcer).to_have_text(re.compile(r"^Connection: live\."), timeout=SOON_MS)
    status.evaluate(
        "() => { window.said = 0; new MutationObserver(() => { window.said += 1; })"
        ".observe(document.querySelector('#announcer'), { childList: true, subtree: true, characterData: true }); }"
    )
    service.post("/pools", pool("another"))
    status.expect_count("41")
    expect(status.page.locator("#freshness")).to_have_text("Last event 2 s ago", timeout=SOON_MS)
    assert status.evaluate("window.said") == 0
