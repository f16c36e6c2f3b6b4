"""The fleet load generator without a network: how it reads streams, judges expiries, finds what went astray."""

import json
from random import Random
from typing import Any

import pytest

from bench.fleet.latencies import Latencies
from bench.fleet.ledger import EVENTS_KEPT, GONE, Ledger
from bench.fleet.observer import samples_of
from bench.fleet.plan import Plan, Target, WrongUrl, faults, target_of
from bench.fleet.pools import Pool, body
from bench.fleet.population import Due
from bench.fleet.relays import Relay, Schedule
from bench.fleet.stream import Blocks, Broken, Dechunker, block_of, head_of
from bench.fleet.track import Track
from gdsvc import model

LEASE_SECS = 15.0
SITE = "fleet-test"

# ---------------------------------------------------------------------------------------------------------- plans


def test_a_url_names_a_target() -> None:
    assert target_of("http://127.0.0.1:8080/") == Target("127.0.0.1", 8080)
    assert target_of("https://gdsvc.example", "ca.pem") == Target("gdsvc.example", 443, tls=True, ca="ca.pem")
    assert target_of("http://[::1]").host_field == "[::1]:80"


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://a", "http://", "http://a/pools", "http://a:port", "http://["]
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(WrongUrl):
        target_of(url)


def test_a_plan_that_makes_no_sense_is_told_all_its_faults() -> None:
    wrong = Plan(pools=0, changes=-1.0, seconds=0.0, heartbeat_secs=0.0, jitter=1.0, stuck=1)
    flags = [fault.partition(":")[0] for fault in faults(wrong, tls=True)]
    assert flags == ["--pools", "--changes", "--seconds", "--heartbeat-secs", "--jitter", "--stuck"]
    assert list(faults(Plan())) == []


def test_what_happens_at_a_rate_happens_as_often_however_time_is_cut() -> None:
    due = Due(7.5)
    random = Random(1)
    steps = [random.random() / 100 for _ in range(1000)]
    assert sum(map(due.after, steps)) == pytest.approx(7.5 * sum(steps), abs=1)


def test_the_body_is_a_registration_of_ordinary_size() -> None:
    for number in (0, 7, 9_999_999):
        encoded = body(SITE, number, 3)
        assert 250 < len(encoded) < 350
        registration = model.decode_registration(encoded)
        assert registration.key.site_id == SITE
        assert registration.capacity is not None
        assert registration.capacity.max_concurrency == 3


# ------------------------------------------------------------------------------------------------------ latencies


def test_quantiles_are_of_what_was_added() -> None:
    latencies = Latencies()
    assert (latencies.quantile(0.5), latencies.max) == (0.0, 0.0)
    for milliseconds in range(1, 101):
        latencies.add(milliseconds / 1000)
    assert latencies.quantile(0.5) == pytest.approx(0.050, abs=2e-4)
    assert latencies.quantile(0.99) == pytest.approx(0.099, abs=2e-4)
    assert (latencies.quantile(1.0), latencies.max, latencies.count) == (0.1, 0.1, 100)


def test_what_takes_for_ever_is_counted_too() -> None:
    latencies = Latencies()
    for seconds in (-0.001, 3.0, 1e6):
        latencies.add(seconds)
    assert latencies.quantile(0.5) == pytest.approx(3.0, abs=0.11)
    assert latencies.max == 1e6


# -------------------------------------------------------------------------------------------------------- streams


def test_a_head_is_read_when_it_is_whole() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y:  z \r\n\r\nhello"
    for cut in range(len(whole) - 5):
        assert head_of(whole[:cut]) is None
    head = head_of(whole)
    assert head is not None
    assert (head.status, whole[head.size :]) == (200, b"hello")
    assert head.fields == {b"content-length": b"5", b"x-y": b"z"}


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-x\r\n", b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1" + b"x" * 70_000, b"\x16\x03\x01"]
)
def test_what_is_no_http_is_said_to_be_broken(data: bytes) -> None:
    with pytest.raises(Broken):
        head_of(data)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_are_joined_however_they_are_cut(size: int) -> None:
    text = bytes(range(256)) * 3
    sent = (
        b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in (text[:1], text[1:100], text[100:])) + b"0\r\n\r\n"
    )
    dechunker = Dechunker()
    carried = b"".join(dechunker.feed(sent[at : at + size]) for at in range(0, len(sent), size))
    assert (carried, dechunker.ended) == (text, True)


