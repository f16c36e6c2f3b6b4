"""RoundRobin against what fairness means: a log of who was there at each pick, and sets counted over it."""

from itertools import combinations, pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from gdsvc._picker import RoundRobin

NAMES = "abcdefg"
LONGEST_WAIT = 2 * len(NAMES)  # of a pool that stays, in picks
NEW = 2 * len(NAMES)  # the most entries of the log that no invariant has judged yet
FRONTENDS = st.lists(st.sampled_from("123"), max_size=3, unique=True)
POOLS = st.lists(st.sampled_from(NAMES), unique=True, max_size=len(NAMES)).flatmap(
    lambda names: st.tuples(*(st.tuples(st.just(name), FRONTENDS) for name in names)).map(list)
)


class PickerMachine(RuleBasedStateMachine):
    """The model: the pools of the moment, and the picks since each of them came."""

    def __init__(self) -> None:
        super().__init__()
        self.picker: RoundRobin[str, str] = RoundRobin()
        self.pools: dict[str, list[str]] = {}
        self.log: list[str] = []
        self.since: dict[str, int] = {}  # pool -> length of the log when it last came
        self.calm = 0  # length of the log at the last swap
        self.expected: dict[str, str] = {}  # pool -> the frontend its cursor is at, where that is certain

    @rule(pools=POOLS)
    def swap(self, pools: list[tuple[str, list[str]]]) -> None:
        self.picker.swap(pools)
        after = {name: frontends for name, frontends in pools if frontends}
        self.since = {name: self.since.get(name, len(self.log)) for name in after}
        self.expected = {name: f for name, f in self.expected.items() if f in after.get(name, ())}
        self.expected |= {name: after[name][0] for name in after.keys() - self.pools.keys()}
        self.pools, self.calm = after, len(self.log)
        assert self.picker.pools == tuple(after)

    @rule()
    def swap_nothing(self) -> None:
        self.picker.swap(self.pools.items())
        assert self.picker.pools == tuple(self.pools)

    @rule(name=st.sampled_from(NAMES))
    def flap(self, name: str) -> None:
        if name in self.pools:
            before = list(self.pools.items())
            self.swap([pool for pool in before if pool[0] != name])
            self.swap(before)

    @rule(times=st.integers(1, NEW))
    def pick(self, times: int) -> None:
        for _ in range(times):
            pair = self.picker.pick()
            if pair is None:
                assert not self.pools
                return
            name, frontend = pair
            frontends = self.pools[name]
            assert frontend == self.expected.get(name, frontend)
            self.expected[name] = frontends[(frontends.index(frontend) + 1) % len(frontends)]
            self.log.append(name)

    @invariant()
    def undisturbed_picks_serve_every_pool_once_a_round(self) -> None:
        calm = self.log[max(self.calm, len(self.log) - NEW - len(self.pools)) :]
        for start in range(len(calm) - len(self.pools) + 1):
            assert set(calm[start : start + len(self.pools)]) == set(self.pools)

    @invariant()
    def of_two_pools_that_stay_neither_has_two_turns_more_than_the_other(self) -> None:
        for (name, since), (other, other_since) in combinations(self.since.items(), 2):
            start = max(since, other_since, len(self.log) - NEW - LONGEST_WAIT)
            log = [entry for entry in self.log[start:] if entry in {name, other}]
            assert all(one != following for one, following in pairwise(log))

    @invariant()
    def no_pool_that_stays_waits_longer_than_two_rounds(self) -> None:
        for name, since in self.since.items():
            assert name in self.log[since:] or len(self.log) - since < LONGEST_WAIT
            assert name in self.log[-LONGEST_WAIT:] or len(self.log) - since < LONGEST_WAIT

    @invariant()
    def knows_its_size(self) -> None:
        assert len(self.picker) == len(self.pools)


PickerMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestPicker = PickerMachine.TestCase


@pytest.mark.load
def test_the_picker_agrees_with_the_reference_over_more_histories() -> None:
    run_state_machine_as_test(PickerMachine, settings=settings(max_examples=200, stateful_step_count=50, deadline=None))
