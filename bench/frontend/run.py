"""Measures the chosen figures, visit by visit, and tells on stderr how far it is."""

import sys
from collections.abc import Iterator, Sequence

from bench import instructions, machine
from bench.effort import Effort
from bench.figures import Figure, Measured, NotMeasured, Row
from bench.frontend import idle, trips
from bench.frontend.figures import IDLE, MEMORY, SELECTION, SELECTIONS, TRIPS
from bench.frontend.report import Memory, Result, Selection
from bench.frontend.tally import FAILURES, Tally
from bench.processes import Cores, output_of


def measured(figures: Sequence[Figure], effort: Effort, cores: Cores) -> tuple[Result, bool]:
    """All rows in order, and whether each has its number. What cannot be measured says so, the rest goes on."""
    if cores.server == cores.driver:
        _tell("only one core: servers and driver disturb each other")
    lacks = {figure.name: ", ".join(machine.missing(figure.needs)) for figure in figures}
    also = ("haproxy", "valgrind") if effort.calls else ("haproxy",)  # without which a row lacks a cell
    for lack in sorted({*lacks.values(), *machine.missing(also)} - {""}):
        _tell(lack)
    able = [figure for figure in figures if not lacks[figure.name]]
    tally = Tally()
    _run_trips([figure for figure in able if figure in TRIPS], effort, cores, tally)
    if MEMORY in able:
        _run_idle(effort, cores, tally)
    _run_selection([figure for figure in able if figure in SELECTIONS], effort, cores, tally)
    whys = {figure.name: lacks[figure.name] or tally.why(_scenario(figure)) for figure in figures}
    result = Result(
        [_trip(figure, tally, whys[figure.name]) for figure in figures if figure in TRIPS],
        [_memory(figure, tally, whys[figure.name]) for figure in figures if figure is MEMORY],
        [_selection(figure, tally, whys[figure.name]) for figure in figures if figure in SELECTIONS],
    )
    return result, not any(whys.values())


# -- what is run


def _run_trips(figures: Sequence[Figure], effort: Effort, cores: Cores, tally: Tally) -> None:
    """Visits all scenarios with fresh servers, again and again: a bad minute spoils a visit and no row."""
    sides: dict[str, frozenset[str]] = {}
    for figure in figures:
        sides[figure.scenario] = sides.get(figure.scenario, frozenset()) | {figure.ours, figure.theirs}
    labels = frozenset[str]().union(*sides.values())
    for visit in range(effort.visits):
        going = [scenario for scenario in sides if not tally.why(scenario)]
        if not going:
            return
        try:
            with trips.running(labels, cores) as ring:
                for scenario in going:
                    tally.take(scenario, ring.rounds(scenario, sides[scenario], effort))
                    _told(f"{visit + 1}/{effort.visits} {scenario}", tally, scenario, sides[scenario])
        except FAILURES as error:
            for scenario in going:
                tally.fail(scenario, str(error))


def _run_idle(effort: Effort, cores: Cores, tally: Tally) -> None:
    labels = (MEMORY.ours,) if machine.missing(["haproxy"]) else (MEMORY.ours, MEMORY.theirs)
    for run in range(effort.runs):
        if not tally.why(IDLE):
            tally.take(IDLE, idle.visit(labels, cores, idle_streams(effort)))
            _told(f"{run + 1}/{effort.runs} {IDLE}", tally, IDLE, frozenset(labels))


def _run_selection(figures: Sequence[Figure], effort: Effort, cores: Cores, tally: Tally) -> None:
    """Microseconds in fresh children, then instructions, which are the same each time; those need valgrind."""
    for run in range(effort.runs if figures else 0):
        for figure in figures:
            tally.take(_scenario(figure), _microseconds(figure, cores))
        _tell(f"{run + 1}/{effort.runs} {SELECTION}")
    for figure in figures if effort.calls and not machine.missing(["valgrind"]) else ():
        tally.take(_scenario(figure), _instructions(figure, effort, cores))
        _told(f"instructions {_subject(figure)}", tally, _scenario(figure), frozenset(["instructions"]))


def _microseconds(figure: Figure, cores: Cores) -> Iterator[tuple[str, float]]:
    for work in ("select", "held"):
        command = [sys.executable, "-m", "bench.frontend.selection", f"{work}/{_subject(figure)}"]
        yield work, float(output_of(command, cores.server))


def _instructions(figure: Figure, effort: Effort, cores: Cores) -> Iterator[tuple[str, float]]:
    subject = f"select/{_subject(figure)}"
    yield "instructions", instructions.a_call("bench.frontend.selection", subject, effort.calls, cores)


# -- what comes of it


def _scenario(figure: Figure) -> str:
    """What fails as a whole: each row of selection by itself."""
    return figure.name if figure in SELECTIONS else figure.scenario


def _subject(figure: Figure) -> str:
    return figure.name.partition("/")[2]


def _trip(figure: Figure, tally: Tally, why: str) -> Row:
    ours, theirs = (tally.least(figure.scenario, label) for label in (figure.ours, figure.theirs))
    if ours is None or theirs is None:
        return NotMeasured(figure, why)
    return Measured(figure, ours, theirs)


def _memory(figure: Figure, tally: Tally, why: str) -> Memory:
    return Memory(figure, tally.least(IDLE, figure.ours), tally.least(IDLE, figure.theirs), why)


def _selection(figure: Figure, tally: Tally, why: str) -> Selection:
    select, counted, held = (tally.least(figure.name, label) for label in ("select", "instructions", "held"))
    return Selection(figure, select, counted, held, why)


def idle_streams(effort: Effort) -> int:
    """How many of them."""
    return max(1, int(idle.STREAMS * effort.share))


# -- what is told meanwhile


def _told(what: str, tally: Tally, scenario: str, labels: frozenset[str]) -> None:
    least = {label: tally.least(scenario, label) for label in sorted(labels)}
    said = "; ".join(f"{label} {value:.4g}" for label, value in least.items() if value is not None)
    _tell(f"{what}: {tally.why(scenario) or said}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
