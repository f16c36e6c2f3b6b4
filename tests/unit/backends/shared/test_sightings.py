"""When a renewal is news."""

import pytest
from msgspec.structs import replace

from gdsvc.backends.shared.sightings import FIRST_SIGHT_GRACE_SECS, STAMPS_KEPT, News, Renewal, Sightings

NOW = 1_800_000_000.0
P = b"s\0n\0p"
FIRST = Renewal("s1", NOW, 15.0, 1)


def seen(*renewals: Renewal, version: int = 1) -> Sightings:
    made = Sightings()
    for renewal in renewals:
        made.saw(P, renewal, version)
    return made


@pytest.mark.parametrize(
    ("age", "news"), [(15.0 + FIRST_SIGHT_GRACE_SECS, News.RENEWED), (15.1 + FIRST_SIGHT_GRACE_SECS, News.TOO_OLD)]
)
def test_at_first_sight_a_renewal_older_than_its_lease_and_the_grace_is_too_old(age: float, news: News) -> None:
    assert Sightings().news(P, FIRST, NOW + age) is news


def test_a_writer_whose_clock_is_ahead_is_news_at_first_sight() -> None:
    assert Sightings().news(P, FIRST, NOW - 86_400.0) is News.RENEWED


def test_what_is_gone_at_first_sight_is_no_news_to_anybody() -> None:
    assert Sightings().news(P, replace(FIRST, gone=True), NOW) is News.TOO_OLD


@pytest.mark.parametrize("ahead", [-1e6, 0.0, 1e6])
def test_after_that_no_clock_counts_and_only_a_new_stamp_is_news(ahead: float) -> None:
    sightings = seen(FIRST)
    assert sightings.news(P, FIRST, NOW + ahead) is News.NOTHING
    assert sightings.news(P, replace(FIRST, stamp="s2"), NOW + ahead) is News.RENEWED
    assert sightings.news(P, replace(FIRST, stamp="s2", renewed_at=0.0), NOW + ahead) is News.RENEWED


def test_what_a_read_of_some_seconds_ago_brings_back_is_no_news() -> None:
    renewals = [replace(FIRST, stamp=f"s{number}") for number in range(10)]
    sightings = seen(*renewals)
    told = [sightings.news(P, renewal, NOW) for renewal in renewals]
    assert told == [News.RENEWED] * (10 - STAMPS_KEPT) + [News.NOTHING] * STAMPS_KEPT


def test_one_that_was_too_old_is_news_once_it_renews() -> None:
    sightings = Sightings()
    sightings.saw(P, FIRST)
    assert sightings.news(P, replace(FIRST, stamp="s2"), NOW + 1e9) is News.RENEWED


def test_a_stamp_seen_before_that_names_a_later_version_is_news_of_the_version_alone() -> None:
    sightings = seen(FIRST)
    assert sightings.news(P, replace(FIRST, version=2), NOW) is News.VERSION
    sightings.saw(P, replace(FIRST, stamp="s2"), 3)
    assert sightings.news(P, replace(FIRST, stamp="s2", version=2), NOW) is News.NOTHING


def test_the_last_renewal_ought_to_name_the_latest_version_and_no_other_one_does() -> None:
    sightings, last = seen(FIRST, version=3), replace(FIRST, stamp="s2", version=2)
    sightings.saw(P, last)
    assert sightings.outdates(P, last) == 3
    assert sightings.outdates(P, replace(last, version=3)) == 0
    assert sightings.outdates(P, replace(last, gone=True)) == 0
    assert sightings.outdates(P, FIRST) == 0, "what a read of some seconds ago brings back"
    assert sightings.outdates(b"q", last) == 0


def test_a_renewal_that_says_gone_is_news_once() -> None:
    sightings, gone = seen(FIRST), replace(FIRST, stamp="s2", gone=True)
    assert sightings.news(P, gone, NOW) is News.GONE
    sightings.saw(P, gone)
    assert sightings.news(P, gone, NOW) is News.NOTHING
    assert sightings.version(P) == 1, "who registers again goes on from there"


def test_what_the_store_holds_no_more_is_forgotten() -> None:
    sightings = seen(FIRST)
    assert sightings.absent({P}) == set()
    assert sightings.absent(set()) == {P}
    sightings.forget({P})
    assert (len(sightings), sightings.version(P), sightings.lease_secs(P)) == (0, 0, None)
