"""A service that stops and comes back: what the page says meanwhile, and what it knows afterwards."""

import re
import signal
import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.status_page import SOON_MS, UNKNOWN, beating
from tests.e2e.process import POLL_SECS, Serve, Service
from tests.e2e.wire import PATIENCE, pool

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")
STALE_MS = 40_000


def expect_watchers(service: Service, count: int) -> None:
    """Returns once so many streams are open."""
    deadline = time.monotonic() + PATIENCE
    while service.samples()["gdsvc_watchers"] != count:
        assert time.monotonic() < deadline
        time.sleep(POLL_SECS)


def test_a_stopped_service_is_said_to_be_gone_and_a_restarted_one_is_shown_as_it_is(
    serve: Serve, open_page: Open
) -> None:
    service = serve(*LEASE)
    with beating(service, "stays", "leaves"):
        status = open_page(service)
        status.expect_state("Live")
        status.expect_completeness("Complete")
        status.expect_listed("leaves")
    assert service.stop() == 0
    status.expect_state("Reconnecting")
    status.expect_listed("stays")  # as it was known last
    expect(status.page.locator("#connection")).to_have_text("Stale", timeout=STALE_MS)
    expect(status.page.locator("#notices")).to_contain_text(re.compile("No sign of the service for"))
    expect(status.page).to_have_title(re.compile("stale"))
    expect(status.row("stays").locator(".lease .left")).to_have_text(UNKNOWN)

    again = serve(*LEASE, "--listen", f"127.0.0.1:{service.port}")
    with beating(again, "stays", "comes"):
        status.expect_listed("comes")
        expect(status.page.locator("#connection")).to_have_text("Live", timeout=STALE_MS)
        status.expect_completeness("Complete")
        status.expect_gone("leaves")
        assert sorted(status.names) == ["comes", "stays"]
        expect(status.page.locator("#notices")).to_be_empty()


def test_an_incomplete_list_after_a_restart_takes_nothing_away(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("before"))
    status = open_page(service)
    status.expect_listed("before")
    assert service.stop() == 0
    again = serve("--lease-duration-secs", "3600", "--listen", f"127.0.0.1:{service.port}")
    again.post("/pools", pool("after"))
    status.expect_listed("after")
    expect(status.row("before")).to_have_class(re.compile("unconfirmed"))
    expect(status.row("before").locator(".lease")).to_contain_text("unconfirmed")
    expect(status.page.locator("#notices")).to_contain_text("1 entry known from before is kept as unconfirmed")


def test_a_page_out_of_sight_gives_its_connections_back_and_goes_on_where_it_was(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("before"))
    status = open_page(service, movable_clock=True)
    status.expect_state("Live")
    watching = service.samples()
    assert watching["gdsvc_watchers"] == 2
    status.show_or_hide(hidden=True)
    status.page.clock.fast_forward(61_000)
    expect_watchers(service, 0)
    service.post("/pools", pool("meanwhile"))
    status.show_or_hide(hidden=False)
    status.expect_listed("meanwhile")
    status.expect_state("Live")
    resyncs = 'gdsvc_watch_resyncs_total{cause="start"}'
    assert service.samples()[resyncs] == watching[resyncs]  # it was told only what it had missed


def test_a_watch_that_falls_behind_the_metrics_is_opened_anew(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("only"))
    status = open_page(service, scripted={"metrics": ("text/plain", "gdsvc_revision 999.0\n")})
    status.expect_state("Live")
    with status.page.expect_request(re.compile(r"/pools/watch\?since=[0-9a-f]{16}-\d+$"), timeout=STALE_MS):
        pass
    status.expect_state("Live")
    status.expect_listed("only")


def test_a_service_that_hangs_is_stale_though_its_connections_are_open(serve: Serve, open_page: Open) -> None:
    service = serve("--lease-duration-secs", "3600")
    service.post("/pools", pool("only"))
    status = open_page(service)
    status.expect_state("Live")
    service.send_signal(signal.SIGSTOP)
    expect(status.page.locator("#connection")).to_have_text("Stale", timeout=STALE_MS)
    service.send_signal(signal.SIGCONT)
    expect(status.page.locator("#connection")).to_have_text("Live", timeout=SOON_MS)
    status.expect_listed("only")
