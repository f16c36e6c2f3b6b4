"""The whole watch layer against a server that breaks every rule it can, on real sockets and a clock of our own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gdsvc.kube.framing import STEP_BYTES
from tests.kube.api_server import (
    HEAD,
    Deed,
    answer,
    api_server,
    close_at_once,
    refuse_connection,
    reply,
    silence,
)
from tests.kube.stand import Stand, standing, until
from tests.unit.kube.events import error, event, slice_dict, status


@asynccontextmanager
async def synced(**options: Any) -> AsyncIterator[Stand]:
    """A stand whose view holds the slice `a`, watching."""
    async with api_server() as api:
        api.put("a", "10.0.0.1")
        async with standing(api, **options) as stand:
            await stand.told("swap first a")
            await stand.at_rest()
            yield stand


async def test_a_view_is_synced_and_follows() -> None:
    async with synced() as stand:
        stand.api.put("b", "10.0.0.2")
        stand.api.put("a", "10.0.0.3")
        stand.api.delete("b")
        await stand.told("apply b", "apply a", "delete b")
        assert stand.kinds == []
        assert stand.api.kinds() == ["stream"]


async def test_a_watch_that_ended_goes_on_where_it_was() -> None:
    async with synced() as stand:
        stand.api.put("b")
        await stand.told("apply b")
        await stand.pass_time(50)
        stand.api.end_watches()
        await until(lambda: stand.api.kinds() == ["stream", "watch"])
        assert stand.api.requests[-1].query["resourceVersion"] == str(stand.api.revision)
        stand.api.put("c")
        await stand.told("apply c")
        assert stand.kinds == []


async def test_an_empty_cluster_is_a_view_too() -> None:
    async with api_server() as api, standing(api) as stand:
        await stand.told("swap first")


async def test_a_server_without_streaming_lists_is_asked_plainly_at_once() -> None:
    async with api_server(streaming=False) as api:
        api.put("a")
        async with standing(api) as stand:
            await stand.told("swap first a")
            await stand.at_rest()
            assert api.kinds() == ["stream", "list", "watch"]
            assert api.requests[1].query == {"resourceVersion": "0"}
            assert stand.kinds == []


@pytest.mark.parametrize("name", ["a", ""])
async def test_a_server_that_never_heard_of_streaming_lists_is_asked_plainly_after_three_seconds(name: str) -> None:
    """It takes one for a watch: it sends what there is, if anything, and no end."""
    async with api_server(knows_streaming=False) as api:
        if name:
            api.put(name)
        async with standing(api) as stand:
            await stand.pass_time(2)
            assert stand.view.told == []
            await stand.pass_time(1)
            await stand.told(f"swap first {name}".rstrip())
            assert stand.kinds == []


# --------------------------------------------------------------------------------------- expired revisions


async def test_410_in_the_stream_is_a_fresh_list_in_two_requests() -> None:
    async with synced() as stand:
        stand.api.say(error(410, "Expired", "too old resource version"))
        await until(lambda: stand.kinds == ["expired"])
        await stand.pass_time(1)
        await stand.told("swap expired a")
        assert stand.api.kinds() == ["stream", "stream"]
        assert "resourceVersion" not in stand.api.requests[1].query


async def test_410_as_a_status_is_a_fresh_list_in_two_requests() -> None:
    async with synced() as stand:
        stand.api.script.append(reply(answer(410, status(410, "Expired"))))
        await stand.pass_time(50)
        stand.api.end_watches()
        await until(lambda: stand.kinds == ["expired"])
        assert sorted(stand.view.items) == ["a"]
        await stand.pass_time(1)
        await stand.told("swap expired a")
        assert stand.api.kinds() == ["stream", "watch", "stream"]


async def test_a_server_that_lost_its_history_is_listed_anew() -> None:
    """A backup was restored: revisions are smaller than those that we hold."""
    async with synced(relist_secs=100) as stand:
        stand.api.streaming = False
        stand.api.revision, stand.api.journal = 5, []
        stand.api.objects = {"old": slice_dict("old", 5)}
        await stand.pass_time(94)
        await stand.told("swap too_large_revision old")
        assert stand.kinds == ["too_large_revision"]


# -------------------------------------------------------------------------------------------------- relists


async def test_a_delete_that_was_never_told_is_gone_within_a_relist_interval() -> None:
    async with synced(relist_secs=600) as stand:
        stand.api.delete("a", told=False)
        for _ in range(12):  # a server ends each watch after its time
            await stand.pass_time(50)
            stand.api.end_watches()
            await stand.at_rest()
        await stand.told("swap interval")
        assert stand.kinds == []


async def test_a_relist_that_breaks_half_way_counts_for_nothing() -> None:
    async with synced(relist_secs=100) as stand:
        stand.api.put("b")
        await stand.told("apply b")
        half = HEAD + event("ADDED", "a", 5) + b"\n" + event("ADDED", "ghost", 5) + b"\n"
        stand.api.script.append(reply(half + error(503, "ServiceUnavailable") + b"\n"))
        await stand.pass_time(90)
        await until(lambda: stand.kinds == ["refused"])
        assert (stand.view.told, sorted(stand.view.items)) == ([], ["a", "b"])
        await stand.pass_time(2)
        await stand.told("swap interval a b")


async def test_a_plain_relist_that_is_cut_counts_for_nothing() -> None:
    async with api_server(streaming=False) as api:
        api.put("a")
        async with standing(api, relist_secs=100) as stand:
            await stand.told("swap first a")
            body = api.list_body()
            api.script.append(reply(answer(200, body)[:-40]))
            await stand.pass_time(91)
            await until(lambda: stand.kinds == ["connection"])
            await stand.pass_time(2)
            await stand.told("swap interval a")
            assert api.requests[-1].query != {}


async def test_a_relist_names_the_last_revision_seen() -> None:
    async with synced(relist_secs=100) as stand:
        stand.api.put("b")
        await stand.told("apply b")
        await stand.pass_time(91)
        await stand.told("swap interval a b")
        query = stand.api.requests[-1].query
        assert (query["resourceVersion"], query["resourceVersionMatch"]) == (str(stand.api.revision), "NotOlderThan")


# --------------------------------------------------------------------------------------- a server that is ill


async def test_a_server_that_closes_at_once_is_asked_fewer_than_60_times_a_minute() -> None:
    async with synced() as stand:
        stand.api.always = close_at_once
        stand.api.end_watches()
        await stand.pass_time(60)
        assert 3 < len(stand.api.requests) < 15
        assert set(stand.kinds) == {"ended_early"}
        assert sorted(stand.view.items) == ["a"]


async def test_a_server_that_lists_well_but_expires_every_watch_is_backed_off_too() -> None:
    async with api_server(streaming=False) as api, standing(api) as stand:
        await stand.told("swap first")
        api.compacted = 10**9
        api.end_watches()
        await stand.pass_time(60)
        assert len(api.requests) < 25


async def test_retry_after_is_waited_for() -> None:
    async with synced() as stand:
        stand.api.script.append(reply(answer(429, b"too many requests", "Retry-After: 17", content_type="text/plain")))
        await stand.pass_time(50)
        stand.api.end_watches()
        await until(lambda: stand.timing.waits == [17.4])
        assert stand.kinds == ["throttled"]


def throttled(secs: int) -> Deed:
    return reply(answer(429, b"later", f"Retry-After: {secs}", content_type="text/plain"))


async def test_after_an_outage_a_lost_history_and_throttling_cost_no_long_wait() -> None:
    async with synced() as stand:
        stand.api.always = refuse_connection
        stand.api.end_watches()
        await stand.pass_time(120)
        stand.api.always = None
        stand.api.script += [reply(answer(410, status(410, "Expired"))), throttled(1), throttled(1)]
        await stand.pass_time(31)
        await stand.told("swap expired a")
        assert stand.kinds[-3:] == ["expired", "throttled", "throttled"]
        exact_at, stale = stand.view.completeness_at[-1]
        assert not stale
        assert exact_at - stand.view.failed_at[-3] == pytest.approx(0.6 + 2 * 1.4)


async def test_a_server_that_expires_every_revision_is_backed_off_as_before() -> None:
    async with synced() as stand:
        stand.api.always = reply(answer(410, status(410, "Expired")))
        stand.api.end_watches()
        await stand.pass_time(60)
        assert set(stand.kinds[1:]) == {"expired"}
        assert len(stand.api.requests) < 15


async def test_a_server_that_throttles_without_end_is_asked_fewer_than_60_times_a_minute() -> None:
    async with synced() as stand:
        stand.api.always = throttled(0)
        stand.api.end_watches()
        await stand.pass_time(60)
        assert len(stand.api.requests) < 60
        assert sorted(stand.view.items) == ["a"]


@pytest.mark.parametrize(
    ("deed", "kind"),
    [
        (reply(answer(200, b"<html>login</html>", content_type="text/html")), "unreadable"),
        (reply(HEAD, b"<html><body>502</body></html>\n"), "unreadable"),
        (reply(HEAD, b'"Unauthorized"\n'), "unreadable"),
        (reply(HEAD, event("ADDED", "cut", 500)[:50]), "unreadable"),
        (reply(HEAD, b'{"type":"ERROR","object":{"code":500}}\n'), "refused"),
        (reply(HEAD, b'{"type":"NEWS","object":{}}\n'), "unknown_event"),
        (reply(answer(500, b"")), "refused"),
        (reply(answer(503, b"upstream connect error", content_type="text/plain")), "refused"),
        (reply(b"SSH-2.0-OpenSSH_9.9\r\n"), "connection"),
        (reply(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"), "connection"),
    ],
)
async def test_no_answer_ends_the_watch_for_good(deed: Deed, kind: str) -> None:
    async with synced() as stand:
        stand.api.script.append(deed)
        await stand.pass_time(50)
        stand.api.end_watches()
        await until(lambda: kind in stand.kinds)
        await stand.pass_time(2)
        await until(lambda: bool(stand.api.watchers))
        stand.view.told.clear()
        stand.api.put("b")
        await stand.told("apply b")


async def test_a_silent_server_is_an_error_after_the_read_timeout() -> None:
    async with synced(read_secs=0.2) as stand:
        stand.api.always = silence
        await until(lambda: "timeout" in stand.kinds)
        assert sorted(stand.view.items) == ["a"]


@pytest.mark.parametrize("error", [LookupError, ValueError, TimeoutError, ConnectionError])
async def test_a_view_that_raises_is_given_the_whole_list_again(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it raises: taken for a failure of the socket, its event would be lost."""
    async with synced() as stand:
        stand.view.raises = error("the view is broken")
        stand.api.put("b")
        await until(lambda: stand.kinds == ["internal"])
        await stand.pass_time(1)
        await stand.told("swap internal a b")
        assert "the view is broken" in caplog.text


