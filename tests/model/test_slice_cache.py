"""SliceCache against a slow and obvious reference: all slices in a dictionary, everything computed anew each time."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gdsvc.backends.mcs.endpoints import ready_addresses
from gdsvc.backends.mcs.naming import Mode, ServiceKey
from gdsvc.backends.mcs.slices import SliceCache
from gdsvc.kube import objects
from gdsvc.kube.objects import EndpointSlice

HOLD_SECS = 1.0
STEP_SECS = 0.25  # exact in binary, so that deadlines are met exactly

SERVICES = ["a-gw", "b-gw", ""]  # the last one: a slice of no Service
NAMES = st.sampled_from(["s0", "s1", "s2"])
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
STATES = st.dictionaries(st.sampled_from(ADDRESSES), st.sampled_from(["ready", "unready", "terminating"]))

Slices = dict[str, tuple[str, dict[str, str]]]  # by name: the Service, and the state of each address


def key(service: str) -> ServiceKey:
    return ServiceKey("east", "relay", service)


def made(name: str, service: str, states: dict[str, str]) -> EndpointSlice:
    labels = {"multicluster.kubernetes.io/service-name": service, "multicluster.kubernetes.io/source-cluster": "east"}
    endpoints: list[dict[str, Any]] = [
        {"addresses": [address], "conditions": {"ready": state != "unready", "terminating": state == "terminating"}}
        for address, state in states.items()
    ]
    document = {"metadata": {"name": name, "namespace": "relay", "labels": labels}, "endpoints": endpoints}
    return objects.ENDPOINT_SLICE.decode(json.dumps(document))


class SliceCacheModel(RuleBasedStateMachine):
    """A cache and the slices as they are; what is Ready follows from these, and from who was the last to vanish."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cache = SliceCache(Mode.MCS, HOLD_SECS)
        self.slices: Slices = {}
        self.building: Slices = {}
        self.held: dict[str, tuple[float, set[str]]] = {}

    # -- the reference

    def named(self, service: str, states: tuple[str, ...] = ("ready", "unready", "terminating")) -> set[str]:
        return {
            address
            for of, endpoints in self.slices.values()
            for address, state in endpoints.items()
            if of == service and state in states
        }

    def ready(self, service: str) -> set[str]:
        until, held = self.held.get(service, (0.0, set()))
        return self.named(service, ("ready",)) or (held if until > self.now else set())

    def everything(self) -> dict[str, set[str]]:
        return {service: self.ready(service) for service in SERVICES if service}

    def change(self, slices: Slices, hold: bool) -> None:
        """From the slices that were to those that are."""
        before = {service: self.named(service, ("ready",)) for service in SERVICES}
        self.slices = slices
        for service in SERVICES:
            vanished = before[service] - self.named(service)
            until, held = self.held.pop(service, (0.0, set()))
            if self.named(service, ("ready",)) or not hold:
                continue
            if vanished:
                self.held[service] = (self.now + HOLD_SECS, vanished)
            elif held - self.named(service):
                self.held[service] = (until, held - self.named(service))

    def judge(self, before: dict[str, set[str]], touched: frozenset[ServiceKey], may: set[str]) -> None:
        """What differs must be told; what cannot differ must not."""
        after = self.everything()
        assert {key(service) for service in after if after[service] != before[service]} <= touched
        assert touched <= {key(service) for service in may if service}

    # -- events

    @rule(name=NAMES, service=st.sampled_from(SERVICES), states=STATES)
    def apply(self, name: str, service: str, states: dict[str, str]) -> None:
        before, old = self.everything(), self.slices.get(name)
        touched = self.cache.apply(made(name, service, states), self.now)
        self.change({**self.slices, name: (service, states)}, hold=True)
        self.judge(before, touched, {service, old[0] if old else ""})
        if old == (service, states) and list(old[1]) == list(states):
            assert not touched

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        before, old = self.everything(), self.slices.get(name)
        touched = self.cache.delete(made(name, "", {}), self.now)
        self.change({other: what for other, what in self.slices.items() if other != name}, hold=True)
        self.judge(before, touched, {old[0]} if old else set())

    @rule(source=st.sampled_from(["s0", "s1"]), address=st.sampled_from(ADDRESSES), add_first=st.booleans())
    def move(self, source: str, address: str, add_first: bool) -> None:
        """An endpoint goes to slice s2 of the same Service: whatever it was the only one of stays."""
        service, states = self.slices.get(source, ("", {}))
        target_service, target = self.slices.get("s2", (service, {}))
        if not service or service != target_service or states.get(address) != "ready":
            return
        if address in self.named(service, ("unready", "terminating")):
            return  # another slice says otherwise, which counts as soon as this one is silent
        left = {other: state for other, state in states.items() if other != address}
        steps = [("s2", {**target, address: "ready"}), (source, left)]
        for name, endpoints in steps if add_first else reversed(steps):
            self.apply(name, service, endpoints)
            assert self.cache_ready(service), "a pool flickered"

    @rule(half_read=st.booleans())
    def begin_a_list(self, half_read: bool) -> None:
        self.cache.init()
        self.building = {}
        if half_read:
            self.list_a_slice("s0", "a-gw", {"10.0.0.1": "ready"})
            self.cache.init()
            self.building = {}

    @rule(name=NAMES, service=st.sampled_from(SERVICES), states=STATES)
    def list_a_slice(self, name: str, service: str, states: dict[str, str]) -> None:
        self.cache.init_apply(made(name, service, states))
        self.building[name] = (service, states)

    @rule()
    def list_what_is_there(self) -> None:
        for name, (service, states) in self.slices.items():
            self.list_a_slice(name, service, states)

    @rule(name=NAMES)
    def unlist_a_slice(self, name: str) -> None:
        self.cache.init_delete(made(name, "", {}))
        self.building.pop(name, None)

    @rule()
    def end_the_list(self) -> None:
        before, old = self.everything(), self.slices
        may = {service for service in SERVICES if of(old, service) != of(self.building, service)} | set(self.held)
        touched = self.cache.init_done()
        self.change(self.building, hold=False)
        self.building = {}
        self.judge(before, touched, may)

    @rule(steps=st.integers(1, 5))
    def let_time_pass(self, steps: int) -> None:
        before = self.everything()
        self.now += steps * STEP_SECS
        may = {service for service, (until, _) in self.held.items() if until <= self.now}
        touched = self.cache.advance(self.now)
        self.judge(before, touched, may)
        for service in may:
            del self.held[service]
        assert self.cache.due_at > self.now

    # -- what must always hold

    def cache_ready(self, service: str) -> set[str]:
        return set(ready_addresses(self.cache.views(key(service))))

    @invariant()
    def they_agree(self) -> None:
        for service, expected in self.everything().items():
            assert self.cache_ready(service) == expected
        assert {service.name for service in self.cache.services} == {of for of, _ in self.slices.values() if of}
        assert sum(self.cache.skipped.values()) == sum(not of for of, _ in self.slices.values())


def of(slices: Slices, service: str) -> dict[str, Any]:
    return {name: list(states.items()) for name, (belongs, states) in slices.items() if belongs == service}


TestSliceCache = SliceCacheModel.TestCase
