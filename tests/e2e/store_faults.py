"""The run in which the store that two replicas share is in trouble, then gone for a while, then back, without a pause.

`run` takes how to start a replica and how to treat the store, and judges what was listed and what was answered.
"""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.e2e import impatient_storage
from tests.e2e.beating import Answer, Relay, View, beating, left_early, watched
from tests.e2e.clusters import eventually
from tests.e2e.impatient_storage import STALE_SECS
from tests.e2e.process import Service, Tell

COMMAND = (sys.executable, "-W", "error", str(Path(impatient_storage.__file__)))
LEASE_SECS = 9
FLAGS = ("--heartbeat-interval-secs", "3", "--lease-duration-secs", str(LEASE_SECS))
BEAT_SECS = 0.8
POLL_SECS = 1.0  # both stores look, or make sure that they see all, once a second
THROTTLED = 0.3  # of the writes, while there is trouble
TROUBLE_SECS = 10.0
GONE_SECS = STALE_SECS + 5.0
NOTICED_SECS = 4.0  # a silent watch is believed for three seconds; a failing poll for one
BACK_SECS = 5.0  # to be complete again: whoever asks waits a second at most
SLACK_SECS = 1.5  # of a busy machine
ALIVE = tuple(f"alive-{number}" for number in range(6))
QUIET = ("quiet-in-trouble", "quiet-after")


class Write(NamedTuple):
    """A heartbeat that the store has taken: of which pool, under which stamp, and when (time.monotonic)."""

    pool: str
    stamp: str
    at: float


class Faults(Protocol):
    """What stands before the store."""

    def trouble(self, throttled: float) -> None:
        """From now on so much of the writes is throttled, and reads are as bad as they come."""
        ...

    def leave(self) -> None:
        """The store is gone."""
        ...

    def come_back(self) -> None:
        """It is back, and well."""
        ...

    def writes(self) -> Sequence[Write]:
        """All so far, in their order."""
        ...

    def held(self) -> Mapping[str, str]:
        """The stamps in the store itself, by pool."""
        ...


def run(start: Callable[[], Service], faults: Faults, tell: Tell, *, lag_secs: float = 0.0) -> None:
    """`lag_secs`: how old what is read may be."""
    replicas = [start(), start()]
    with watched(replicas) as views, beating((*ALIVE, *QUIET), replicas, BEAT_SECS) as relays:
        eventually(lambda: all(view.complete and view.complete[-1][0] for view in views))
        faults.trouble(THROTTLED)
        time.sleep(TROUBLE_SECS / 2)  # it goes on while a pool falls silent
        last = {QUIET[0]: relays[QUIET[0]].end_through(0)}
        time.sleep(TROUBLE_SECS / 2)
        faults.leave()
        gone_at = time.monotonic()
        time.sleep(GONE_SECS)  # longer than a view stays complete without a reading
        assert faults.held() == {write.pool: write.stamp for write in faults.writes()}, "so all writes are known"
        back_at = time.monotonic()
        faults.come_back()
        last[QUIET[1]] = relays[QUIET[1]].end_through(1)
        eventually(lambda: all(view.complete[-1][0] for view in views), BACK_SECS + SLACK_SECS)
        eventually(lambda: not any(QUIET[1] in view.listed for view in views))
    _tell(tell, relays, views, gone_at, back_at)
    _judge_answers(relays, faults.writes(), gone_at, back_at)
    for view in views:
        _judge_completeness(view, gone_at, back_at)
        assert left_early(view, relays, LEASE_SECS, (gone_at + POLL_SECS, back_at)) == []
        for name, answer in last.items():
            stood_secs = GONE_SECS if answer.answered_at < gone_at < view.left_at(name) else 0.0
            listed_secs = view.left_at(name) - answer.answered_at - stood_secs
            assert listed_secs <= LEASE_SECS + 2 * POLL_SECS + lag_secs + SLACK_SECS


def _judge_completeness(view: View, gone_at: float, back_at: float) -> None:
    """Complete, then not for the time that the store was not to be seen, and complete again by itself."""
    said = [complete for complete, _ in view.complete]
    assert said[said.index(True) :] == [True, False, True]
    stale_after, whole_after = view.complete[-2][1] - gone_at, view.complete[-1][1] - back_at
    began_before = POLL_SECS  # the reading that met the end of the store may have
    assert STALE_SECS - began_before <= stale_after <= STALE_SECS + NOTICED_SECS + SLACK_SECS
    assert 0.0 <= whole_after <= BACK_SECS + SLACK_SECS


def _judge_answers(relays: Mapping[str, Relay], writes: Sequence[Write], gone_at: float, back_at: float) -> None:
    """A heartbeat that the store did not take was answered 503, and when to try again."""
    for name, relay in relays.items():
        taken = [write.at for write in writes if write.pool == name]
        for answer in relay.answers:
            assert answer.status in (200, 503)
            if answer.status == 503 or not _taken_within(taken, answer):
                assert (answer.status, str(answer.retry_after).isdecimal()) == (503, True), answer
        refused = [each.sent_at for each in relay.answers if each.status == 503]
        assert name == QUIET[0] or any(gone_at <= sent_at <= back_at for sent_at in refused)


def _taken_within(taken: Sequence[float], answer: Answer) -> bool:
    found = bisect_left(taken, answer.sent_at)
    return found < len(taken) and taken[found] <= answer.answered_at


def _tell(tell: Tell, relays: Mapping[str, Relay], views: Sequence[View], gone_at: float, back_at: float) -> None:
    answers = [answer for relay in relays.values() for answer in relay.answers]
    refused = [answer.sent_at for answer in answers if answer.status == 503]
    while_gone = sum(gone_at <= sent_at <= back_at for sent_at in refused)
    slowest = max(answer.answered_at - answer.sent_at for answer in answers)
    left = sum(name in ALIVE for view in views for name, _ in view.left)
    tell(
        f"{len(answers)} heartbeats, {len(refused)} refused, of these {while_gone} while the store was gone; "
        f"the slowest answer took {slowest:.2f} s; {left} left after a whole lease of refusals"
    )