@pytest.mark.parametrize("data", [b"zz\r\n", b"x" * 2000])
def test_what_is_no_chunk_is_said_to_be_broken(data: bytes) -> None:
    with pytest.raises(Broken):
        Dechunker().feed(data)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_stream_is_cut_at_its_empty_lines_however_it_comes(size: int) -> None:
    text = b": hello\n\nevent: a\ndata: 1\n\nid: e-5\n\n" + b"data: " + b"x" * 300 + b"\n\nrest"
    blocks = Blocks()
    cut = [block for at in range(0, len(text), size) for block in blocks.feed(text[at : at + size])]
    assert cut == [b": hello", b"event: a\ndata: 1", b"id: e-5", b"data: " + b"x" * 300]


def test_a_block_is_taken_apart() -> None:
    block = block_of(b"event: upserted\nid: abc-12-f00\ndata: {}\ndata: []")
    assert (block.event, block.data, block.epoch, block.revision) == (b"upserted", b"{}\n[]", b"abc", 12)
    assert block_of(b": alive\nid: abc-12").event == b""
    assert block_of(b"retry: 1000").revision == -1


@pytest.mark.parametrize("raw", [b"event: upserted\ndata: {}", b"id: 12", b"id: a-b", b"id: -1"])
def test_an_event_without_a_revision_is_said_to_be_broken(raw: bytes) -> None:
    with pytest.raises(Broken):
        block_of(raw)


def test_samples_are_read_by_name_and_labels() -> None:
    text = b'# HELP a b\n# TYPE a gauge\na 1\nb{x="y"} 2.5e3\nc NaN1\n'
    assert samples_of(text) == {"a": 1.0, 'b{x="y"}': 2500.0}


# ---------------------------------------------------------------------------------------------------------- tracks


def track(*steps: tuple[str, int]) -> Track:
    made = Track()
    for kind, revision in steps:
        (made.resync if kind == "resync" else made.event)(b"e", revision)
    return made


KNOWN = {b"e": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [  # (disordered, duplicates, missing)
        ([("resync", 0), *(("event", n) for n in range(1, 7))], (0, 0, 0)),
        ([("resync", 6)], (0, 0, 0)),
        ([("resync", 4), ("event", 5), ("event", 6)], (0, 0, 0)),
        ([("resync", 4), ("event", 6)], (0, 0, 1)),
        ([("resync", 4), ("event", 5)], (0, 0, 1)),
        ([("resync", 2), ("event", 4), ("resync", 6)], (0, 0, 1)),
        ([("resync", 2), ("event", 3), ("resync", 6)], (0, 0, 0)),
        ([("resync", 5), ("event", 6), ("event", 6)], (0, 1, 0)),
        ([("resync", 4), ("event", 6), ("event", 5)], (1, 0, 1)),
        ([("resync", 6), ("resync", 5)], (1, 0, 1)),
        ([("event", 1)], (1, 0, 0)),
    ],
)
def test_a_track_tells_what_went_astray(steps: list[tuple[str, int]], expected: tuple[int, int, int]) -> None:
    made = track(*steps)
    assert (made.disordered, made.duplicates, made.missing(KNOWN)) == expected


def test_revisions_of_another_epoch_need_a_resync() -> None:
    made = track(("resync", 5))
    made.event(b"other", 6)
    assert made.disordered == 1
    made.resync(b"other", 1)
    made.event(b"other", 2)
    assert (made.disordered, made.missing({b"e": [5], b"other": [1, 2]}), made.resyncs) == (1, 0, 1)


# --------------------------------------------------------------------------------------------------------- expiries


def beaten(*sent_at: float) -> Pool:
    """A pool whose beats were sent then and answered."""
    pool = Pool(1, lambda version: body(SITE, 1, version))
    for instant in sent_at:
        pool.asked(instant)
        assert pool.answered(instant, instant, LEASE_SECS) == 0
    return pool


