"""What a reader of the status page sees of a real service: pools that come, change and go, filter, order, reasons."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.status_page import SOON_MS, UNKNOWN, beating
from tests.e2e.pipeline import register_all
from tests.e2e.process import Serve
from tests.e2e.wire import Connection, pool, registration, request_bytes

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

MANY = 5000
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")
ELEMENTS = 120  # rows that may be elements at one time, however many pools there are
STALL_MS = 1000  # that the page may be held by one piece of work, on a machine that does more than this

COUNT_ROW_MOVES = """() => {
  window.moves = 0;
  new MutationObserver((seen) => { window.moves += seen.length; }).observe(
    document.querySelector("#viewport tbody"), { childList: true });
}"""
WATCH_LONG_TASKS = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
  }).observe({ type: "longtask", buffered: true });
}"""


def many(count: int) -> list[bytes]:
    """Registrations of pool-0 and so on, in four regions."""
    regions = ("us-east-2", "us-west-2", "eu-west-1", "ap-south-1")
    return [
        registration(
            f"pool-{n}",
            model=f"org/model-{n % 7}",
            location={"region": regions[n % 4]},
            frontends=["http://10.0.0.1:8000"],
        )
        for n in range(count)
    ]


def test_5000_pools_appear_and_can_be_filtered_and_sorted(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    assert register_all(service.port, many(MANY)) == MANY
    status = open_page(service)
    status.evaluate(WATCH_LONG_TASKS)
    status.expect_count("5,000")
    assert 10 < status.rows.count() < ELEMENTS
    assert status.names[:3] == ["pool-0", "pool-1", "pool-2"]

    status.sort_by("Name")
    status.expect_listed("pool-4999")
    assert status.names[:3] == ["pool-4999", "pool-4998", "pool-4997"]
    expect(status.head("Name")).to_have_attribute("aria-sort", "descending")
    status.sort_by("Region")
    status.expect_listed("pool-3")
    assert status.names[:3] == ["pool-3", "pool-7", "pool-11"]
    expect(status.head("Region")).to_have_attribute("aria-sort", "ascending")
    assert status.head("Name").get_attribute("aria-sort") is None

    status.filter.fill("US-EAST-2 model-3 pool-48")
    expect(status.page.locator("#shown")).to_have_text(re.compile(r"^\d+ of 5,000 match$"), timeout=SOON_MS)
    matching = [n for n in range(MANY) if n % 4 == 0 and n % 7 == 3 and f"pool-{n}".startswith("pool-48")]
    expect(status.rows).to_have_count(len(matching))
    assert sorted(status.names) == sorted(f"pool-{n}" for n in matching)
    status.filter.fill("no such pool")
    expect(status.page.locator("#pools-note")).to_have_text("No pool matches the filter.")
    status.filter.fill("")
    status.expect_listed("pool-3")

    assert status.evaluate("window.longest") < STALL_MS


def test_the_table_scrolls_to_its_last_row_with_few_elements(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    assert register_all(service.port, many(MANY)) == MANY
    status = open_page(service)
    status.expect_count("5,000")
    for _ in range(2):
        status.evaluate("document.querySelector('#viewport').scrollTo(0, 1e9)")
        status.expect_listed("pool-4999")
        assert status.rows.count() < ELEMENTS
        last = status.row("pool-4999")
        expect(last).to_be_in_viewport()
        expect(last).to_have_attribute("aria-rowindex", "5001")
        status.evaluate("document.querySelector('#viewport').scrollTo(0, 0)")
        status.expect_listed("pool-0")
    expect(status.page.get_by_role("table", name=re.compile("Pools"))).to_have_attribute("aria-rowcount", "5001")


def test_a_change_off_screen_moves_no_row(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    assert register_all(service.port, many(MANY)) == MANY
    status = open_page(service)
    status.expect_count("5,000")
    status.expect_listed("pool-0")
    status.evaluate(COUNT_ROW_MOVES)
    changed = [registration(f"pool-{n}", model="org/changed") for n in range(4000, 4100)]
    assert register_all(service.port, changed) == len(changed)
    expect(status.page.locator("#feed").get_by_text("pool-4099")).to_have_count(1, timeout=SOON_MS)
    assert status.evaluate("window.moves") == 0
    status.filter.fill("org/changed")
    expect(status.page.locator("#shown")).to_have_text("100 of 5,000 match")


def test_pools_come_change_and_go_without_a_reload(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("first", model="org/one"))
    status = open_page(service)
    status.expect_listed("first")
    status.expect_state("Live")

    service.post("/pools", pool("second", model="org/two", frontends=["http://10.0.0.2:8000", "http://10.0.0.3:8000"]))
    status.expect_listed("second")
    expect(status.row("second")).to_contain_text("org/two")
    expect(status.row("second").get_by_role("link")).to_have_attribute("href", "http://10.0.0.2:8000/")
    expect(status.row("second")).to_contain_text("+1")
    service.post("/pools", pool("first", model="org/three"))
    expect(status.row("first")).to_contain_text("org/three", timeout=SOON_MS)
    with service.connect() as connection:
        assert connection.request("DELETE", "/pools/ohio/dynamo/second").status == 204
    status.expect_gone("second")
    status.expect_count("1")

    feed = status.page.locator("#feed li")
    lines = [re.sub(r"^[\d:]+\s+", "", text.replace("\n", " ")) for text in feed.all_inner_texts()]
    assert [line for line in lines if not line.startswith("list")] == [
        "left ohio / dynamo / second",
        "changed ohio / dynamo / first model",
        "new ohio / dynamo / second",
    ]


def test_routers_are_listed_and_kept_up_to_date(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600", "--router", "fixed=http://10.1.0.1:9000")
    status = open_page(service)
    rows = status.page.locator("#routers-rows tr")
    expect(rows).to_have_count(1, timeout=SOON_MS)
    service.post("/routers", {"id": "ohio-0", "url": "http://[::1]:9000"})
    expect(rows).to_have_count(2, timeout=SOON_MS)
    expect(rows.nth(1).get_by_role("link")).to_have_attribute("href", "http://[::1]:9000/")
    with service.connect() as connection:
        assert connection.request("DELETE", "/routers/ohio-0").status == 204
    expect(rows).to_have_count(1, timeout=SOON_MS)


def test_completeness_is_shown_with_what_is_waited_for(serve: Serve, open_page: Open) -> None:
    service = serve(*SHORT)
    with beating(service, "steady"):
        status = open_page(service)
        status.expect_completeness("Incomplete")
        expect(status.page.locator("#notices")).to_contain_text("pool-registrations")
        status.expect_completeness("Complete")
        expect(status.page.locator("#notices")).to_be_empty()
        expect(status.page.locator("#announcer")).to_contain_text("The list of pools is complete", timeout=SOON_MS)
        status.expect_listed("steady")


def test_a_lease_is_shown_from_what_the_service_said_and_never_longer(serve: Serve, open_page: Open) -> None:
    service = serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "8")
    with beating(service, "steady") as pools:
        service.post("/pools", pool("silent"))
        status = open_page(service)
        left = status.row("steady").locator(".lease .left")
        expect(left).to_have_text(re.compile(r"^[4-7] s$"), timeout=SOON_MS)
        assert pools == {"steady"}
        status.expect_gone("silent")
        expect(left).to_have_text(re.compile(r"^[2-7] s$"))


def test_a_lease_that_nothing_is_known_of_has_no_number(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("unexplained"))
    status = open_page(service, scripted={"pools/.*/explain": ("application/json", '{"lease": "soon"')})
    status.expect_listed("unexplained")
    for _ in range(2):
        with status.page.expect_response(re.compile("/explain$")):
            expect(status.row("unexplained").locator(".lease .left")).to_have_text(UNKNOWN)


def test_a_table_sorted_by_lease_says_of_how_many_leases_it_knew(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    for number in range(60):
        assert service.post("/pools", pool(f"p{number}")).status == 200
    status = open_page(service)
    expect(status.row("p0").locator(".lease .left")).not_to_have_text(UNKNOWN, timeout=SOON_MS)
    status.sort_by("Lease left")
    said = status.page.locator("#shown")
    expect(said).to_have_text(re.compile(r"^sorted by the \d+ leases? known then$"))
    assert 1 <= int(said.inner_text().split()[3]) < 60
    status.sort_by("Name")
    expect(said).to_have_text("")


def test_the_panel_says_in_sentences_why_a_pool_is_listed(serve: Serve, open_page: Open) -> None:
    service = serve("--heartbeat-interval-secs", "1", "--lease-duration-secs", "5")
    facts = {
        "model": "org/one",
        "location": {"region": "eu", "rack": 7},
        "capabilities": ["chat"],
        "frontends": ["http://10.0.0.2:8000"],
    }
    with beating(service, "asked", **facts):
        status = open_page(service)
        status.row("asked").get_by_role("button", name="Why asked").click()
        expect(status.why).to_be_visible()
        expect(status.why.get_by_role("heading", name="asked")).to_be_visible()
        expect(status.why.locator("[data-part=verdict]")).to_have_text("listed", timeout=SOON_MS)
        expect(status.why).to_contain_text(
            re.compile(r"Its last heartbeat came [\d.]+ s ago, and its lease holds for another [\d.]+ s\.")
        )
        expect(status.why).to_contain_text(re.compile(r"It has registered [\d,]+ times?"))
        for text in ("org/one", "region: eu", "rack: 7", "chat", "pool-registrations"):
            expect(status.why).to_contain_text(text)
        expect(status.why.get_by_role("link", name="http://10.0.0.2:8000")).to_be_visible()
    expect(status.why.locator("[data-part=verdict]")).to_have_text("not listed", timeout=SOON_MS)  # it fell silent
    status.page.keyboard.press("Escape")
    expect(status.why).to_be_hidden()


def test_a_held_page_stands_still_and_then_catches_up(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("first"))
    status = open_page(service)
    status.expect_listed("first")
    status.page.get_by_role("button", name="Hold").click()
    before = status.page.locator("#feed").inner_text()
    service.post("/pools", pool("second"))
    expect(status.page).to_have_title(re.compile("2 pools"), timeout=SOON_MS)  # it has heard of it
    status.expect_gone("second")
    assert status.page.locator("#feed").inner_text() == before
    status.page.get_by_role("button", name="Hold").click()
    status.expect_listed("second")


def test_plots_say_in_words_what_they_draw(serve: Serve, open_page: Open) -> None:
    service = serve(*SHORT)
    with beating(service, "one", "two"):
        status = open_page(service)
        expect(status.page.locator("#plot-pools .value")).to_have_text("2", timeout=SOON_MS)
        rate = status.page.locator("#plot-rate .value")
        expect(rate).to_have_text(re.compile(r"^[1-9]\.\d$"), timeout=SOON_MS)  # two pools, three times a second
        label = re.compile(r"^Pools, last 5 minutes: now 2, between [012] and 2$")
        expect(status.page.locator("#plot-pools svg")).to_have_attribute("aria-label", label, timeout=SOON_MS)
        expect(status.page.locator("#plot-pools .line")).to_have_attribute("d", re.compile(r"^M[\d.]+ [\d.]+L"))


def test_without_a_watch_the_list_is_polled(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600", "--max-watchers", "1")
    service.post("/pools", pool("first"))
    with Connection(service.port) as watcher:
        watcher.send(request_bytes("GET", "/pools/watch"))
        assert watcher.socket.recv(1 << 16)
        status = open_page(service)
        status.expect_state("Polling")
        status.expect_listed("first")
        service.post("/pools", pool("second"))
        status.expect_listed("second")
        with service.connect() as connection:
            assert connection.request("DELETE", "/pools/ohio/dynamo/first").status == 204
        expect(status.row("first")).to_have_class(re.compile("unconfirmed"), timeout=SOON_MS)  # the list is incomplete
    assert json.dumps(service.names()) == '["second"]'
