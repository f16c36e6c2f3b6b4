"""`python -m bench.fleet`: reads the plan, starts a service where none is named, runs, prints the figures."""

import argparse
import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec
import uvloop

from bench import servers
from bench.fleet.observer import NotAList
from bench.fleet.plan import Plan, Target, WrongUrl, faults, target_of
from bench.fleet.report import Result, table
from bench.fleet.run import Run, Unreachable
from bench.processes import StartFailed, two_cores

GOOD, NOT_GOOD, USAGE, UNREACHABLE = 0, 1, 2, 3

EPILOG = """\
Without --url a gdsvc is started on the first core, and the fleet runs on the last: what you measure is one core of this
machine. With --url the fleet registers its pools with that service, under a site of its own, and takes them out at the
end; do not point it at a service that routers send real requests by. Ctrl-C ends the measuring; the table still comes.

size a machine:  python -m bench.fleet --pools 10000 --relays 2 --watchers 100 --changes 20 --seconds 120
a bad day:       python -m bench.fleet --pools 1000 --relays 2 --pauses 5 --deaths 5 --reconnects 20 --turnover 5
stuck readers:   python -m bench.fleet --pools 500 --watchers 450 --stuck 50 --changes 200

How to read the table: `missed` heartbeats are those sent late (this process was too slow: look at the generator's lag
and CPU) and those unanswered within an interval. A false expiry is a pool that was removed, or missing from a complete
list, though one of its relays had beaten within the lease. Events are lost when the service took a change that no
watcher ever heard of, missing when one watcher did not get what others got, without a resync in its place. Event
latency runs from the moment a change is sent to the moment a watcher has read the event, over all watchers.

exit codes: 0 good; 1 false expiries, or events out of order, twice, missing or lost, or watchers without a stream;
or no list at the end; 2 wrong arguments; 3 no service there, or something else.
"""

_FLAGS: tuple[tuple[str, type, str, str], ...] = (
    ("pools", int, "N", "pools"),
    ("relays", int, "R", "relays of each pool, each with a connection of its own"),
    ("watchers", int, "M", "watchers of GET /pools/watch"),
    ("stuck", int, "M", "watchers beside them that never read"),
    ("changes", float, "RATE", "pools that change, a second"),
    ("turnover", float, "RATE", "pools that leave and are replaced by new ones, a second"),
    ("pauses", float, "RATE", "relays that fall silent for half a lease to two, a second"),
    ("deaths", float, "RATE", "relays that lose their connection and come back after one to two leases, a second"),
    ("reconnects", float, "RATE", "relays that lose their connection and beat at once on a new one, a second"),
    ("seconds", float, "S", "how long to measure, once everybody is there"),
    ("heartbeat-secs", float, "S", "between two beats of a relay (default: what the service asks for)"),
    ("jitter", float, "SHARE", "of the interval, by which beats come early or late"),
    ("connections", int, "N", "beyond which relays share connections"),
)


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    plan = Plan(**{name: getattr(arguments, name) for name in Plan.__struct_fields__})
    try:
        target = target_of(arguments.url, arguments.ca) if arguments.url else None
    except WrongUrl as error:
        parser.error(str(error))
    if fault := _fault_of_ca(arguments.ca):
        parser.error(fault)
    if wrong := list(faults(plan, tls=target is not None and target.tls)):
        parser.error("; ".join(wrong))
    try:
        result = _measured(plan, target, arguments.heartbeat_interval, arguments.lease)
    except (StartFailed, Unreachable, NotAList) as error:
        _tell(f"bench.fleet: {error}")
        return UNREACHABLE
    print(msgspec.json.encode(result).decode() if arguments.json else table(result))
    return GOOD if result.is_good else NOT_GOOD


def _fault_of_ca(path: str | None) -> str:
    """What is wrong with a file of certificates; nothing where it can be used, or none is named."""
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        return f"--ca {path}: {error.strerror or error}"
    return ""


def _measured(plan: Plan, target: Target | None, heartbeat_interval: int, lease: int) -> Result:
    """The result, against a service that is started where there is no target. Raises what main tells."""
    cores = two_cores()
    flags = ["--heartbeat-interval-secs", str(heartbeat_interval), "--lease-duration-secs", str(lease)]
    flags += ["--max-watchers", str(max(1000, plan.watchers + plan.stuck))]
    with nullcontext() if target else servers.gdsvc(cores.server, *flags) as server:
        if server is not None:
            os.sched_setaffinity(0, {cores.driver})
            target = Target("127.0.0.1", server.port)
        assert target is not None
        try:
            return uvloop.run(_run(plan, target))
        except* (Unreachable, NotAList) as errors:
            raise errors.exceptions[0] from None


async def _run(plan: Plan, target: Target) -> Result:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await Run(plan, target, _tell).result(stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench.fleet",
        description="A fleet against a discovery service: pools whose relays beat, watchers, changes, faults.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="of the service; without it a gdsvc is started on this machine")
    parser.add_argument("--ca", metavar="FILE", help="certificates to trust where the URL is https")
    defaults = Plan()
    for name, kind, metavar, text in _FLAGS:
        default = getattr(defaults, name.replace("-", "_"))
        shown = "" if default is None else f" (default {default:g})"
        parser.add_argument(f"--{name}", type=kind, default=default, metavar=metavar, help=text + shown)
    parser.add_argument(
        "--heartbeat-interval", type=int, default=5, metavar="S", help="of the gdsvc that is started (5)"
    )
    parser.add_argument("--lease", type=int, default=15, metavar="S", help="of the gdsvc that is started (15)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of a table")
    return parser


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
