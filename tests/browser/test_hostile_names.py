"""Names that would be markup, code, addresses or other names elsewhere are text on the status page."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.status_page import SOON_MS, Scripted
from tests.e2e.process import Serve
from tests.e2e.wire import pool

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

HOSTILE = (
    "<img src=x onerror=window.owned=1>",
    "<script>window.owned=1</script>",
    "</script><script>window.owned=1</script>",
    '"><svg onload=window.owned=1>',
    "' onmouseover='window.owned=1",
    "javascript:window.owned=1",
    "{{constructor.constructor('window.owned=1')()}}",
    "__proto__",
    "constructor",
    "%2e%2e",
    "&lt;b&gt;&amp;",
    "x" * 253,
    "é" * 126,
)
BEYOND_THE_RULES = (
    "\u202emoc.live",
    "a\u0000b\u200bc\u2066d",
    "e\u3164\U000e0041",
    "..",
    "",
)  # no service of ours lists such names
ADDRESSES = (
    "javascript:window.owned=1",
    "JaVaScRiPt:window.owned=1",
    "data:text/html,<script>window.owned=1</script>",
    "vbscript:x",
    "file:///etc/passwd",
    "http://user:secret@10.0.0.1:8000",
    "//10.0.0.1",
    "10.0.0.1:8000",
    "",
)
PHONE = {"viewport": {"width": 320, "height": 640}}


def listing(name: str, frontends: tuple[str, ...] | None = (), **members: Any) -> dict[str, Any]:
    """A listing in which every text is `name`."""
    key = {"site_id": name, "namespace": name, "dgd_name": name}
    return {"key": key, "id": name, "location": {"region": name}, "model": name, "frontends": frontends} | members


def scripted(*pools: dict[str, Any]) -> dict[str, Scripted]:
    """Answers that list these pools, by watch and by poll."""
    listed = json.dumps({"complete": True, "pools": pools, "sources": None})
    watched = f"retry: 600000\nevent: resync\nid: a-1\ndata: {listed}\n\n"
    return {"pools/watch": ("text/event-stream", watched), "pools": ("application/json", listed)}


def assert_all_is_text(page: Any) -> None:
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, svg:not(figure svg)').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 1


def test_hostile_names_of_registered_pools_stay_text(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    for name in HOSTILE:
        document = pool(name, model=name, location={"region": name}, capabilities=[name])
        document["key"] = {"site_id": name, "namespace": name, "dgd_name": name}
        assert service.post("/pools", document).status == 200
    status = open_page(service)
    status.expect_count(str(len(HOSTILE)))
    for name in HOSTILE:
        status.expect_listed(name)
        status.row(name).get_by_role("button").click()
        expect(status.why.get_by_role("heading", level=2)).to_have_text(name)
        expect(status.why.locator("[data-part=verdict]")).to_have_text("listed", timeout=SOON_MS)
        status.page.keyboard.press("Escape")
    assert_all_is_text(status.page)


def test_what_no_service_should_list_stays_text_too(serve: Serve, open_page: Open) -> None:
    pools = [listing(name) for name in BEYOND_THE_RULES] + [
        listing("null", location=None, model=None, frontends=None, capabilities=None),
        listing("long", model="m" * 100_000, capabilities=["c"] * 1000, others={"<b>": ["<i>"]}),
    ]
    status = open_page(serve(), scripted=scripted(*pools))
    status.expect_count(str(len(pools)))
    assert {"⟨U+202E⟩moc.live", "a⟨U+0000⟩b⟨U+200B⟩c⟨U+2066⟩d", "e⟨U+3164⟩⟨U+E0041⟩"} <= set(status.names)
    for row in range(len(pools)):
        status.rows.nth(row).get_by_role("button").click()
        expect(status.why).to_be_visible()
        status.page.keyboard.press("Escape")
        expect(status.why).to_be_hidden()
    assert_all_is_text(status.page)


def test_only_web_addresses_become_links(serve: Serve, open_page: Open) -> None:
    good = ("http://10.0.0.1:8000", "https://[::1]:8443")
    status = open_page(serve(), scripted=scripted(listing("p", (*ADDRESSES, *good)), listing("q", ADDRESSES[:1])))
    status.expect_count("2")
    expect(status.row("q").get_by_text(ADDRESSES[0])).to_be_visible()
    assert status.rows.get_by_role("link").count() == 0
    status.row("p").get_by_role("button").click()
    links = status.why.get_by_role("link")
    expect(links).to_have_count(len(good))
    assert [link.get_attribute("href") for link in links.all()] == ["http://10.0.0.1:8000/", "https://[::1]:8443/"]
    assert {link.get_attribute("rel") for link in links.all()} == {"noopener noreferrer"}
    assert_all_is_text(status.page)


def test_no_name_is_so_long_that_a_phone_scrolls_sideways(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600", "--router", f"{'r' * 253}=http://{'h' * 60}.example:9000")
    for name in ("x" * 253, "short"):
        document = pool(name, model="m" * 500, location={"region": "r" * 300}, frontends=[f"http://{'f' * 200}:8000"])
        assert service.post("/pools", document).status == 200
    status = open_page(service, **PHONE)
    status.expect_count("2")
    expect(status.page.locator("#routers-rows tr")).to_have_count(1, timeout=SOON_MS)
    assert status.evaluate("document.scrollingElement.scrollWidth") == 320
    viewport = "document.querySelector('#viewport')"
    assert status.evaluate(f"{viewport}.scrollWidth <= {viewport}.clientWidth")
    status.row("short").get_by_role("button").click()
    expect(status.why).to_be_visible()
    assert status.evaluate("document.scrollingElement.scrollWidth") == 320
    assert status.evaluate("document.querySelector('dialog').scrollWidth") <= 320


def test_the_policy_is_in_force_and_its_refusals_are_heard(serve: Serve, open_page: Open) -> None:
    status = open_page(serve())
    for attempt in (
        "document.body.innerHTML = '<img src=x onerror=window.owned=1>'",
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.owned=1' }))",
        "document.body.setAttribute('onclick', 'window.owned=1'); document.body.click()",
        "document.body.append(Object.assign(document.createElement('img'), { src: '/metrics' }))",
    ):
        status.complaints.clear()
        status.evaluate(f"() => {{ try {{ {attempt}; }} catch {{}} }}")
        status.expect_complaint()
    status.complaints.clear()
    assert status.evaluate("window.owned") is None


def test_a_number_that_a_browser_cannot_hold_is_said_to_be_rounded(serve: Serve, open_page: Open) -> None:
    capacity = {"max_concurrency": 2**53 - 1, "live_workers": 2**64 - 1}
    status = open_page(serve(), scripted=scripted(listing("p", capacity=capacity)))
    status.row("p").get_by_role("button").click()
    facts = status.why.locator("[data-part=facts]")
    expect(facts).to_contain_text(f"max_concurrency: {2**53 - 1}")
    expect(facts).to_contain_text("live_workers: about 18446744073709552000")
