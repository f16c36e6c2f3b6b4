"""What a replica spends on knowing what is in the store, of 100, 1,000 and 10,000 pools that beat elsewhere."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from bench.processes import Server, StartFailed, run_seconds
from bench.stores.beats import all_of, requests
from bench.stores.places import READINGS_TABLE, Place, Tables, counter
from bench.stores.proxy import Counts
from bench.stores.tables import Charge, charged, filled

POLL_SECS: Final = 2  # the default of --dynamodb-poll-interval-secs, which `quiet` is told for
MEASURED_POLL_SECS: Final = 1  # twice as many polls in a round
POLLS: Final = 2  # of a round
BETWEEN_SECS: Final = 0.4  # after the beginning of a poll: it is over, and the next is not due for some rounds
MOST_LEASES: Final = 1_000  # each is a write to a real API server, and how many there are a watch does not feel
FEWEST_RENEWED: Final = 1_000  # in a poll: of fewer what they cost is lost in what the calls cost
QUIET_SECS: Final = 2.0  # in which nothing is asked of it: what it costs then is what is measured
POLLS_COUNTED: Final = "store_polls_total"
SETTLE_SECS: Final = 1.0  # after a start: what it has still to do
PATIENCE_SECS: Final = 20.0


class Reading(Struct, frozen=True):
    """`quiet`: CPU seconds of a second in which nobody beats; `renewal`: those of a renewal that another wrote.

    `calls` and `received` (bytes) are those of a quiet minute. Where there are polls, `poll` is the CPU of one.
    """

    store: str
    pools: int
    quiet: float
    renewal: float | None = None
    poll: float | None = None
    calls: float = 0.0
    received: float = 0.0
    charge: Charge | None = None


class _Polls(Struct, frozen=True):
    cpu: float
    counts: Counts


def of_memory(place: Place, core: int, pools: int, rounds: int) -> Reading:
    """A service that has nothing to read: what all do in a quiet second."""
    with place.serving(core) as server:
        all_of(server.port, requests(pools))
        time.sleep(SETTLE_SECS)
        return Reading(place.name, pools, _quiet(server, rounds))


def of_table(tables: Tables, core: int, beside: Reading, known: int, rounds: int) -> Reading:
    """A service that polls the table, of as many pools as in `beside`, the same in memory; `known` are there already.

    Raises BeatFailed, StartFailed.
    """
    place = tables.place(READINGS_TABLE)
    tables.tell("pass")
    filled(tables, known, beside.pools)
    tables.tell("replay")
    charge = charged(tables)
    with place.serving(core, "--dynamodb-poll-interval-secs", str(MEASURED_POLL_SECS)) as server:
        found: dict[str, list[_Polls]] = {"replay": [], "renew": []}
        _wait_for_a_poll(server)
        for _ in range(rounds):
            for mode, polls in found.items():
                polls.append(_polls(tables, server, mode))
    least, renewed = (min(polls, key=lambda each: each.cpu) for polls in found.values())
    poll = least.cpu - beside.quiet * MEASURED_POLL_SECS
    renewal = (renewed.cpu - least.cpu) / beside.pools if beside.pools >= FEWEST_RENEWED else None
    a_minute = 60 / POLL_SECS
    return Reading(
        place.name,
        beside.pools,
        beside.quiet + poll / POLL_SECS,
        renewal,
        poll,
        a_minute * least.counts.all_calls / POLLS,
        a_minute * least.counts.answered / POLLS,
        charge,
    )


def of_leases(place: Place, core: int, pools: int, rounds: int) -> Reading:
    """A service that watches while another, on the same core, takes the heartbeats. Raises BeatFailed, StartFailed."""
    asked = requests(pools)
    with place.serving(core) as writing, place.serving(core) as watching:
        all_of(writing.port, asked)
        time.sleep(SETTLE_SECS)
        calls = counter(watching, "store_writes_total")
        quiet = _quiet(watching, rounds)
        calls = counter(watching, "store_writes_total") - calls
        renewed = min(_renewed(writing, watching, asked) for _ in range(rounds))
    return Reading(place.name, pools, quiet, renewed, calls=60 * calls / (rounds * QUIET_SECS))


def _quiet(server: Server, rounds: int) -> float:
    """CPU seconds of a second, in the round in which it was least."""
    return min(_cpu_of(server, lambda: time.sleep(QUIET_SECS)) for _ in range(rounds)) / QUIET_SECS


def _renewed(writing: Server, watching: Server, asked: Sequence[bytes]) -> float:
    """CPU seconds of `watching` for each of the renewals that `writing` takes, and that it is told of."""
    return _cpu_of(watching, lambda: all_of(writing.port, asked)) / len(asked)


def _polls(tables: Tables, server: Server, mode: str) -> _Polls:
    """CPU seconds of one poll and of what is done in its interval, with queries answered so; what one poll counted."""
    give_up_at = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < give_up_at:
        before = counter(server, POLLS_COUNTED)
        tables.tell(mode)
        tables.counts()
        cpu = _cpu_of(server, lambda: time.sleep(POLLS * MEASURED_POLL_SECS))
        counts = tables.counts()
        if counter(server, POLLS_COUNTED) == before + POLLS:
            return _Polls(cpu / POLLS, counts)
        _wait_for_a_poll(server)  # the machine was so busy that one was late
    raise StartFailed(f"the service does not poll its table every {MEASURED_POLL_SECS} s")


def _wait_for_a_poll(server: Server) -> None:
    """Returns between two polls."""
    give_up_at = time.monotonic() + PATIENCE_SECS
    before = counter(server, POLLS_COUNTED)
    while counter(server, POLLS_COUNTED) == before:
        if time.monotonic() > give_up_at:
            raise StartFailed("the service does not poll its table")
        time.sleep(0.02)  # what is looked at is another program's counter
    time.sleep(BETWEEN_SECS)


def _cpu_of(server: Server, work: Callable[[], object]) -> float:
    before = run_seconds(server.group)
    work()
    return run_seconds(server.group) - before
