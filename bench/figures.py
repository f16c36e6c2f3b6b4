"""Every figure: what is measured, beside what, with which tools, and the ratio it must and should stay under.

A name is SCENARIO/YARDSTICK; figures of one scenario are measured together. Measures nothing itself.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial

from msgspec import Struct


class Room(Enum):
    """How a figure is measured."""

    TRIP = "trips"
    IN_PROCESS = "in process"
    INSTRUCTIONS = "instructions"


class Figure(Struct, frozen=True, kw_only=True):
    """One row. `ours` and `theirs` name the contestants of the scenario; a ratio without `must` is only reported."""

    name: str
    room: Room
    what: str
    ours: str
    theirs: str
    unit: str
    must: float | None = None
    aim: float | None = None
    needs: tuple[str, ...] = ()

    @property
    def scenario(self) -> str:
        """The part of the name that figures measured together share."""
        return self.name.partition("/")[0]


class Measured(Struct, frozen=True):
    """The minima of both sides, in the figure's unit."""

    figure: Figure
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


class NotMeasured(Struct, frozen=True):
    """A figure that there is no number for, and why."""

    figure: Figure
    why: str


Row = Measured | NotMeasured

GDSVC = "gdsvc"
GRANIAN = "bare granian"
GRANIAN_AGAIN = "bare granian, a second one"
GRANIAN_LIST = "bare granian, the same bytes"
FASTAPI = "naive FastAPI"
NGINX = "nginx static"
WHOLE_LIST = "gdsvc, the whole list"
REFERENCE = "slow reference"
MSGSPEC = "msgspec"
AFTERNOON = "poll of an afternoon"

_CPU = "µs of CPU a request"


def _trip(  # noqa: PLR0913  the columns of a table
    name: str,
    what: str,
    theirs: str,
    must: float | None = None,
    aim: float | None = None,
    *,
    ours: str = GDSVC,
    needs: tuple[str, ...] = (),
) -> Figure:
    tools = ("wrk", "taskset", *needs)
    return Figure(
        name=name, room=Room.TRIP, what=what, ours=ours, theirs=theirs, unit=_CPU, must=must, aim=aim, needs=tools
    )


def _posts() -> Iterable[Figure]:
    web = ("fastapi", "uvicorn", "httptools")
    for size in ("120", "300"):
        what = f"POST /pools, renewal, {size} bytes"
        yield _trip(f"renewal-{size}/granian", what, GRANIAN, 1.20, 1.05)
        yield _trip(f"renewal-{size}/fastapi", what, FASTAPI, 0.20, 0.15, needs=web)
    what = "POST /pools, changed each time, 300 bytes"
    yield _trip("change/granian", what, GRANIAN)
    yield _trip("change/fastapi", what, FASTAPI, needs=web)


def _lists() -> Iterable[Figure]:
    bounds = {1_000: (2.6, 2.1)}
    for pools in (10, 1_000, 10_000):
        if pools == 1_000:
            yield _trip("list-1000/granian", "GET /pools, 1,000 pools, plain", GRANIAN_LIST, ours=f"{GDSVC}, plain")
        for coding in ("plain", "zstd", "gzip"):
            must, aim = bounds.get(pools, (None, None)) if coding == "plain" else (None, None)
            yield _trip(
                f"list-{pools}/{coding}",
                f"GET /pools, {pools:,} pools, {coding}",
                f"{NGINX}, {coding}",
                must,
                aim,
                ours=f"{GDSVC}, {coding}",
                needs=("nginx",),
            )


def _in_process() -> Iterable[Figure]:
    figure = partial(Figure, room=Room.IN_PROCESS)
    yield figure(
        name="register/reference",
        what="register 100,000 distinct bodies",
        ours=GDSVC,
        theirs=REFERENCE,
        unit="µs a body",
        must=0.35,
        aim=0.20,
    )
    yield figure(
        name="memory/payload",
        what="resident memory, 100,000 pools of 300 bytes",
        ours=GDSVC,
        theirs="payload",
        unit="bytes a pool",
        must=3.2,
        aim=2.4,
    )
    lease = partial(figure, what="renew one of 100,000 leases", ours="LeaseHeap", unit="ns a renewal")
    yield lease(name="lease/push", theirs="heapq push", must=0.10, aim=0.03)
    yield lease(name="lease/called", ours="LeaseHeap, called from Python", theirs="heapq push")
    yield lease(name="lease/push-and-pop", theirs="heapq push and its later pop")
    yield lease(name="lease/reference", theirs=f"{REFERENCE}, all of register")
    yield figure(
        name="rebuild/msgspec",
        what="list after one change, 10,000 pools",
        ours=GDSVC,
        theirs=f"{MSGSPEC}, all anew",
        unit="µs a list",
        must=0.10,
        aim=0.03,
    )


def _instructions() -> Iterable[Figure]:
    figure = partial(Figure, room=Room.INSTRUCTIONS, unit="instructions a call", needs=("taskset", "valgrind"))
    yield figure(
        name="fast-path/msgspec",
        what="renewal fast path, 300 bytes",
        ours="PoolIndex.renew",
        theirs=f"{MSGSPEC} typed decode",
        must=0.30,
        aim=0.15,
    )
    yield figure(
        name="poll/afternoon",
        what="a renewal in a poll of a table",
        ours=GDSVC,
        theirs=AFTERNOON,
    )
    yield figure(
        name="pick/cycle",
        what="pick one of 100 pools",
        ours="RoundRobin.pick",
        theirs="itertools.cycle",
        must=1.0,
        aim=0.85,
    )


FIGURES: tuple[Figure, ...] = (
    *_posts(),
    *_lists(),
    _trip("unchanged/granian", "GET /pools, 1,000 pools, If-None-Match holds", GRANIAN, 1.35, 1.10),
    _trip("unchanged/list", "GET /pools, 1,000 pools, If-None-Match holds", WHOLE_LIST, 0.25),
    _trip("unchanged/control", "control: a server beside itself", GRANIAN_AGAIN, ours=GRANIAN),
    *_in_process(),
    *_instructions(),
)


def chosen(prefixes: Sequence[str], figures: tuple[Figure, ...] = FIGURES) -> tuple[Figure, ...]:
    """Those of `figures` whose name begins with one of `prefixes`; all where there is none. Raises ValueError."""
    for prefix in prefixes:
        if not any(figure.name.startswith(prefix) for figure in figures):
            raise ValueError(f"no figure begins with {prefix!r}")
    return tuple(f for f in figures if not prefixes or f.name.startswith(tuple(prefixes)))
