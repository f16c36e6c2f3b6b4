"""The trips over HTTP: which servers stand beside each other in a scenario, and the rounds they take in turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench import payloads, servers
from bench.effort import Effort
from bench.figures import FASTAPI, GDSVC, GRANIAN, GRANIAN_AGAIN, GRANIAN_LIST, NGINX, WHOLE_LIST
from bench.load import Load, cpu_per_request
from bench.processes import Cores, Server

CHANGING_POOLS, CHANGING_VARIANTS = 512, 16
MORE_ROUNDS: Mapping[str, int] = {"list-1000": 2, "list-10000": 2, "unchanged": 2}  # whose rounds differ most
LASTING = ("--lease-duration-secs", "86400")  # nobody renews while lists are measured


class Contestant(Struct, frozen=True):
    """One side of a ratio: a running server and what it is asked for."""

    server: Server
    load: Load


Contestants = dict[str, Contestant]
Scenario = Callable[[Cores, frozenset[str]], AbstractContextManager[Contestants]]


def visit(scenario: str, wanted: frozenset[str], cores: Cores, effort: Effort) -> Iterator[tuple[str, float]]:
    """Microseconds of CPU a request, for each contestant that is `wanted` and each round of one visit.

    Raises StartFailed, LoadFailed, ChildFailed.
    """
    with SCENARIOS[scenario](cores, wanted) as contestants:
        for _ in range(effort.rounds * MORE_ROUNDS.get(scenario, 1)):
            for label, contestant in contestants.items():
                yield label, cpu_per_request(contestant.server, contestant.load, cores.driver, effort.seconds)


@contextmanager
def _posting(bodies: Callable[[], Iterable[bytes]], cores: Cores, wanted: frozenset[str]) -> Iterator[Contestants]:
    starts = {GDSVC: servers.gdsvc, GRANIAN: servers.granian, FASTAPI: servers.fastapi}
    with ExitStack() as stack:
        file = Path(stack.enter_context(TemporaryDirectory())) / "bodies"
        file.write_bytes(b"".join(body + b"\n" for body in bodies()))
        load = Load(bodies=file)
        yield {
            label: Contestant(stack.enter_context(start(cores.server)), load)
            for label, start in starts.items()
            if label in wanted
        }


@contextmanager
def _listing(pools: int, cores: Cores, wanted: frozenset[str]) -> Iterator[Contestants]:
    with ExitStack() as stack:
        ours = stack.enter_context(servers.gdsvc(cores.server, *LASTING))
        servers.register(ours, list(payloads.fleet(pools)))
        contestants: Contestants = {}
        for name, coding in (("plain", "identity"), ("zstd", "zstd"), ("gzip", "gzip")):
            if f"{GDSVC}, {name}" not in wanted:
                continue
            body, _ = servers.fetch(ours, coding)
            theirs = stack.enter_context(servers.nginx(cores.server, body))
            load = Load(headers=(f"Accept-Encoding: {coding}",))
            contestants[f"{GDSVC}, {name}"] = Contestant(ours, load)
            contestants[f"{NGINX}, {name}"] = Contestant(theirs, load)
            if name == "plain" and GRANIAN_LIST in wanted:
                floor = stack.enter_context(servers.granian_sending(cores.server, body))
                contestants[GRANIAN_LIST] = Contestant(floor, load)
        yield contestants


@contextmanager
def _unchanged(cores: Cores, wanted: frozenset[str]) -> Iterator[Contestants]:
    with ExitStack() as stack:
        ours = stack.enter_context(servers.gdsvc(cores.server, *LASTING))
        servers.register(ours, list(payloads.fleet(1_000)))
        _, etag = servers.fetch(ours, "identity")
        load = Load(headers=(f"If-None-Match: {etag}",))
        bare = stack.enter_context(servers.granian(cores.server))
        again = stack.enter_context(servers.granian(cores.server))
        contestants = {
            GDSVC: Contestant(ours, load),
            WHOLE_LIST: Contestant(ours, Load()),
            GRANIAN: Contestant(bare, Load()),
            GRANIAN_AGAIN: Contestant(again, Load()),
        }
        yield {label: contestant for label, contestant in contestants.items() if label in wanted}


SCENARIOS: Mapping[str, Scenario] = {
    "renewal-120": partial(_posting, lambda: [payloads.SMALL]),
    "renewal-300": partial(_posting, lambda: [payloads.large(1)]),
    "change": partial(_posting, partial(payloads.changing, CHANGING_POOLS, CHANGING_VARIANTS)),
    "list-10": partial(_listing, 10),
    "list-1000": partial(_listing, 1_000),
    "list-10000": partial(_listing, 10_000),
    "unchanged": _unchanged,
}