def test_a_removal_within_a_lease_of_the_last_beat_is_false_and_one_later_is_not() -> None:
    assert beaten(0.0, 5.0).removed(19.999, LEASE_SECS)
    assert not beaten(0.0, 5.0).removed(20.0, LEASE_SECS)


def test_a_removal_is_excused_once_by_a_lease_that_ended_before_the_next_beat() -> None:
    pool = beaten(0.0, 15.0)
    assert not pool.removed(15.5, LEASE_SECS), "that of second 15, seen late"
    assert pool.removed(16.0, LEASE_SECS)
    assert beaten(0.0, 14.999).removed(15.5, LEASE_SECS)


def test_a_beat_that_waits_in_the_service_shows_a_removal_to_be_false_once_it_is_answered() -> None:
    pool = beaten(0.0)
    pool.asked(5.0)
    assert not pool.removed(16.0, LEASE_SECS)
    assert pool.answered(5.0, 5.0, LEASE_SECS) == 1
    lost = beaten(0.0)
    lost.asked(5.0)
    assert not lost.removed(16.0, LEASE_SECS)
    lost.unanswered(5.0)
    lost.asked(17.0)
    assert lost.answered(17.0, 17.0, LEASE_SECS) == 0


# ---------------------------------------------------------------------------------------------------------- ledger


def upserted(revision: int, version: int, number: int = 1, site: str = SITE) -> bytes:
    return b"event: upserted\nid: e-%d\ndata: %b" % (revision, body(site, number, version))


def removed(revision: int, number: int = 1) -> bytes:
    key = json.dumps({"key": {"site_id": SITE, "namespace": "fleet", "dgd_name": f"pool-{number:07}"}}).encode()
    return b"event: removed\nid: e-%d\ndata: %b" % (revision, key)


def listed(*numbers: int, complete: bool = True) -> bytes:
    pools: list[Any] = [json.loads(body(SITE, number, 1)) for number in numbers]
    return json.dumps({"complete": complete, "pools": pools}).encode()


class Stand:
    """A ledger with one pool that was heard at 0, and two watchers."""

    def __init__(self) -> None:
        self.ledger = Ledger(SITE, LEASE_SECS)
        self.pool = beaten(0.0)
        self.ledger.pools[self.pool.name] = self.pool
        self.tracks = [track(("resync", 0)), track(("resync", 0))]

    def show(self, block: bytes, now: float, watcher: int = 0) -> bytes:
        return self.ledger.received_by(self.tracks[watcher], block, now)

    def change(self, now: float) -> int:
        self.pool.change()
        self.ledger.asked(self.pool, self.pool.version, now)
        return self.pool.version


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_a_change_is_timed_at_every_watcher(stand: Stand) -> None:
    version = stand.change(1.0)
    assert stand.show(upserted(1, version), 1.010) == b"e-1"
    stand.show(upserted(1, version), 1.030, watcher=1)
    assert (stand.ledger.latencies.count, stand.ledger.received, stand.ledger.heard_of) == (2, 2, 1)
    assert stand.ledger.latencies.max == pytest.approx(0.030)


def test_a_change_that_nobody_hears_of_is_lost_unless_a_resync_covers_it(stand: Stand) -> None:
    version = stand.change(1.0)
    assert stand.ledger.lost(stand.tracks) == 0, "the service has not said yes"
    stand.ledger.settled(stand.pool, version)
    assert stand.ledger.lost(stand.tracks) == 1
    stand.show(b"event: resync\nid: e-1\ndata: {}", 2.0)
    assert stand.ledger.lost(stand.tracks) == 1, "the other watcher had none"
    stand.show(b"event: resync\nid: e-1\ndata: {}", 2.0, watcher=1)
    assert stand.ledger.lost(stand.tracks) == 0


def test_what_is_settled_and_heard_of_is_forgotten(stand: Stand) -> None:
    for revision in range(1, 101):
        version = stand.change(float(revision))
        if revision % 2:
            stand.ledger.settled(stand.pool, version)
        stand.show(upserted(revision, version), revision + 0.1)
        stand.ledger.settled(stand.pool, version)
    assert stand.ledger.changes == {}
    assert stand.ledger.heard_of == 100


