"""The run in which one of several replicas over one store has a wall clock that is wrong, and is set while it serves.

`run` takes how to start a replica, and judges: nothing expires early, nothing lives longer than the contract says.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from tests.e2e.beating import beating, left_early, watched
from tests.e2e.clusters import eventually
from tests.e2e.process import Service, Tell
from tests.e2e.wall_clock import WallClock

LEASE_SECS = 3
FLAGS = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", str(LEASE_SECS))
BEAT_SECS = 0.5
POLL_SECS = 1.0  # both stores look, or make sure that they see all, once a second
SLACK_SECS = 1.0  # of a busy machine, for events to be told and threads to run
AHEAD_SECS = (20.0, -40.0, 20.0)  # of the one replica, one after the other: steps of -60 and of +60
RIGHT, WRONG = 0, 1

Start = Callable[[Mapping[str, str]], Service]  # a replica with this added to its environment, ready


def run(start: Start, folder: Path, tell: Tell) -> None:
    """Two replicas, of which one has the wrong clock; in each of its times two pools fall silent, one through each."""
    clock = WallClock(folder / "clock")
    clock.set_ahead(AHEAD_SECS[0])
    replicas = [start({}), start(clock.environ)]
    quiet = [[f"quiet-{turn}-{replica}" for replica in (RIGHT, WRONG)] for turn in range(len(AHEAD_SECS))]
    names = ["alive-0", "alive-1", *(name for pair in quiet for name in pair)]
    eventually(lambda: all(replica.complete() for replica in replicas))
    longest = 0.0
    with watched(replicas) as views, beating(names, replicas, BEAT_SECS) as relays:
        for ahead_secs, pair in zip(AHEAD_SECS, quiet, strict=True):
            clock.set_ahead(ahead_secs)
            assert abs(_wall(replicas[WRONG]) - time.time() - ahead_secs) < 2.0, "its clock is what this is about"
            last = {name: relays[name].end_through(replica) for replica, name in enumerate(pair)}
            eventually(lambda gone=set(pair): not any(gone & view.listed for view in views))  # type: ignore[misc]
            longest = max(longest, *(view.left_at(name) - last[name].answered_at for view in views for name in pair))
        newcomer = start(clock.environ)
        assert {"alive-0", "alive-1"} <= set(newcomer.names()), "stamps of other clocks are believed at first sight"
    tell(f"listed for {longest:.2f} s after the last heartbeat at most, of a lease of {LEASE_SECS} s")
    assert longest <= LEASE_SECS + 2 * POLL_SECS + SLACK_SECS
    for view in views:
        assert left_early(view, relays, LEASE_SECS) == []
        assert sorted(name for name, _ in view.came) == sorted(names), "nobody came twice"
        assert [complete for complete, _ in view.complete] == [True]
    answers = [answer for relay in relays.values() for answer in relay.answers]
    assert {answer.status for answer in answers} == {200}


def _wall(replica: Service) -> float:
    """What it thinks the time is, in Unix seconds: its log says when a router that is new or another was heard of."""
    body = {"id": "probe", "url": f"http://10.0.0.1:{time.monotonic_ns() % 60_000 + 1}"}
    assert replica.post("/routers", body).status == 200
    told = [line["ts"] for line in replica.events if line["event"] in ("router.registered", "router.changed")]
    return datetime.fromisoformat(told[-1]).timestamp()
