"""LeaseHeap against a dict that is sorted anew for every question, under any order of calls and any clock."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from gdsvc._lease_heap import LeaseEntry, LeaseHeap

NAMES = st.sampled_from(range(12))
NOWS = st.one_of(st.sampled_from([0.0, 1.0, 5.0, 14.999, 15.0, -3.0]), st.floats(-50.0, 50.0))
TTLS = st.sampled_from([0.5, 5.0, 10.0, 15.0, 1e9])


class LeaseHeapMachine(RuleBasedStateMachine):
    """The model: entry -> (deadline, count of renewals so far, ttl)."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = LeaseHeap()
        self.entries = [LeaseEntry(name) for name in range(12)]
        self.model: dict[LeaseEntry, tuple[float, int, float]] = {}
        self.renewals = 0

    @rule(name=NAMES, now=NOWS, ttl=TTLS)
    def renew(self, name: int, now: float, ttl: float) -> None:
        self.renewals += 1
        self.heap.renew(self.entries[name], now, ttl)
        self.model[self.entries[name]] = (now + ttl, self.renewals, ttl)

    @rule(name=NAMES)
    def remove(self, name: int) -> None:
        entry = self.entries[name]
        assert self.heap.remove(entry) is (self.model.pop(entry, None) is not None)

    @rule(now=NOWS, limit=st.integers(0, 14))
    def expire(self, now: float, limit: int) -> None:
        due = sorted(lease for lease in self.model.values() if lease[0] <= now)
        gone = self.heap.expire(now, limit)
        leases = [self.model.pop(entry) for entry in gone]
        assert [deadline for deadline, _, _ in leases] == [deadline for deadline, _, _ in due[:limit]]
        for ttl in {ttl for _, _, ttl in leases}:  # ties between ttls are free, inside one they are not
            own = [lease for lease in leases if lease[2] == ttl]
            assert own == [lease for lease in due if lease[2] == ttl][: len(own)]

    @invariant()
    def knows_its_size_and_its_first(self) -> None:
        assert len(self.heap) == len(self.model)
        assert self.heap.next_deadline == min((lease[0] for lease in self.model.values()), default=math.inf)

    @invariant()
    def entries_know_their_place(self) -> None:
        for entry in self.entries:
            assert entry.linked is (entry in self.model)
            assert entry.deadline == self.model.get(entry, (math.inf,))[0]


LeaseHeapMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestLeaseHeap = LeaseHeapMachine.TestCase


@pytest.mark.load
def test_the_heap_agrees_with_the_reference_over_more_histories() -> None:
    run_state_machine_as_test(
        LeaseHeapMachine, settings=settings(max_examples=400, stateful_step_count=60, deadline=None)
    )
