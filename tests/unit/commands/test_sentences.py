"""The explain document in sentences."""

from datetime import UTC, datetime

from gdsvc.commands.documents import Explanation, Happening, Key, LeaseState, Registrations, Source
from gdsvc.commands.sentences import explained

NOW = datetime(2026, 11, 30, 1, tzinfo=UTC).timestamp()
KEY = Key("ohio", "dynamo", "mocker-1")


def test_a_listed_pool_is_explained_in_sentences_with_times_both_ways() -> None:
    explanation = Explanation(
        KEY,
        listed=True,
        reason="listed: its last heartbeat came 3.8 s ago",
        lease=LeaseState(3.8, 11.2),
        registrations=Registrations(42, "10.0.0.7", 0),
        sources=(Source("registrations", True, "2026-11-30T00:59:59.000Z", "kept in memory"),),
        history=(Happening("2026-11-30T00:55:00.000Z", "registered", "first heard from 10.0.0.7"),),
    )
    assert explained(explanation, NOW).splitlines() == [
        "ohio/dynamo/mocker-1 is listed: its last heartbeat came 3.8 s ago.",
        "Its last heartbeat came at 2026-11-30 00:59:56 UTC (3.8 s ago); without another its lease ends at "
        "2026-11-30 01:00:11 UTC (in 11 s).",
        "42 registrations of it were heard, the last from 10.0.0.7; its relays agree.",
        "Source registrations is complete as of 2026-11-30 00:59:59 UTC (1.0 s ago): kept in memory.",
        "What happened to it, the newest last:",
        "  2026-11-30 00:55:00 UTC (5 min ago) registered: first heard from 10.0.0.7",
    ]


def test_a_pool_that_left_is_explained_by_its_history() -> None:
    explanation = Explanation(
        KEY,
        listed=False,
        reason="not listed since 2026-11-30T00:59:48.000Z: no heartbeat for 15 s",
        registrations=Registrations(1, None, 3),
        sources=(Source("registrations", False),),
        history=(
            Happening("2026-11-30T00:59:00Z", "registered"),
            Happening("2026-11-30T00:59:48Z", "expired", "no heartbeat for 15 s"),
        ),
    )
    assert explained(explanation, NOW).splitlines() == [
        "ohio/dynamo/mocker-1 is not listed since 2026-11-30 00:59:48 UTC (12 s ago): no heartbeat for 15 s.",
        "It has no lease.",
        "1 registration of it was heard; its relays disagreed 3 times.",
        "Source registrations is not complete yet.",
        "What happened to it, the newest last:",
        "  2026-11-30 00:59:00 UTC (60 s ago) registered",
        "  2026-11-30 00:59:48 UTC (12 s ago) expired: no heartbeat for 15 s",
    ]


def test_the_relays_of_a_pool_that_is_gone_are_not_said_to_agree() -> None:
    explanation = Explanation(KEY, listed=False, reason="not listed", registrations=Registrations(24, "10.0.0.7", 0))
    assert "24 registrations of it were heard, the last from 10.0.0.7." in explained(explanation, NOW).splitlines()


def test_the_least_that_a_service_may_say_is_enough() -> None:
    assert explained(Explanation(KEY, listed=False, reason="unknown."), NOW).splitlines() == [
        "ohio/dynamo/mocker-1: unknown.",
        "It has no lease.",
        "Nothing is kept of what happened to it.",
    ]


def test_hostile_texts_are_explained_harmlessly() -> None:
    bad = "\x1b[2J\u202e\n[red]"
    explanation = Explanation(
        Key(bad, bad, bad),
        listed=True,
        reason=bad,
        lease=LeaseState(1e300, -1e300),
        registrations=Registrations(1, bad, 1),
        sources=(Source(bad, False, bad, bad),),
        history=(Happening(bad, bad, bad),),
    )
    lines = explained(explanation, NOW).splitlines()
    assert len(lines) == 6
    assert all(line.isprintable() for line in lines)
