"""Every figure of the frontend's bench: what is measured, beside what, and the bound that it must and should keep.

The bounds of a trip hold for the ratio, those of memory and of selection for our own figure. Measures nothing itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from bench.figures import Figure, Room

GDSVC: Final = "gdsvc frontend"
GDSVC_AGAIN: Final = "gdsvc frontend, a second one"
HAPROXY: Final = "haproxy"
NGINX: Final = "nginx"
GRANIAN: Final = "bare granian, no upstream"

IDLE, SELECTION = "idle", "selection"
POLICIES: Final = ("round-robin", "least-in-flight")
POOLS: Final = (1, 10, 1_000)

_CPU: Final = "µs of CPU a request"
_SHORT: Final[Mapping[str, str]] = {HAPROXY: "haproxy", NGINX: "nginx", GRANIAN: "granian", GDSVC_AGAIN: "control"}
_WHAT: Final[Mapping[str, str]] = {
    "json": "a JSON reply",
    "paced": "50 SSE chunks, 4 ms apart",
    "burst": "50 SSE chunks at once, written one by one",
    "coalesced": "50 SSE chunks at once, in one write",
    "upload": "an upload of 1 MB",
}
_BOUNDS: Final[Mapping[str, tuple[float, float]]] = {  # beside haproxy
    "json": (3.5, 2.7),
    "paced": (2.2, 1.6),
    "burst": (4.0, 3.0),
    "coalesced": (4.0, 3.0),
}


def _trip(  # noqa: PLR0913  the columns of a table
    scenario: str,
    what: str,
    theirs: str,
    must: float | None = None,
    aim: float | None = None,
    *,
    needs: tuple[str, ...] = (),
) -> Figure:
    return Figure(
        name=f"{scenario}/{_SHORT[theirs]}",
        room=Room.TRIP,
        what=what,
        ours=GDSVC,
        theirs=theirs,
        unit=_CPU,
        must=must,
        aim=aim,
        needs=("wrk", "taskset", *needs),
    )


def _trips() -> Iterator[Figure]:
    for scenario, what in _WHAT.items():
        must, aim = _BOUNDS.get(scenario, (None, None))
        yield _trip(scenario, what, HAPROXY, must, aim, needs=("haproxy",))
        yield _trip(scenario, what, NGINX, needs=("nginx",))
        if scenario == "json":
            yield _trip(scenario, what, GRANIAN)
            yield _trip(scenario, what, GDSVC_AGAIN)


TRIPS: Final = tuple(_trips())
MEMORY: Final = Figure(
    name=f"{IDLE}/haproxy",
    room=Room.TRIP,
    what="an idle stream",
    ours=GDSVC,
    theirs=HAPROXY,
    unit="KiB a stream",
    must=64,
    aim=32,
    needs=("taskset",),  # without haproxy, ours alone
)
SELECTIONS: Final = tuple(
    Figure(
        name=f"{SELECTION}/{policy}-{pools}",
        room=Room.IN_PROCESS,
        what=f"{policy}, pools a model: {pools:,}",
        ours="Selector.select",
        theirs="",
        unit=_CPU,
        must=5,
        aim=2,
        needs=("taskset",),
    )
    for policy in POLICIES
    for pools in POOLS
)
FIGURES: Final = (*TRIPS, MEMORY, *SELECTIONS)