# ------------------------------------------------------------------------------------------------- freshness


async def test_with_every_request_failing_the_first_error_past_60_s_marks_stale() -> None:
    async with synced() as stand:
        stand.api.always = refuse_connection
        stand.api.end_watches()
        await stand.pass_time(90)
        first = stand.view.failed_at[0]
        past = next(at for at in stand.view.failed_at if at - first >= 60)
        assert stand.view.completeness_at == [(past, True)]
        assert sorted(stand.view.items) == ["a"]


async def stale(stand: Stand) -> None:
    """Fails every request until the view is stale, then serves again."""
    stand.api.always = refuse_connection
    stand.api.end_watches()
    await stand.pass_time(90)
    assert stand.view.completeness_at[-1][1]
    stand.api.always = None
    await stand.pass_time(31)
    await until(lambda: bool(stand.api.watchers))


async def test_a_stale_view_is_exact_again_after_a_real_event() -> None:
    async with synced() as stand:
        await stale(stand)
        assert stand.reflector.stale
        stand.api.put("b")
        await stand.told("apply b")
        assert [told for _, told in stand.view.completeness_at] == [True, False]


async def test_a_stale_view_is_exact_again_after_120_s_without_an_error() -> None:
    async with synced() as stand:
        await stale(stand)
        last = stand.view.failed_at[-1]
        await stand.pass_time(last + 119 - stand.timing.at)
        assert stand.reflector.stale
        await stand.pass_time(2)
        assert [told for _, told in stand.view.completeness_at] == [True, False]
        assert 120 <= stand.view.completeness_at[-1][0] - last <= 121