def test_a_removal_that_was_asked_for_is_an_event_like_any_other(stand: Stand) -> None:
    stand.ledger.asked(stand.pool, GONE, 1.0)
    stand.show(removed(1), 1.1)
    stand.ledger.settled(stand.pool, GONE)
    assert (stand.ledger.false_expiries, stand.ledger.expired, stand.ledger.pools) == (0, 0, {})


def test_a_false_expiry_is_counted_once_however_often_it_is_seen(stand: Stand) -> None:
    stand.show(removed(1), 3.0)
    stand.show(removed(1), 3.1, watcher=1)
    stand.ledger.listed(listed(), stand.ledger.expected(4.0), 4.1)
    assert (stand.ledger.false_expiries, stand.ledger.expired) == (1, 0)
    stand.show(upserted(2, 1), 5.0)
    stand.show(removed(3), 6.0)
    assert stand.ledger.false_expiries == 2


def test_an_expiry_in_due_time_is_no_fault(stand: Stand) -> None:
    stand.show(removed(1), 15.1)
    assert (stand.ledger.false_expiries, stand.ledger.expired) == (0, 1)


@pytest.mark.parametrize(
    ("document", "asked_at", "answered_at", "false"),
    [
        (listed(1), 10.0, 10.1, 0),
        (listed(), 10.0, 10.1, 1),
        (listed(complete=False), 10.0, 10.1, 0),
        (listed(), 14.9, 15.1, 0),
        (listed(), 15.0, 15.1, 0),
    ],
)
def test_a_complete_list_without_a_pool_that_beat_in_time_is_a_false_expiry(
    stand: Stand, document: bytes, asked_at: float, answered_at: float, false: int
) -> None:
    stand.ledger.listed(document, stand.ledger.expected(asked_at), answered_at)
    assert stand.ledger.false_expiries == false


def test_a_pool_that_is_leaving_need_not_be_listed(stand: Stand) -> None:
    expected = stand.ledger.expected(1.0)
    stand.pool.leaving = True
    stand.ledger.listed(listed(), expected, 1.1)
    assert (stand.ledger.false_expiries, stand.ledger.expected(1.0)) == (0, {})


def test_pools_of_others_are_nobodys_business_but_their_revisions_count(stand: Stand) -> None:
    stand.show(upserted(1, 9, site="elsewhere"), 1.0)
    stand.show(upserted(2, 9, number=999), 1.0)
    assert [list(revisions) for revisions in stand.ledger.known.values()] == [[1, 2]]
    assert (stand.ledger.heard_of, stand.ledger.up_to_date(stand.tracks[0])) == (0, True)
    assert not stand.ledger.up_to_date(stand.tracks[1])


def test_events_that_were_read_long_ago_are_read_again_and_judged_once(stand: Stand) -> None:
    for revision in range(1, 2 * EVENTS_KEPT + 3):
        stand.show(upserted(revision, 1), 1.0)
    stand.show(upserted(1, 1), 2.0, watcher=1)
    assert len(stand.ledger.known[b"e"]) == 2 * EVENTS_KEPT + 2
    assert len(stand.ledger._events) + len(stand.ledger._older_events) <= 2 * EVENTS_KEPT


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"key":{"site_id":1}}'])
def test_an_event_of_no_pool_is_said_to_be_broken(stand: Stand, data: bytes) -> None:
    with pytest.raises(Broken, match="expected a pool"):
        stand.show(b"event: upserted\nid: e-1\ndata: " + data, 1.0)


# --------------------------------------------------------------------------------------------------------- schedule


def test_a_relay_is_due_once_at_the_time_it_was_moved_to() -> None:
    schedule = Schedule()
    unused: Any = None
    moved, dead = Relay(beaten(), unused, 1.0), Relay(beaten(), unused, 1.0)
    for relay in (moved, dead):
        schedule.push(relay)
    moved.due_at = 2.0
    schedule.push(moved)
    dead.dead = True
    assert schedule.pop(1.999) is None
    assert schedule.pop(2.0) is moved
    assert schedule.pop(9.0) is None
