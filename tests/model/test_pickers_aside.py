"""Both pickers against references that sort: cells that fill, fail and are set aside, swaps and second attempts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gdsvc._in_flight import Cell, Frontend, Guard
from gdsvc._picker import LeastInFlight, RoundRobin

NAMES = "abcde"
CELLS = st.sampled_from(range(len(NAMES)))


class Fleet(RuleBasedStateMachine):
    """Five pools of one, two or three frontends, and what happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = [Cell(name) for name in NAMES]
        self.frontends = {
            cell: tuple(Frontend(cell, f"http://{cell.pool_id}{number}") for number in range(1 + at % 3))
            for at, cell in enumerate(self.cells)
        }
        self.turns = dict.fromkeys(self.cells, 0)  # of the frontends of each, as Cell counts them

    def rotated(self, cell: Cell, usable: list[Frontend]) -> Frontend:
        """The first of `usable` from the cell's cursor on, else the one at the cursor."""
        own, first = self.frontends[cell], self.turns[cell]
        order = [own[(first + at) % len(own)] for at in range(len(own))]
        found = next((frontend for frontend in order if frontend in usable), order[0])
        self.turns[cell] = first + order.index(found) + 1
        return found


class LeastMachine(Fleet):
    """The reference: the smallest of (set aside, failing and due no more this round, in flight, last turn)."""

    def __init__(self) -> None:
        super().__init__()
        self.picker = LeastInFlight()
        self.pools: list[Cell] = []
        self.last: dict[Cell, int] = {}
        self.picks = 0
        self.guards: list[Guard] = []

    @rule(at=st.lists(CELLS, unique=True))
    def swap(self, at: list[int]) -> None:
        self.pools = [self.cells[index] for index in at]
        self.last = {cell: self.last.get(cell, -1_000_000) for cell in self.pools}
        self.picker.swap([(cell, self.frontends[cell]) for cell in self.pools])

    @rule(at=CELLS)
    def fail(self, at: int) -> None:
        self.cells[at].failed()

    @rule(at=CELLS, times=st.integers(1, 8))
    def succeed(self, at: int, times: int) -> None:
        for _ in range(times):
            self.cells[at].succeeded()

    @rule(at=CELLS, aside=st.booleans())
    def set_aside(self, at: int, aside: bool) -> None:
        self.cells[at].aside = aside
        for frontend in self.frontends[self.cells[at]]:
            frontend.aside = aside

    @rule(at=CELLS)
    def release(self, at: int) -> None:
        if self.guards:
            self.guards.pop(at % len(self.guards)).release()

    def expected(self, avoid: Frontend | None = None) -> Frontend | None:
        if not self.pools:
            return None
        self.picks += 1

        def rank(cell: Cell) -> tuple[bool, bool, int, int]:
            aside = cell.aside or (avoid is not None and cell is avoid.cell)
            waits = cell.strikes > 0 and self.picks - self.last[cell] < len(self.pools)
            return aside, waits, cell.in_flight, self.last[cell]

        cell = min(self.pools, key=rank)
        self.last[cell] = self.picks
        found = self.rotated(cell, [f for f in self.frontends[cell] if not f.aside and f is not avoid])
        return None if found is avoid else found

    @rule(hold=st.booleans())
    def pick(self, hold: bool) -> None:
        expected = self.expected()
        frontend = self.picker.pick()
        assert frontend is expected
        if hold and frontend is not None:
            self.guards.append(frontend.hold())

    @rule(at=CELLS)
    def pick_again(self, at: int) -> None:
        avoid = self.frontends[self.cells[at]][0]
        expected = self.expected(avoid)
        assert self.picker.pick_besides(avoid) is expected

    @invariant()
    def cells_count_the_guards(self) -> None:
        for cell in self.cells:
            assert cell.in_flight == sum(guard.frontend.cell is cell for guard in self.guards)


class RoundsMachine(Fleet):
    """The reference: a queue. A pool that nothing is usable of goes to its end like one that was served."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = [(cell, self.frontends[cell]) for cell in self.cells]
        self.picker = RoundRobin[Cell, Frontend](self.pools)
        self.queue = list(self.cells)
        self.cursors = dict.fromkeys(self.cells, 0)

    @rule(at=CELLS, which=st.integers(0, 2), aside=st.booleans())
    def set_aside(self, at: int, which: int, aside: bool) -> None:
        own = self.frontends[self.cells[at]]
        own[which % len(own)].aside = aside

    @rule()
    def swap_the_same(self) -> None:
        self.picker.swap(self.pools)

    def expected(self, avoid: Frontend | None = None) -> Frontend | None:
        aside = {f for own in self.frontends.values() for f in own if f.aside or f is avoid}
        usable = {cell: [f for f in own if f not in aside] for cell, own in self.frontends.items()}
        cell = next((cell for cell in self.queue if usable[cell]), self.queue[0])
        cut = self.queue.index(cell) + 1
        self.queue = self.queue[cut:] + self.queue[:cut]
        found = self.rotated(cell, usable[cell])
        return None if found is avoid else found

    @rule(times=st.integers(1, 7))
    def pick(self, times: int) -> None:
        for _ in range(times):
            expected = self.expected()
            pair = self.picker.pick()
            assert pair is not None
            assert pair == (pair[1].cell, expected)

    @rule(at=CELLS)
    def pick_again(self, at: int) -> None:
        avoid = self.frontends[self.cells[at]][0]
        expected = self.expected(avoid)
        pair = self.picker.pick_besides(avoid)
        assert (pair and pair[1]) is expected


for _machine in (LeastMachine, RoundsMachine):
    _machine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLeast = LeastMachine.TestCase
TestRounds = RoundsMachine.TestCase
