"""Events as bytes: their form, their numbers, one encoding for all, and what filters make of them."""

import pytest

from gdsvc.http.events import (
    BATCH_BYTES_KEPT,
    BATCHES_KEPT,
    EVENTS_A_WRITE,
    WRITE_BYTES,
    Batch,
    EventId,
    Events,
    parse_id,
)
from gdsvc.pool_discovery.directory import EVERYTHING, Filter
from gdsvc.pool_discovery.fanout import Fanout, Lagged
from gdsvc.pool_discovery.watch import EncodedEvent, EncodedRemoval, EncodedUpsert, Facets

EPOCH = "0123456789abcdef"
HASH = b"00000000000000ff"
M1 = Filter(models=frozenset({"m1"}))


def upsert(name: str, model: str | None = None, was: Facets | None = None, size: int = 0) -> EncodedUpsert:
    encoded = b'{"n":"%b"}' % (name.encode() + b"x" * size)
    return EncodedUpsert(b"s\0n\0" + name.encode(), encoded, Facets(model), was)


class Stand:
    """A journal and its events."""

    def __init__(self, journal: int = 10_000) -> None:
        self.fanout: Fanout[EncodedEvent] = Fanout(journal=journal)
        self.removals: list[bytes] = []
        self.events = Events(self.fanout, EPOCH, self.removal)

    def removal(self, key: bytes) -> bytes:
        self.removals.append(key)
        return b"{gone}"

    def publish(self, *events: EncodedEvent) -> None:
        for event in events:
            self.fanout.publish(event)

    def since(self, revision: int, where: Filter = EVERYTHING) -> Batch:
        batch = self.events.since(revision, where, b"" if where is EVERYTHING else HASH)
        assert isinstance(batch, Batch)
        return batch


# ------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0123456789abcdef-0", EventId(EPOCH, 0, "")),
        (b" 0123456789abcdef-12 ", EventId(EPOCH, 12, "")),
        (b"0123456789abcdef-999999999999999999-00000000000000ff", EventId(EPOCH, 10**18 - 1, "00000000000000ff")),
    ],
)
def test_ids_are_read_as_they_are_written(text: bytes, expected: EventId) -> None:
    assert parse_id(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"0123456789abcdef",
        b"0123456789abcdef-",
        b"0123456789abcdef--1",
        b"0123456789ABCDEF-1",
        b"0123456789abcdef-1-",
        b"0123456789abcdef-1-ff",
        b"123456789abcdef-1",
        b"0123456789abcdef-1 2",
        b"0123456789abcdef-1,",
        b"0123456789abcdef-\xd9\xa1",  # a digit of another script
        b"0123456789abcdef-" + b"9" * 19,
        b"0123456789abcdef-" + b"9" * 100_000,
        b"\xff" * 40,
    ],
    ids=lambda text: text[:24].decode("latin-1"),
)
def test_what_is_no_id_is_none(text: bytes) -> None:
    assert parse_id(text) is None


def test_an_id_line_names_epoch_revision_and_filter() -> None:
    events = Stand().events
    assert events.id_line(7, b"") == b"id: 0123456789abcdef-7\n"
    assert events.id_line(7, HASH) == b"id: 0123456789abcdef-7-00000000000000ff\n"
    assert parse_id(events.id_line(7, HASH).removeprefix(b"id: ")) == EventId(EPOCH, 7, HASH.decode())


def test_only_ids_of_this_epoch_are_of_this_process() -> None:
    events = Stand().events
    assert events.is_of_this_process(EventId(EPOCH, 1, ""))
    assert not events.is_of_this_process(EventId("f" * 16, 1, ""))
    assert not events.is_of_this_process(EventId("", -1, ""))


# ----------------------------------------------------------------------------------------------------- events


def test_events_are_written_with_the_revision_that_they_lead_to() -> None:
    stand = Stand()
    stand.publish(upsert("a"), EncodedRemoval(b"s\0n\0a"))
    batch = stand.since(0)
    assert batch.data == (
        b'event: upserted\ndata: {"n":"a"}\nid: 0123456789abcdef-1\n\n'
        b"event: removed\ndata: {gone}\nid: 0123456789abcdef-2\n\n"
    )
    assert (batch.events, batch.revision) == (2, 2)
    assert stand.removals == [b"s\0n\0a"]


def test_who_has_seen_everything_gets_nothing() -> None:
    stand = Stand()
    stand.publish(upsert("a"))
    assert stand.since(1) == Batch(b"", 0, 1)


@pytest.mark.parametrize("revision", [-1, 2, 10**18])
def test_who_names_a_revision_that_is_not_there_has_lagged(revision: int) -> None:
    stand = Stand()
    stand.publish(upsert("a"))
    assert isinstance(stand.events.since(revision, EVERYTHING, b""), Lagged)


def test_an_event_is_encoded_once_for_all_places_and_filters() -> None:
    stand = Stand()
    stand.publish(*(upsert(str(number), "m1") for number in range(50)), EncodedRemoval(b"k", Facets("m1")))
    for revision in range(51):
        for where in (EVERYTHING, M1):
            assert stand.since(revision, where).revision == 51
    assert stand.events.encodings == 51
    assert stand.removals == [b"k"]