async def test_a_stale_view_is_exact_again_after_a_whole_relist_but_not_after_a_broken_one() -> None:
    async with synced() as stand:
        await stale(stand)
        stand.api.script.append(reply(HEAD, event("ADDED", "a", 5), b"\n", error(503), b"\n"))
        stand.api.say(error(410, "Expired"))
        await until(lambda: stand.kinds[-1] == "expired")
        await stand.pass_time(1)
        await until(lambda: stand.kinds[-1] == "refused")
        assert stand.reflector.stale
        await stand.pass_time(31)
        await stand.told("swap expired a")
        assert not stand.reflector.stale


async def test_a_lone_error_in_a_quiet_cluster_never_makes_it_stale() -> None:
    async with synced() as stand:
        stand.api.end_watches()
        await stand.pass_time(200)
        assert stand.kinds == ["ended_early"]
        assert stand.view.completeness_at == []


# ------------------------------------------------------------------------------------------------------ size


async def test_a_big_list_is_taken_in_steps() -> None:
    addresses = [f"10.0.{n // 250}.{n % 250}" for n in range(100)]
    async with api_server(streaming=False) as api:
        for number in range(150):
            api.objects[f"s{number}"] = slice_dict(f"s{number}", 7, *addresses)
        body = api.list_body()
        async with standing(api) as stand:
            await until(lambda: bool(stand.view.told))
            assert len(stand.view.items) == 150
            assert stand.reflector.report.steps >= len(body) // STEP_BYTES


async def test_a_line_without_an_end_is_dropped_with_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsvc.kube.framing.MAX_PENDING_BYTES", 100_000)
    async with synced() as stand:
        stand.api.say(b'{"type":"' + b"x" * 200_000)
        await until(lambda: stand.kinds == ["too_large"])
        await stand.pass_time(1)
        await until(lambda: stand.api.kinds() == ["stream", "watch"])


async def test_leaving_closes_the_watch() -> None:
    async with synced() as stand:
        api = stand.api
        assert api.watchers
    await until(lambda: not api.watchers)


async def test_what_is_asked_carries_the_token_and_no_failure_shows_it() -> None:
    async with synced() as stand:
        assert stand.api.requests[0].headers["authorization"] == "Bearer s3cret-t0ken"
        assert stand.api.requests[0].path == "/apis/discovery.k8s.io/v1/endpointslices"
        for deed in (refuse_connection, reply(answer(401, status(401, "Unauthorized")))):
            stand.api.script.append(deed)
        stand.api.end_watches()
        await stand.pass_time(8)
        assert "unauthorized" in stand.kinds
        assert stand.credentials.renewals == 1
        assert "s3cret-t0ken" not in json.dumps([failure.message for failure in stand.view.failures])