def test_who_is_at_the_same_place_shares_the_bytes() -> None:
    stand = Stand()
    stand.publish(upsert("a"))
    assert stand.since(0).data is stand.since(0).data
    stand.publish(upsert("b"))
    assert stand.since(0).events == 2


@pytest.mark.parametrize("where", [EVERYTHING, M1], ids=["all", "a filter that nothing passes"])
def test_who_is_far_behind_at_the_same_place_shares_a_full_batch_while_more_is_published(where: Filter) -> None:
    stand = Stand()
    stand.publish(*(upsert(str(number)) for number in range(EVENTS_A_WRITE + 1)))
    first = stand.since(0, where)
    assert first.revision <= EVENTS_A_WRITE
    stand.publish(upsert("later"))
    assert stand.since(0, where) is first


def test_a_write_takes_so_many_events_and_so_many_bytes() -> None:
    stand = Stand()
    stand.publish(*(EncodedUpsert(b"k%d" % number, b"1") for number in range(EVENTS_A_WRITE + 10)))
    assert stand.since(0).revision == EVENTS_A_WRITE
    assert stand.since(EVENTS_A_WRITE).revision == EVENTS_A_WRITE + 10
    large = Stand()
    large.publish(*(upsert(str(number), size=WRITE_BYTES // 2) for number in range(5)))
    assert [large.since(0).revision, large.since(2).revision, large.since(4).revision] == [2, 4, 5]


def test_filters_of_one_hash_are_still_told_apart() -> None:
    stand = Stand()
    stand.publish(upsert("a", "m1"))
    other = Filter(models=frozenset({"m2"}))
    assert stand.since(0, M1).events == 1
    assert stand.since(0, other).events == 0, "a caller may have chosen its filter for the hash"


# ---------------------------------------------------------------------------------------------------- filters

ABSENT, IN, OUT = None, Facets("m1"), Facets("m2")


@pytest.mark.parametrize(
    ("was", "model", "event"),
    [
        (ABSENT, "m1", b"upserted"),
        (ABSENT, "m2", b""),
        (IN, "m1", b"upserted"),
        (IN, "m2", b"removed"),
        (IN, None, b"removed"),
        (OUT, "m1", b"upserted"),
        (OUT, "m3", b""),
    ],
)
def test_what_enters_a_filter_is_upserted_and_what_leaves_it_is_removed(
    was: Facets | None, model: str | None, event: bytes
) -> None:
    stand = Stand()
    stand.publish(upsert("a", model, was))
    batch = stand.since(0, M1)
    assert batch.revision == 1
    assert batch.events == bool(event)
    assert batch.data.startswith(b"event: " + event) if event else batch.data == b""


@pytest.mark.parametrize(("was", "events"), [(IN, 1), (OUT, 0), (Facets(), 0)])
def test_who_leaves_is_removed_from_the_filters_that_it_was_in(was: Facets, events: int) -> None:
    stand = Stand()
    stand.publish(EncodedRemoval(b"s\0n\0a", was))
    assert (stand.since(0, M1).events, stand.since(0).events) == (events, 1)


def test_ids_behind_a_filter_carry_its_hash_and_revisions_that_are_not_shown_are_passed() -> None:
    stand = Stand()
    stand.publish(upsert("a", "m2"), upsert("b", "m1"), upsert("c", "m2"))
    batch = stand.since(0, M1)
    assert batch.data.endswith(b"id: 0123456789abcdef-2-00000000000000ff\n\n")
    assert (batch.events, batch.revision) == (1, 3)


def test_sites_are_filtered_by_the_key() -> None:
    stand = Stand()
    stand.publish(upsert("a"))
    assert stand.since(0, Filter(site_ids=frozenset({"s"}))).events == 1
    assert stand.since(0, Filter(site_ids=frozenset({"s", "t"}), models=frozenset({"m1"}))).events == 0


# ----------------------------------------------------------------------------------------------------- memory


def test_encodings_are_let_go_with_the_journal() -> None:
    stand = Stand(journal=10)
    for number in range(100):
        stand.publish(upsert(str(number)))
        stand.since(number)
    assert len(stand.events._parts) <= 11


def test_encodings_of_who_came_back_for_older_ones_are_let_go_too() -> None:
    stand = Stand(journal=100)
    stand.publish(*(upsert(str(number)) for number in range(100)))
    stand.since(99)  # the newest first
    stand.since(0)
    for number in range(100, 300):
        stand.publish(upsert(str(number)))
        stand.since(number)
    assert len(stand.events._parts) <= 101


def test_batches_that_are_kept_are_few_and_small_together() -> None:
    stand = Stand()
    stand.publish(*(upsert(str(number)) for number in range(100)))
    for number in range(100):
        stand.since(number)
    assert len(stand.events._batches) == BATCHES_KEPT
    large = Stand(journal=50)
    for number in range(20):
        large.publish(upsert(str(number), size=2_000_000))
        large.since(number)
        kept = sum(len(batch.data) for batch in large.events._batches.values())
        assert kept == large.events._batch_bytes <= BATCH_BYTES_KEPT
    large.publish(upsert("huge", size=BATCH_BYTES_KEPT))
    assert large.since(20).events == 1
    assert len(large.events._batches) == 1, "one is kept, however large"
